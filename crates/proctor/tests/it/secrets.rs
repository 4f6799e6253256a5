//! More than eighty secrets, planted in every place for secrets: none appears in output, files or logs of Proctor.

use crate::support::{LIMIT, wait_state};
use proctor_testkit::{Home, Http, finish, victim};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// Ordinary values next to the secrets; they stay visible.
const VISIBLE: [&str; 19] = [
    "GIT_AUTHOR_NAME",
    "Ann Author",
    "info,tower=debug",
    "/etc/ssl/server.pem",
    "8f14e45fceea167a5a36dedd4bea2543",
    "postgres://db.internal:5432/app",
    "--max-old-space-size=512",
    "1000:1000",
    "MyApplicationConfiguration",
    "oauth2",
    "2026-01-02",
    "sleep 1000; TOKEN=***",
    "-P 8080",
    "-p 3000:3000",
    "http://host:80/x",
    "image:tag",
    "--user www-data",
    "-u 1000",
    "kept in password=***",
];

/// Names of variables with secrets.
const NAMES: [&str; 20] = [
    "API_KEY",
    "DB_PASSWORD",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "MYSQL_PWD",
    "DB_PASS",
    "PASSPHRASE",
    "AUTHORIZATION",
    "CREDENTIALS",
    "PRIVATE_KEY",
    "GITHUB_PAT",
    "JWT",
    "COOKIE",
    "BEARER",
    "SALT",
    "dbPw",
    "SESSION_ID",
    "WEBHOOK",
    "LICENSE_CODE",
    "OTP",
];

/// All output, and all secrets.
struct Scene {
    home: Home,
    planted: RefCell<Vec<String>>,
    said: RefCell<String>,
}

impl Scene {
    /// Creates a secret; its text names its place.
    fn secret(&self, place: &str) -> String {
        let mut planted = self.planted.borrow_mut();
        let secret = format!("s3cr3t-{}-{place}-x", planted.len());
        planted.push(secret.clone());
        secret
    }

    /// Creates a secret that looks like a word; only its place shows that it is one.
    fn word(&self) -> String {
        let mut planted = self.planted.borrow_mut();
        let letter = |number: usize| char::from(b'a' + u8::try_from(number % 26).unwrap());
        let number = planted.len();
        let secret = format!("correcthorse{}{}", letter(number / 26), letter(number));
        planted.push(secret.clone());
        secret
    }

    /// Returns words of a command line with logins and passwords in many spellings.
    fn spellings(&self) -> Vec<String> {
        let login = |option: &str| format!("{option}joe:{}&three", self.word());
        let attached = |name: &str| format!("{name}{}", self.word());
        let next = |words: &str| {
            let words = words.split(' ').map(str::to_owned);
            words.chain([self.word()]).collect::<Vec<_>>()
        };
        [
            ["--user=", "-u", "-sSu", "--proxy-user=", "-U"].map(login).to_vec(),
            vec!["-sSu".into(), login(""), "-fu".into(), login("")],
            ["X-API-Key:", "Authorization:", "--hdr=Authorization:", "password:", "--token:"]
                .map(attached)
                .to_vec(),
            next("redis-server --requirepass"),
            next("sqlcmd -P"),
            next("mosquitto_sub -P"),
            next("password ="),
            vec![format!("[\"Bearer {}\"]", self.word())],
        ]
        .concat()
    }

    /// Runs a command as text and as JSON, and keeps all output.
    fn run(&self, words: &[&str], environment: &[(&str, String)]) {
        for json in [false, true] {
            let form: &[&str] = if json { &["--json"] } else { &[] };
            let mut command = self.home.command(form.iter().chain(words));
            command.envs(environment.iter().map(|(name, value)| (*name, value)));
            let output = finish(&mut command, LIMIT);
            let mut said = self.said.borrow_mut();
            said.push_str(&format!("\n$ {}\n", words[0]));
            said.push_str(&String::from_utf8_lossy(&output.stdout));
            said.push_str(&String::from_utf8_lossy(&output.stderr));
        }
    }

