//! Env files, `services.json`, `tokens.json`, and lines of the audit.

use proctor_core::config::envfile;
use proctor_engine::fuzz_entry_points;

pub(crate) fn env_file(bytes: &[u8]) {
    let text = crate::lossy(bytes);
    let variables = match envfile::parse("some.env", &text) {
        Ok(variables) => variables,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused, and nobody knows why");
            let lines = text.split('\n').count();
            for problem in problems {
                assert!((1..=lines).contains(&(problem.line as usize)), "{problem}");
            }
            return;
        }
    };
    assert!(variables.iter().map(|it| it.line).is_sorted(), "lines are out of order");
    let mut written = String::new();
    for variable in &variables {
        assert!(envfile::is_name(&variable.name), "{:?}", variable.name);
        assert!(!variable.value.contains('\0'), "the kernel takes no NUL");
        written += &format!("{}=\"{}\"\n", variable.name, escaped(&variable.value));
    }
    let again = envfile::parse("again.env", &written).expect("what was read can be written");
    let pairs = |it: &envfile::Variable| (it.name.clone(), it.value.clone());
    let (again, read): (Vec<_>, Vec<_>) =
        (again.iter().map(pairs).collect(), variables.iter().map(pairs).collect());
    assert_eq!(again, read);
}

/// The text between double quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A parsed file means the same after it is written again; a rejected one has a reason.
pub(crate) fn services(bytes: &[u8]) {
    match fuzz_entry_points::stored(bytes) {
        Ok(written) => {
            let again = fuzz_entry_points::stored(&written).expect("what was written can be read");
            assert_eq!(written, again);
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// A file is accepted as a whole or not at all, and written again unchanged.
pub(crate) fn tokens(bytes: &[u8]) {
    match fuzz_entry_points::tokens(bytes) {
        Ok(written) => {
            let again = fuzz_entry_points::tokens(&written).expect("what was written can be read");
            assert_eq!(written, again);
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Checks the line unchanged, and with a correct hash: otherwise no altered line would ever be
/// decoded.
pub(crate) fn audit_line(bytes: &[u8]) {
    for line in [bytes.to_vec(), fuzz_entry_points::with_hash(bytes)] {
        match fuzz_entry_points::audit_line(&line) {
            Ok(written) => {
                let plain = |byte: &u8| (0x20..0x7f).contains(byte);
                assert!(written.iter().all(plain), "a line that a terminal acts on");
                let again =
                    fuzz_entry_points::audit_line(&written).expect("what was written can be read");
                assert_eq!(written, again);
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}

pub(crate) fn seeds_tokens() -> Vec<Vec<u8>> {
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let token = |name: &str, rest: &str| {
        format!(
            r#"{{"id":"t1","name":"{name}","role":"viewer","sha256":"{digest}","created":1{rest}}}"#
        )
    };
    let (one, other) = (token("ci", ""), token("x", r#","expires":2,"last_used":null"#));
    [
        r#"{"version":1,"tokens":[]}"#.to_owned(),
        format!(r#"{{"version":1,"tokens":[{one},{other}]}}"#),
        format!(r#"{{"version":1,"tokens":[{one},{one}]}}"#),
        r#"{"version":2}"#.to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

pub(crate) fn seeds_audit_line() -> Vec<Vec<u8>> {
    let begin = r#"{"seq":7,"at":"2026-11-15T07:48:12.345678Z","prev":"00","kind":"#;
    let call =
        r#""who":"local","uid":7,"front":"local","operation":"service.stop","targets":["web"]"#;
    [
        format!(r#"{begin}"started","pid":1,"version":"0.1.0""#),
        format!(r#"{begin}"intent",{call}"#),
        format!(r#"{begin}"result","of":6,"code":"ok","millis":3"#),
        format!(r#"{begin}"refused",{call},"code":"forbidden""#),
        format!(r#"{begin}"read",{call},"code":"ok","millis":0"#),
        format!(r#"{begin}"torn","bytes":4,"sha256":"00""#),
        format!(r#"{begin}"lost","after":3,"up_to":6"#),
        format!(r#"{begin}"no_head""#),
    ]
    .map(String::into_bytes)
    .to_vec()
}

pub(crate) fn seeds_env_file() -> Vec<Vec<u8>> {
    [
        "A=1\nexport B = two # note\r\n\n# comment\n",
        "A=\"x\\ny\\\"\\\\ \\q\" # c\nB='three\n four'\nC=\n",
        "\u{feff}a.b-c=\u{fc} ${B} $C\nA=#c\nB=a#b\nC=b=c",
        "nonsense\n1A=x\nB='open\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(crate) fn seeds_services() -> Vec<Vec<u8>> {
    [
        r#"{"version":1}"#,
        r#"{"version":1,"config":"/srv/proctor.yaml","example":false,"environment":{"A":"1"},"wishes":{"web":"up","db@2":"down"},"args":{"web":["--port","80"]},"added":{"job":{"definition":{"command":"true"},"base_dir":"/srv","environment":null}}}"#,
        r#"{"version":1,"target":true,"texts":{"/srv/proctor.yaml":"services: {}"},"execs":{"web":{"defined":18446744073709551615,"run":{"id":7,"exec":9}}}}"#,
        r#"{"version":1,"added":{"job":{"definition":{"command":"true"},"base_dir":"/srv","environment":null,"owner":"claude-code","lease":{"length":1800000,"until":1763193600000000,"ends":7200000000,"boot":"00112233445566778899aabbccddeeff"}}}}"#,
        r#"{"version":2}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
