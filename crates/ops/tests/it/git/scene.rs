//! Real repositories in a folder of the test, and a daemon whose root is that folder.

use crate::played::Place;
use proctor_ops::dispatch::dispatch;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Context};
use proctor_ops::reply::Form;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(super) struct Scene {
    pub(super) place: Place,
    /// Folder of proctor.yaml and the repositories.
    pub(super) root: PathBuf,
    /// Folder next to it.
    pub(super) outside: PathBuf,
    /// Home folder of the owner.
    pub(super) home: PathBuf,
}

impl Scene {
    pub(super) fn new() -> Scene {
        let place = Place::new();
        let folder = place.folder.path().canonicalize().unwrap();
        let [root, outside, home] = ["root", "outside", "home"].map(|name| folder.join(name));
        for path in [&root, &outside, &home] {
            fs::create_dir(path).unwrap();
        }
        fs::write(outside.join("kept"), "kept\n").unwrap();
        fs::write(home.join(".gitconfig"), OWNER).unwrap();
        Scene { place, root, outside, home }
    }

    /// Runs a daemon with these keys in `supervisor:` and these variables.
    pub(super) fn daemon(&self, keys: &str, variables: Value, body: impl AsyncFnOnce(Asker)) {
        let file = self.root.join("proctor.yaml");
        fs::write(&file, format!("supervisor:\n  {keys}\n  services: {{}}\n")).unwrap();
        let mut environment = json!({ "HOME": self.home, "PATH": std::env::var("PATH").unwrap() });
        for (name, value) in variables.as_object().into_iter().flatten() {
            environment[name] = value.clone();
        }
        self.place.daemon(async |context| {
            let caller = Asker(context);
            let up = json!({ "config": file, "environment": environment, "base_dir": "/" });
            caller.call("service.up", up).await.unwrap();
            body(caller).await;
        });
    }

    /// Runs the installed git without restrictions, as the owner would.
    pub(super) fn plain(&self, folder: &Path, words: &[&str]) -> Output {
        let mut git = Command::new("git");
        git.args(words).current_dir(folder).env_clear().stdin(std::process::Stdio::null());
        git.env("HOME", &self.home).env("PATH", std::env::var("PATH").unwrap()).env("LC_ALL", "C");
        git.output().unwrap()
    }

    /// Runs git, which must succeed, and returns its output without the last line end.
    #[track_caller]
    pub(super) fn git(&self, folder: &Path, words: &[&str]) -> String {
        let output = self.plain(folder, words);
        assert!(output.status.success(), "git {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Creates a repository with one commit of these files.
    pub(super) fn repository(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(&path).unwrap();
        self.git(&path, &["init", "-q", "-b", "main", "--template="]);
        for (name, text) in files {
            put(&path, name, text);
        }
        self.git(&path, &["add", "-A"]);
        self.git(&path, &["commit", "-q", "--allow-empty", "-m", "first"]);
        path
    }

    /// Creates two branches that changed the same line; `main` is checked out.
    pub(super) fn clashing(&self, name: &str) -> PathBuf {
        let path = self.repository(name, &[("f", "1\n2\n3\n"), ("gone", "x\n"), ("kept", "k\n")]);
        self.git(&path, &["switch", "-q", "-c", "other"]);
        put(&path, "f", "1\ntheirs\n3\n");
        put(&path, "gone", "changed\n");
        self.git(&path, &["commit", "-q", "-a", "-m", "theirs"]);
        self.git(&path, &["switch", "-q", "main"]);
        put(&path, "f", "1\nours\n3\n");
        fs::remove_file(path.join("gone")).unwrap();
        self.git(&path, &["commit", "-q", "-a", "-m", "ours"]);
        path
    }

    /// Folder of template repositories.
    pub(super) fn models(&self) -> PathBuf {
        self.root.parent().unwrap().join("models")
    }

    /// Checks that everything outside of the root is unchanged.
    #[track_caller]
    pub(super) fn check_outside(&self, what: &str) {
        let names: Vec<_> = fs::read_dir(&self.outside).unwrap().map(|it| it.unwrap()).collect();
        assert_eq!(names.len(), 1, "{what}: {names:?}");
        assert_eq!(fs::read_to_string(self.outside.join("kept")).unwrap(), "kept\n", "{what}");
    }
}

const OWNER: &str =
    "[user]\n\tname = Owner\n\temail = owner@example.org\n[init]\n\tdefaultBranch = main\n";

/// Copies a folder with its content and times, so git's cached data is valid for the copy.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &copied);
            continue;
        }
        fs::copy(&path, &copied).unwrap();
        // A pack is read-only, so its times cannot be set; they do not matter.
        if let Ok(file) = fs::File::options().append(true).open(&copied) {
            file.set_modified(entry.metadata().unwrap().modified().unwrap()).unwrap();
        }
    }
}

pub(super) fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A caller of operations.
#[derive(Clone)]
pub(super) struct Asker(pub(super) Context);

impl Asker {
    pub(super) async fn call(&self, name: &str, input: Value) -> Result<Value, OpError> {
        let context = self.0.called_by(Caller::local(0));
        let reply = dispatch(&context, name, input, Form::Json).await?;
        Ok(serde_json::from_str(&reply.text).unwrap())
    }

    /// Returns the output; the call must succeed.
    pub(super) async fn ok(&self, name: &str, repo: &Path, mut input: Value) -> Value {
        input["repo"] = json!(repo);
        let said = self.call(name, input.clone()).await;
        said.unwrap_or_else(|error| panic!("{name} {input}: {error:?}"))
    }

    /// Returns the error; the call must fail.
    pub(super) async fn refused(
        &self,
        name: &str,
        repo: &Path,
        mut input: Value,
    ) -> (Code, String) {
        input["repo"] = json!(repo);
        match self.call(name, input.clone()).await {
            Ok(answer) => panic!("{name} {input}: {answer}"),
            Err(error) => (error.code, error.message),
        }
    }
}
