//! The folder in which peers are installed once and everything runs. Packages are installed by name
//! only, with the tools of this machine; an unavailable package is an error for that one peer.

use super::interrupt;
use crate::node::{self, Node};
use crate::step::{output, succeed};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Created when an installation is complete, so that an incomplete one is repeated.
const DONE: &str = "installed";

/// Default location of runtime folders.
const RUNTIME: &str = "/dev/shm";

pub(crate) struct Scratch {
    pub(crate) folder: PathBuf,
    /// On the runtime file system.
    pub(crate) runtime: PathBuf,
    /// The release build of Proctor, copied as if installed. A linker writes its output page by
    /// page, and such a file stays in memory page by page, which costs each start some hundredths
    /// of a millisecond.
    pub(crate) proctor: PathBuf,
}

impl Scratch {
    pub(crate) fn make(folder: &Path, proctor: PathBuf) -> Result<Scratch> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.canonicalize().context("cannot find the scratch folder")?;
        let text = folder.to_str().context("the scratch folder has a name that is not text")?;
        if text.contains(|letter: char| letter.is_whitespace() || "'\"\\$%".contains(letter)) {
            bail!("{text} has a letter that some configurations cannot hold: give --scratch DIR");
        }
        let above =
            std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| RUNTIME.into(), PathBuf::from);
        let runtime = above.join(format!("proctor-bench-{}", std::process::id()));
        fs::create_dir_all(&runtime)
            .with_context(|| format!("cannot make {}", runtime.display()))?;
        let installed = folder.join("proctor");
        // It may still run from an earlier benchmark that was killed.
        if installed.exists() {
            fs::remove_file(&installed).context("cannot remove the program of before")?;
        }
        fs::copy(&proctor, &installed)
            .with_context(|| format!("cannot copy {}", proctor.display()))?;
        Ok(Scratch { folder, runtime, proctor: installed })
    }

    /// Removes this machine's folders from a text for the page.
    pub(crate) fn hide(&self, text: &str) -> String {
        [(&self.proctor, "PROCTOR"), (&self.folder, "SCRATCH"), (&self.runtime, "RUNTIME")]
            .into_iter()
            .fold(text.to_owned(), |text, (path, word)| {
                text.replace(&path.display().to_string(), word)
            })
    }

    /// A folder for one run of one supervisor; removes the leftovers of an earlier benchmark.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("run").join(name.replace(['/', ' '], "-"));
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Removes everything but the installations.
    pub(crate) fn clear(&self) -> Result<()> {
        fs::remove_dir_all(&self.runtime)
            .with_context(|| format!("cannot remove {}", self.runtime.display()))?;
        let folder = self.folder.join("run");
        if !folder.exists() {
            return Ok(());
        }
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
    }

    /// Installs unless already done.
    fn once(&self, name: &str, install: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        if folder.join(DONE).exists() {
            return Ok(folder);
        }
        interrupt::check()?;
        println!("installing {name}");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("cannot remove half an installation")?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        install(&folder)?;
        fs::write(folder.join(DONE), "").context("cannot record the installation")?;
        Ok(folder)
    }

    /// Installs a package of PyPI in its own environment.
    pub(crate) fn python(&self, package: &str) -> Result<PathBuf> {
        self.once(package, |folder| {
            let mut venv = Command::new("python3");
            venv.args(["-m", "venv"]).arg(folder);
            succeed(venv)?;
            let mut pip = Command::new(folder.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", package]);
            succeed(pip)
        })
    }

    /// Node of this machine, or from PyPI if that is missing or too old.
    pub(crate) fn node_itself(&self) -> Result<Node> {
        match Node::of_machine() {
            Some(node) => Ok(node),
            None => Node::of_python(&self.python(node::PYTHON_PACKAGE)?),
        }
    }

    /// Installs packages of npm in a folder of that name; `options` are npm's.
    pub(crate) fn node_packages(
        &self,
        name: &str,
        node: &Node,
        packages: &[&str],
        options: &[&str],
    ) -> Result<PathBuf> {
        self.once(name, |folder| node.install(folder, packages, options))
    }

    /// Installs a package of npm below the folder.
    pub(crate) fn node(&self, package: &str) -> Result<PathBuf> {
        self.once(package, |folder| {
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
            npm.arg(folder).arg(package);
            succeed(npm)
        })
    }

    /// Builds a program of crates.io with its own lock file and its authors' settings: our own
    /// flags are for Proctor.
    pub(crate) fn rust(&self, package: &str) -> Result<PathBuf> {
        self.once(package, |folder| {
            let mut cargo = crate::step::cargo(&["install", "--locked", "--quiet", package])?;
            cargo.arg("--root").arg(folder).env("CARGO_ENCODED_RUSTFLAGS", "");
            succeed(cargo)
        })
    }

    /// Unpacks a package of Debian, and those of its dependencies whose names start with `needed`,
    /// without installing them.
    pub(crate) fn debian(&self, package: &str, needed: &[&str]) -> Result<PathBuf> {
        self.once(package, |folder| {
            let mut names = vec![package.to_owned()];
            names.extend(dependencies(package, needed)?);
            let mut download = Command::new("apt-get");
            download.args(["download", "--quiet"]).args(&names).current_dir(folder);
            // Discards the warning that the downloader's user cannot write to our folder.
            output(download)?;
            for archive in super::adapter::sorted_files(folder, |name| name.ends_with(".deb")) {
                let mut unpack = Command::new("dpkg");
                unpack.arg("-x").arg(archive).arg(folder);
                succeed(unpack)?;
            }
            Ok(())
        })
    }

    /// Compiles one of our C programs each time, because its source may have changed.
    pub(crate) fn compile(&self, name: &str, source: &str, flags: &[&str]) -> Result<PathBuf> {
        let folder = self.folder.join("bare");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let (text, program) = (folder.join(format!("{name}.c")), folder.join(name));
        fs::write(&text, source).with_context(|| format!("cannot write {}", text.display()))?;
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Wextra", "-static"]).args(flags);
        cc.arg("-o").arg(&program).arg(&text);
        succeed(cc).context("a C compiler and a static libc are needed")?;
        Ok(program)
    }
}

fn dependencies(package: &str, needed: &[&str]) -> Result<Vec<String>> {
    let mut depends = Command::new("apt-cache");
    depends.args(["depends", "--important", package]);
    let listed = output(depends)?;
    // A leading bar marks an alternative.
    let bare = |line| str::trim(line).trim_start_matches('|');
    let names = listed.lines().map(bare).filter_map(|line| line.strip_prefix("Depends: "));
    let wanted = names.filter(|name| needed.iter().any(|start| name.starts_with(start)));
    Ok(wanted.map(str::to_owned).collect())
}