    fn configuration(&self) -> String {
        let env: Vec<String> =
            NAMES.iter().map(|name| format!("{name}: {}", self.secret(name))).collect();
        let spellings = self.spellings();
        let args = [
            format!("--token={}", self.secret("arg")),
            "--password".into(),
            self.secret("next-arg"),
            format!("postgres://me:{}@db/x", self.secret("login")),
            format!("http://h/?a=b&api_key={}&c=d", self.secret("parameter")),
            format!("X-Api-Key: {}", self.secret("header")),
            format!("SECRET={}", self.secret("assigned")),
            format!("{{\"user\":\"me\",\"password\":\"{}\"}}", self.secret("json")),
            format!("{{\"db\": {{\"apiKey\": \"{}\"}}}}", self.secret("json-inner")),
            "-u".into(),
            format!("admin:{}", self.secret("login-option")),
            "--github-pat".into(),
            self.secret("pat-option"),
            format!("Cookie: sid={}", self.secret("cookie-header")),
            format!("admin:{}@db:5432", self.secret("bare-login")),
            format!("pass:{}", self.secret("openssl")),
        ];
        let args = args.iter().chain(&spellings).map(|arg| format!("{arg:?}"));
        let args: Vec<String> = args.collect();
        let all = [
            "${OUTER_TOKEN}",
            "${OUTER_SECRET}",
            "${DOTENV_TOKEN}",
            "x${OUTER_PASSWORD}y",
            "${OUTER_PAT}",
        ]
        .map(|text| format!("{text:?}"));
        format!(
            "supervisor:\n  security:\n    authentication: {{ token: {} }}\n  env: {{ SHARED_SECRET: {} }}\n  services:\n\
             \x20   web:\n      description: kept in password={}\n      command: [/bin/sh, -c, exec sleep 1000, sh]\n      args: [{}, {}]\n      env: {{ {} }}\n      env_file: more.env\n\
             \x20   sick:\n      command: [{:?}]\n      health_check_url: http://127.0.0.1:1/?token={}\n      health_check: {{ interval: 0.1, retries: 1, start_period: 0 }}\n\
             \x20   plain:\n      command: [sleep, '1000', --max-old-space-size=512, -u, '1000:1000', -u, '1000', --user, www-data, -P, '8080', -p, '3000:3000', 'http://host:80/x', 'image:tag', MyApplicationConfiguration]\n      autostart: false\n\
             \x20     env: {{ GIT_AUTHOR_NAME: Ann Author, RUST_LOG: 'info,tower=debug', TLS_KEY_FILE: /etc/ssl/server.pem, AUTH_TYPE: oauth2, SINCE: 2026-01-02,\n\
             \x20            REVISION: 8f14e45fceea167a5a36dedd4bea2543, DATABASE: 'postgres://db.internal:5432/app' }}\n\
             \x20   shell:\n      shell: true\n      command: 'sleep 1000; TOKEN={} exec x'\n",
            self.secret("configured"),
            self.secret("shared"),
            self.word(),
            args.join(", "),
            all.join(", "),
            env.join(", "),
            victim(),
            self.secret("health"),
            self.secret("script"),
        )
    }
}

fn environment(scene: &Scene) -> Vec<(&'static str, String)> {
    [
        "OUTER_TOKEN",
        "OUTER_SECRET",
        "OUTER_PASSWORD",
        "SUPERVISOR_TOKEN",
        "OTHER_API_KEY",
        "OUTER_PAT",
    ]
    .map(|name| (name, scene.secret(name)))
    .into()
}

/// Returns all files that others may see: the audit log and our own log, but not the owner's private state.
fn files(home: &Path) -> String {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let audit = std::fs::read_dir(home.join("audit")).unwrap();
    let audit: String = audit.map(|entry| read(entry.unwrap().path())).collect();
    audit
        + &read(home.join("audit.head"))
        + &read(home.join("proctor.log"))
        + &read(home.join("tokens.json"))
}

