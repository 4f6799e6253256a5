//! Locates the binaries under test: beside the test executable, built on demand.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The `victim` binary.
#[track_caller]
pub fn victim() -> PathBuf {
    built("proctor-testkit", "victim")
}

/// The `proctor` binary.
#[track_caller]
pub fn proctor() -> PathBuf {
    built("proctor", "proctor")
}

/// `cargo test --workspace` builds both before any test runs. `cargo test -p …` may not: then this
/// builds them, one test at a time.
#[track_caller]
fn built(package: &str, name: &str) -> PathBuf {
    let path = place(name);
    if path.exists() {
        return path;
    }
    let folder = profile_dir();
    let lock =
        File::create(folder.join(".testkit-build.lock")).expect("the target folder can be written");
    lock.lock().expect("a file can be locked");
    if !path.exists() {
        build(package, name, &folder);
    }
    assert!(path.exists(), "cargo built {package} but there is no {}", path.display());
    path
}

/// The path of a built binary.
pub(crate) fn place(name: &str) -> PathBuf {
    profile_dir().join(name)
}

/// `target/TARGET/debug` of the running test executable, or `target/debug` without an explicit
/// target.
fn profile_dir() -> PathBuf {
    let executable = std::env::current_exe().expect("a test knows its own executable");
    let folder = executable.parent().expect("an executable is in a folder");
    let nested = folder.ends_with("deps") || folder.ends_with("examples");
    let folder =
        if nested { folder.parent().expect("deps is in a profile's folder") } else { folder };
    folder.to_path_buf()
}

#[track_caller]
fn build(package: &str, name: &str, folder: &Path) {
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("a profile has a name");
    let profile = if profile == "debug" { "dev" } else { profile };
    let above = folder.parent().expect("a profile's folder is in the target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", package, "--bin", name, "--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    match above.parent().filter(|_| above.ends_with(env!("TARGET"))) {
        Some(target) => command.args(["--target", env!("TARGET")]).arg("--target-dir").arg(target),
        None => command.arg("--target-dir").arg(above),
    };
    let output = command.output().expect("cargo can be run");
    assert!(
        output.status.success(),
        "cannot build {name}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
