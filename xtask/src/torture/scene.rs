//! A home, its services and the commands run in it.

use super::process::{self, Role};
use super::reaper;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a command, whatever is killed meanwhile.
const COMMAND_LIMIT: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(1);

/// Exit code of a command that met Proctor during a replacement of one of its processes.
const UNAVAILABLE: i32 = 5;

/// Services that must never restart: one process from the first moment to the last.
pub(crate) const STEADY: [&str; 5] = ["fast", "slow", "short", "idle", "tree"];

/// The service that commands start, stop and restart; it prints three lines and exits with 7 on
/// TERM.
pub(crate) const TURNED: &str = "turned";

/// Like [`TURNED`], with descendants that ignore TERM and are spread over sessions.
pub(crate) const THORNY: &str = "thorny";

/// A service that keeps printing three lines and exiting with 7.
pub(crate) const CRASHING: &str = "crashing";

/// A service that is added and removed at run time.
pub(crate) const EXTRA: &str = "extra";

/// The programs under test.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) proctor: PathBuf,
    pub(crate) victim: PathBuf,
}

pub(crate) struct Scene {
    pub(crate) home: PathBuf,
    programs: Programs,
    answers: u64,
}

/// A running command.
pub(crate) struct Running {
    child: Child,
    words: String,
    begun: Instant,
    answer: PathBuf,
}

/// The exit and output of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) words: String,
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
    pub(crate) errors: String,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        self.status.success()
    }

    fn in_full(&self) -> String {
        format!("`proctor {}` ended with {}: {}{}", self.words, self.status, self.said, self.errors)
    }
}

impl Scene {
    /// Creates a home with all services up.
    pub(crate) fn begin(programs: &Programs, crashing: bool) -> Result<Scene> {
        // Short, because a socket's path has 108 bytes.
        let home = fs::canonicalize(std::env::temp_dir())
            .context("cannot find the folder for temporary files")?;
        let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let home = home.join(format!("torture-{:x}", begun.as_micros()));
        for folder in ["failpoints", "answers"] {
            fs::create_dir_all(home.join(folder))
                .with_context(|| format!("cannot make {}", home.display()))?;
        }
        let mut scene = Scene { home, programs: programs.clone(), answers: 0 };
        scene.write("proctor.yaml", &scene.config(crashing))?;
        scene.must(&["up", "-d", "--no-wait"])?;
        Ok(scene)
    }

    fn config(&self, crashing: bool) -> String {
        let endless = ["--lines", "1000000000", "--stderr"];
        let often = |size: &str, files: u32| {
            format!("      logs: {{ max_size: {size}, max_files: {files}, max_total: 1GiB }}\n")
        };
        let three = ["--lines", "3"];
        let mut services = vec![
            self.service(
                "fast",
                &[&["--every", "5", "--batch", "40"], &endless[..]],
                &often("64KiB", 300),
            ),
            self.service("slow", &[&["--every", "2"], &endless[..]], &often("4096", 400)),
            self.service("short", &[&["--every", "4"], &endless[..]], &often("4096", 2)),
            self.service("idle", &[], ""),
            self.service(
                "tree",
                &[&["--fork", "2", "--setsid", "--double-fork", "--ignore-term"]],
                "      stop: { grace: 100ms }\n",
            ),
            self.service(TURNED, &[&["--term-exit", "7"], &three[..]], ""),
            self.service(
                THORNY,
                &[&["--fork", "1", "--setsid", "--double-fork", "--ignore-term"], &three[..]],
                "      stop: { grace: 20ms }\n",
            ),
        ];
        if crashing {
            let crash = ["--exit-after", "120", "--exit", "7"];
            services.push(self.service(CRASHING, &[&crash, &three[..]], ""));
        }
        format!("supervisor:\n  services:\n{}", services.concat())
    }

    /// An orderly shutdown of Proctor leaves the steady ones running.
    fn service(&self, name: &str, args: &[&[&str]], keys: &str) -> String {
        let pids = self.pid_file(name).display().to_string();
        let words = [&["--pid-file", &pids], args.concat().as_slice()].concat();
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let leave = if STEADY.contains(&name) { "leave" } else { "stop" };
        format!(
            "    {name}:\n      command: [{:?}]\n      args: [{}]\n      restart_policy: always\n      \
             max_restarts: unlimited\n      restart: {{ delay: 0 }}\n      on_shutdown: {leave}\n{keys}",
            self.programs.victim,
            words.join(", ")
        )
    }