#[test]
fn planted_secrets_are_seen_nowhere() {
    let scene =
        Scene { home: Home::listening(), planted: RefCell::default(), said: RefCell::default() };
    let environment = environment(&scene);
    let dotenv = format!("DOTENV_TOKEN={}\n", scene.secret("dotenv"));
    scene.home.write(".env", &dotenv);
    let more =
        [1, 2, 3, 4, 5, 6, 7, 8].map(|n| format!("FILE_TOKEN_{n}={}\n", scene.secret("env-file")));
    let odd = [1, 2, 3].map(|n| format!("PLAIN_NAME_{n}={}\n", scene.secret("odd-in-env-file")));
    scene.home.write("more.env", &(more.concat() + &odd.concat() + "LEVEL=debug\n"));
    scene.home.write("proctor.yaml", &scene.configuration());
    let run = |words: &[&str]| scene.run(words, &environment);
    run(&["config", "--check", "proctor.yaml"]);
    run(&["up", "-d"]);
    wait_state(&scene.home, "web", "running");
    let first = std::fs::read_to_string(scene.home.path().join("token")).unwrap();
    scene.planted.borrow_mut().push(first.trim_end().to_owned());
    added(&scene, &run);
    mistakes(&scene, &run);
    for words in [
        &["list"][..],
        &["status"],
        &["status", "web"],
        &["status", "sick"],
        &["config"],
        &["daemon", "status"],
        &["operation", "list"],
        &["events"],
        &["health"],
        &["metrics"],
        &["audit", "read", "-n", "1000"],
        &["audit", "verify"],
        &["token", "list"],
        &["token", "path"],
        &["logs", "web"],
    ] {
        run(words);
    }
    over_the_network(&scene, first.trim_end());
    run(&["down"]);
    let planted = scene.planted.take();
    assert!(planted.len() >= 80, "only {} were planted", planted.len());
    let (said, files) = (scene.said.take(), files(scene.home.path()));
    let seen = |(what, text): (&'static str, &String)| {
        let leaks = |line: &&str| planted.iter().any(|secret| line.contains(secret.as_str()));
        text.lines().filter(leaks).map(|line| format!("{what}: {line}")).collect::<Vec<_>>()
    };
    let seen: Vec<String> =
        [("said", &said), ("written", &files)].into_iter().flat_map(seen).collect();
    assert!(seen.is_empty(), "seen:\n{}", seen.join("\n"));
    assert!(said.contains("***") && files.contains("service.up"), "the test looks at nothing");
    for visible in VISIBLE {
        assert!(said.contains(visible), "'{visible}' is hidden");
    }
}

/// Requests at the ports, without a token and as an admin.
fn over_the_network(scene: &Scene, token: &str) {
    let nameless = Http::at(scene.home.port("http"));
    let say = |text: &[u8]| scene.said.borrow_mut().push_str(&String::from_utf8_lossy(text));
    for client in [nameless.clone(), nameless.token(token)] {
        for path in [
            "/api/v1/services",
            "/api/v1/services/web",
            "/api/v1/operations",
            "/api/v1/config",
            "/api/v1/tokens",
            "/api/v1/audit",
            "/metrics",
            "/health",
            "/dashboard/api/system/status",
            "/dashboard/api/logs",
        ] {
            say(&client.get(path).body);
        }
    }
    let mut stream = TcpStream::connect(("127.0.0.1", scene.home.port("tcp"))).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let asked = format!(
        "status\n\"Status\"\nauth {token}\nstatus web\nconfig\n{{\"op\":\"config.show\"}}\naudit read -n 1000\n\"Status\"\nquit\n"
    );
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    say(&answers);
}

