//! `cargo xtask schemathesis`: tests `/openapi.json` against the real server with generated
//! requests.
//!
//! It runs once as an operator and once as an admin, each with its own home. It omits operations
//! that would end the server under test, revoke its token, or never end.

use crate::served::{self, Served};
use crate::step::{root, succeed};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const USAGE: &str = "\
usage: cargo xtask schemathesis [--examples N] [--seed S] [--built]

  --examples N  extra examples for each path, besides those that cover its description; default: 5
  --seed S      seed of the random choices
  --built       use the binary that tests have built, instead of a new build";

/// An exact version; a new one is tested before it is used.
const PACKAGE: &str = "schemathesis==4.32.5";

const EXAMPLES: &str = "5";

/// A fixed seed, so that a new failure comes from the change.
const SEED: &str = "1";

/// The checks of every response. Acceptance of valid data is not among them, because no schema
/// knows whether a service exists.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth";

const LEFT_OUT: &str =
    r"stream$|/daemon/(stop|upgrade)$|/service/down$|/token/revoke$|/tokens/\{name\}";

/// The address is in the file, because a request may bring another environment.
const CONFIG: &str = "\
supervisor:
  port: off
  http: { port: 0 }
  services:
    web: { command: [sh, -c, 'while :; do date; sleep 1; done'] }
    db: { command: sleep 100000, autostart: false }
";

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (mut examples, mut seed, mut is_built) = (EXAMPLES, SEED, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--examples" => {
                examples = words.next().with_context(|| format!("how many?\n{USAGE}"))?
            }
            "--seed" => seed = words.next().with_context(|| format!("which?\n{USAGE}"))?,
            "--built" => is_built = true,
            unknown => anyhow::bail!("unknown: {unknown}\n{USAGE}"),
        }
    }
    let program = install()?;
    let proctor = served::program("proctor", "proctor", is_built)?;
    for role in ["operator", "admin"] {
        println!("== as {role}");
        let served = Served::start(&proctor, "schemathesis", CONFIG, &[])?;
        try_everything(&served, &program, role, (examples, seed))?;
    }
    Ok(())
}

/// Installs it in its own environment, below the target folder.
fn install() -> Result<PathBuf> {
    let folder = root()?.join("target/tools/schemathesis");
    let program = folder.join("bin/st");
    let note = folder.join(PACKAGE);
    if !note.is_file() {
        println!("== installing {PACKAGE} below {}", folder.display());
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(&folder);
        succeed(venv).context("python3 with venv is needed")?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", PACKAGE]);
        succeed(pip)?;
        std::fs::write(&note, "").context("cannot record the installation")?;
    }
    Ok(program)
}

fn try_everything(
    served: &Served,
    program: &Path,
    role: &str,
    (examples, seed): (&str, &str),
) -> Result<()> {
    let before = served.daemon_pid()?;
    let address = served.address()?;
    let token = served.token("tester", role)?;
    let mut st = Command::new(program);
    st.arg("run").arg(format!("http://{address}/openapi.json"));
    st.args(["--url", &format!("http://{address}"), "--checks", CHECKS]);
    st.args(["--header", &format!("Authorization: Bearer {token}")]);
    st.args(["--phases", "examples,coverage,fuzzing", "--max-examples", examples]);
    st.args(["--seed", seed]);
    st.args(["--exclude-path-regex", LEFT_OUT, "--request-timeout", "20"]);
    st.args(["--workers", "2", "--warnings", "off", "--continue-on-failure"]);
    st.env("SCHEMATHESIS_HOOKS", root()?.join("xtask/src/schemathesis/hooks.py"));
    st.current_dir(&served.home);
    succeed(st)?;
    ensure!(served.daemon_pid()? == before, "the daemon was replaced");
    Ok(())
}