    /// The file in which every process of a service records its start.
    pub(crate) fn pid_file(&self, service: &str) -> PathBuf {
        self.home.join(format!("{service}.pids"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.home.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Starts `proctor --home … WORDS`.
    pub(crate) fn start(&mut self, words: &[&str]) -> Result<Running> {
        self.answers += 1;
        let answer = self.home.join(format!("answers/{}", self.answers));
        let file = |end| {
            let path = answer.with_extension(end);
            File::create(path).context("cannot create a file for the output")
        };
        let mut command = Command::new(&self.programs.proctor);
        command
            .arg("--home")
            .arg(&self.home)
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
            .env("PROCTOR_FAILPOINTS", self.home.join("failpoints"))
            .current_dir(&self.home)
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?);
        let child = reaper::spawn(&mut command)?;
        Ok(Running { child, words: words.join(" "), begun: Instant::now(), answer })
    }

    /// The victim, as a command that is added at run time.
    pub(crate) fn victim(&self) -> String {
        self.programs.victim.display().to_string()
    }

    pub(crate) fn run(&mut self, words: &[&str]) -> Result<Answer> {
        self.start(words)?.wait()
    }

    /// Retries while Proctor is unavailable.
    pub(crate) fn insist(&mut self, words: &[&str]) -> Result<Answer> {
        let begun = Instant::now();
        loop {
            let answer = self.run(words)?;
            if answer.status.code() != Some(UNAVAILABLE) || begun.elapsed() > COMMAND_LIMIT {
                return Ok(answer);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Any failure is a violation.
    pub(crate) fn must(&mut self, words: &[&str]) -> Result<String> {
        let answer = self.run(words)?;
        ensure!(answer.is_ok(), "{}", answer.in_full());
        Ok(answer.said)
    }

    /// All services with their reported status.
    pub(crate) fn status(&mut self) -> Result<Vec<Value>> {
        let said = self.must(&["--json", "status", "--no-usage"])?;
        let status: Value =
            serde_json::from_str(&said).with_context(|| format!("status: {said}"))?;
        status["services"].as_array().cloned().context("status has no list of services")
    }

    pub(crate) fn own(&self, role: Role) -> Vec<u32> {
        process::own(&self.home, role)
    }

    /// Sends SIGKILL to every process in this role; returns their number.
    pub(crate) fn kill(&self, role: Role) -> u64 {
        let killed = self.own(role).into_iter().filter(|pid| process::kill_own(*pid, &self.home));
        killed.count() as u64
    }

    /// Sends SIGKILL to keeper and daemon until neither is left, so that none takes over from the
    /// other; returns their number.
    pub(crate) fn kill_both(&self) -> u64 {
        let mut killed = 0;
        loop {
            match self.kill(Role::Keeper) + self.kill(Role::Daemon) {
                0 => return killed,
                more => killed += more,
            }
        }
    }

    /// Recovers Proctor, whatever was killed.
    pub(crate) fn recover(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let answer = self.run(&["daemon", "start"])?;
            if answer.is_ok() {
                return Ok(());
            }
            if begun.elapsed() > COMMAND_LIMIT {
                bail!("Proctor did not recover: {}", answer.in_full());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Removes the folder after success.
    pub(crate) fn remove(self) -> Result<()> {
        process::kill_all(&self.home)?;
        fs::remove_dir_all(&self.home)
            .with_context(|| format!("cannot remove {}", self.home.display()))
    }
}

/// No process of a scene outlives it. Its folder does, for an investigation.
impl Drop for Scene {
    fn drop(&mut self) {
        // There is nobody to report to.
        let _ = process::kill_all(&self.home);
    }
}

impl Running {
    pub(crate) fn wait(mut self) -> Result<Answer> {
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for a command")? {
                reaper::forget(self.child.id());
                let [said, errors] =
                    ["out", "err"].map(|end| take(&self.answer.with_extension(end)));
                let answer = Answer { words: self.words, status, said, errors };
                // 101 is a panic; no command of ours ends by a signal.
                let ended = answer.status.code().is_some_and(|code| code != 101);
                ensure!(ended, "{}", answer.in_full());
                return Ok(answer);
            }
            if self.begun.elapsed() > COMMAND_LIMIT {
                let _ = self.child.kill();
                bail!("`proctor {}` hangs", self.words);
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn take(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    // It would only confuse the reader of a kept home.
    let _ = fs::remove_file(path);
    String::from_utf8_lossy(&bytes).into_owned()
}