/// Services and commands from requests.
fn added(scene: &Scene, run: &impl Fn(&[&str])) {
    let variable = format!("ADDED_TOKEN={}", scene.secret("added"));
    let option = format!("--token={}", scene.secret("added-arg"));
    let sleep = ["/bin/sh", "-c", "exec sleep 1000", "sh", &option];
    run(&[&["add", "extra", "--env", &variable, "--start", "--"], &sleep[..]].concat());
    run(&["status", "extra"]);
    let args = format!("--password {}", scene.secret("restart-arg"));
    run(&["restart", "extra", "--args", &args]);
    let variable = format!("RUN_TOKEN={}", scene.secret("start"));
    run(&["start", "--name", "job", "--env", &variable, "--command", "sleep 1000"]);
    run(&["execute", "--", "false", "--token", &scene.secret("executed")]);
    run(&["execute", "--", "false", "-u", &format!("admin:{}", scene.secret("executed-login"))]);
    run(&["execute", "--", "false", "--odd-name", &scene.secret("executed-odd")]);
    run(&["execute", "--", "false", &format!("ODD={}", scene.secret("executed-variable"))]);
    run(&["execute", "--", "false", &format!("{{\"pin\":\"{}\"}}", scene.secret("executed-json"))]);
    let spellings = [vec!["false".to_owned()], scene.spellings()].concat();
    let words: Vec<&str> = spellings.iter().map(String::as_str).collect();
    run(&[&["execute", "--"], &words[..]].concat());
    run(&["execute", "--command", &words.join(" ").replace('&', "+")]);
    let script = format!("true; curl -sSu 'joe:{}!x' h", scene.word());
    run(&["execute", "--shell", "--command", &script]);
    let script = format!("true; mysql -uroot -p{} x", scene.secret("executed-mysql"));
    run(&["execute", "--shell", "--command", &script]);
    run(&["run", "--", "sh", "-c", "exit 3", "sh", &format!("--pw={}", scene.secret("run"))]);
    let (pre, variable) = (
        format!("true --api-key {}", scene.secret("pre")),
        format!("K_TOKEN={}", scene.secret("once")),
    );
    run(&["custom-restart", "extra", "--pre-command", &pre, "--env", &variable]);
    run(&["remove", "extra"]);
}

/// Errors do not quote the wrong value.
fn mistakes(scene: &Scene, run: &impl Fn(&[&str])) {
    let variable = format!("BAD_TOKEN={}", scene.secret("no-program"));
    run(&[
        "start",
        "--name",
        "bad",
        "--env",
        &variable,
        "--",
        "/nowhere/program",
        "--token",
        &scene.secret("no-program-arg"),
    ]);
    run(&["start", "--name", "bad/name", "--env", &variable, "--command", "true"]);
    run(&["execute", "--", "/nowhere/program", "--secret", &scene.secret("no-command")]);
    let broken = [
        format!("port: {{ token: {} }}", scene.secret("wrong-kind")),
        format!("command: x\n      port: {}", scene.secret("wrong-port")),
        format!("command: x\n      restart: {}", scene.secret("wrong-block")),
        format!("command: x\n      restart: {{ policy: {} }}", scene.secret("wrong-choice")),
        format!("command: x\n      user: '{} x'", scene.secret("wrong-user")),
        format!("command: x\n      env: {}", scene.secret("wrong-env-shape")),
        format!("command: \"x '{}\"", scene.secret("wrong-quote")),
        format!("command: x\n      umask: {}", scene.secret("wrong-umask")),
        format!("command: x\n      stop: {{ signal: 'TOKEN={}' }}", scene.secret("wrong-signal")),
        format!(
            "command: x\n      health_check_url: 'https://me:{}@h/'",
            scene.secret("wrong-url")
        ),
        format!(
            "command: x\n      env: ['{}']",
            format_args!("TOKEN {}", scene.secret("wrong-env"))
        ),
    ];
    for (number, keys) in broken.iter().enumerate() {
        let name = format!("broken{number}.yaml");
        let text = format!("supervisor:\n  services:\n    web:\n      {keys}\n");
        scene.home.write(&name, &text);
        run(&["config", "--check", &name]);
        run(&["up", "-d", "--config", &name]);
    }
    let short = format!(
        "supervisor:\n  security: {{ authentication: {{ token: '{} {}' }} }}\n  services: {{}}\n",
        scene.secret("wrong-token"),
        scene.secret("wrong-token-2"),
    );
    scene.home.write("short.yaml", &short);
    run(&["config", "--check", "short.yaml"]);
}
