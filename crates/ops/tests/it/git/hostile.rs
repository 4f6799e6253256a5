//! Runs every operation in every repository that tries to execute something: nothing is executed.

use super::scene::{Asker, Scene, copy, put};
use super::vectors::{Trap, VECTORS, Vector, Works, program};
use proctor_ops::error::Code;
use proctor_ops::table::TABLE;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Calls and their repositories, in order.
pub(super) const CALLS: &[(When, &str, &str, &str)] = &[
    (When::Always, "plain", "git.status", r#"{"ignored":true}"#),
    (When::Always, "plain", "git.diff", "{}"),
    (When::Always, "plain", "git.diff", r#"{"from":"HEAD~1","to":"HEAD"}"#),
    (When::Always, "plain", "git.log", r#"{"rev":"other","paths":["f"],"follow":true,"grep":"."}"#),
    (When::Always, "plain", "git.show", "{}"),
    (When::Long, "plain", "git.show", r#"{"rev":"HEAD~1","path":"f"}"#),
    (When::Always, "plain", "git.blame", r#"{"path":"f"}"#),
    (When::Long, "plain", "git.tag", "{}"),
    (When::Always, "plain", "git.add", r#"{"paths":["f","new"]}"#),
    (When::Always, "plain", "git.commit", r#"{"message":"m","paths":["f"]}"#),
    (When::Long, "plain", "git.commit", r#"{"amend":true}"#),
    (When::Long, "plain", "git.add", r#"{"all":true}"#),
    (
        When::Always,
        "plain",
        "git.restore",
        r#"{"paths":["f"],"from":"HEAD~1","staged":true,"worktree":true}"#,
    ),
    (When::Always, "plain", "git.stash", r#"{"action":"push"}"#),
    (
        When::Always,
        "plain",
        "git.branch",
        r#"{"action":"create","name":"topic","from":"HEAD~1","switch":true}"#,
    ),
    (When::Always, "plain", "git.branch", r#"{"action":"switch","name":"main"}"#),
    (When::Always, "plain", "git.branch", r#"{"action":"delete","name":"topic","force":true}"#),
    (When::Always, "plain", "git.stash", r#"{"action":"pop"}"#),
    (When::Long, "plain", "git.restore", r#"{"paths":["f"]}"#),
    (When::Long, "plain", "git.stash", r#"{"action":"push","untracked":true}"#),
    (When::Long, "plain", "git.stash", r#"{"action":"drop"}"#),
    (When::Always, "plain", "git.tag", r#"{"action":"create","name":"v1","message":"m"}"#),
    (When::Long, "plain", "git.tag", r#"{"action":"delete","name":"v1"}"#),
    (When::Long, "merge", "git.status", "{}"),
    (When::Always, "merge", "git.diff", "{}"),
    (When::Always, "merge", "git.resolve", r#"{"action":"ours","path":"f"}"#),
    (When::Always, "merge", "git.resolve", r#"{"action":"theirs","path":"gone"}"#),
    (When::Always, "merge", "git.resolve", r#"{"action":"continue"}"#),
    (When::Always, "rebase", "git.resolve", r#"{"action":"done","path":"f","content":"x\n"}"#),
    (When::Always, "rebase", "git.resolve", r#"{"action":"theirs","path":"gone"}"#),
    (When::Always, "rebase", "git.resolve", r#"{"action":"continue"}"#),
    (When::Long, "back", "git.resolve", r#"{"action":"abort"}"#),
];

/// Whether a call is always made, or only if `HOSTILE_GIT` asks for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Long,
}

impl When {
    fn is_now(self) -> bool {
        self == When::Always || std::env::var_os("HOSTILE_GIT").is_some()
    }
}

pub(super) const KINDS: [&str; 4] = ["plain", "merge", "rebase", "back"];

/// Templates that every repository is copied from.
pub(super) fn models(scene: &Scene) -> PathBuf {
    let models = scene.models();
    fs::create_dir(&models).unwrap();
    scene.repository("sub", &[("s", "s\n")]);
    let plain = scene.clashing("plain");
    scene.git(&plain, &["branch", "clash", "other"]);
    put(&plain, "f", "1\nmore\n3\n");
    scene.git(&plain, &["stash", "push", "-q"]);
    put(&plain, "new", "n\n");
    put(&plain, "staged", "s\n");
    scene.git(&plain, &["add", "staged"]);
    // The length is unchanged, so git has to read the content.
    put(&plain, "f", "1\nOURS\n3\n");
    let merge = scene.clashing("merge");
    scene.plain(&merge, &["merge", "other"]);
    let rebase = scene.clashing("rebase");
    scene.git(&rebase, &["switch", "-q", "other"]);
    scene.plain(&rebase, &["rebase", "main"]);
    for kind in ["plain", "merge", "rebase", "sub"] {
        scene.git(&scene.root.join(kind), &["repack", "-adq"]);
        fs::rename(scene.root.join(kind), models.join(kind)).unwrap();
    }
    copy(&models.join("rebase"), &models.join("back"));
    models
}

/// One vector in one copy of everything.
struct Attempt {
    vector: &'static Vector,
    folder: PathBuf,
    mark: PathBuf,
}

impl Attempt {
    fn new(scene: &Scene, models: &Path, vector: &'static Vector) -> Attempt {
        let (program, mark) = program(scene, vector.name);
        let trial = scene.root.join(format!("{}-alive", vector.name));
        copy(&models.join("plain"), &trial);
        vector.plant(&Trap { scene, repo: &trial, program: program.clone() });
        let mark = vector.mark(&mark);
        let _ = fs::remove_file(&mark);
        vector.check_alive(scene, &trial, &mark);
        let folder = scene.root.join(vector.name);
        fs::create_dir(&folder).unwrap();
        for kind in KINDS {
            let repo = folder.join(kind);
            copy(&models.join(kind), &repo);
            vector.plant(&Trap { scene, repo: &repo, program: program.clone() });
        }
        // Planting it may have run it.
        let _ = fs::remove_file(&mark);
        Attempt { vector, folder, mark }
    }

    async fn run(&self, asker: Asker) {
        for (_, kind, name, input) in CALLS.iter().filter(|(when, ..)| when.is_now()) {
            let mut input: Value = serde_json::from_str(input).unwrap();
            input["repo"] = json!(self.folder.join(kind));
            let answer = asker.call(name, input.clone()).await;
            let what = format!("{}: {kind} {name} {input}: {answer:?}", self.vector.name);
            assert!(!self.mark.exists(), "it was run! {what}");
            let code = answer.err().map(|error| error.code);
            match (self.vector.works, code) {
                (Works::Nothing, Some(Code::Forbidden)) => {}
                (Works::Nothing, _) => panic!("{what}"),
                (_, None) => {}
                (Works::Unfiltered, Some(Code::Forbidden)) if touches(name, &input) => {}
                (Works::Unnamed, Some(Code::Forbidden)) if enters(name, &input) => {}
                (Works::NoRebase, Some(Code::Forbidden)) if *kind == "rebase" => {}
                (_, Some(_)) => panic!("{what}"),
            }
        }
    }
}

/// Operations that store files in the repository or restore them.
fn touches(name: &str, input: &Value) -> bool {
    let resolves = name == "git.resolve" && input["action"] != "list";
    let brings = name == "git.branch" || (name == "git.stash" && input["action"] != "list");
    resolves || brings || matches!(name, "git.add" | "git.commit" | "git.restore")
}

/// Operations for which git reads submodules.
fn enters(name: &str, input: &Value) -> bool {
    let goes_on = ["continue", "abort"].iter().any(|action| input["action"] == *action);
    name == "git.stash" || (name == "git.resolve" && goes_on)
}

#[test]
fn there_are_enough_vectors_and_every_operation_is_called() {
    assert!(VECTORS.len() > 22, "{}", VECTORS.len());
    let names: BTreeSet<&str> = VECTORS.iter().map(|vector| vector.name).collect();
    assert_eq!(names.len(), VECTORS.len());
    let always = CALLS.iter().filter(|(when, ..)| *when == When::Always);
    let called: BTreeSet<&str> = always.map(|(_, _, name, _)| *name).collect();
    let there = TABLE.iter().map(|entry| entry.meta.name).filter(|name| name.starts_with("git."));
    assert_eq!(called, there.collect());
}

/// Variables of the daemon that plain git would obey.
fn variables(scene: &Scene) -> (Value, PathBuf) {
    let (program, mark) = program(scene, "variables");
    let trace = scene.root.parent().unwrap().join("marks/trace");
    let names = [
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "EDITOR",
        "VISUAL",
        "GIT_PAGER",
        "PAGER",
        "GIT_PROXY_COMMAND",
    ];
    let mut all = json!({
        "GIT_DIR": scene.outside, "GIT_WORK_TREE": scene.outside, "GIT_INDEX_FILE": scene.outside.join("kept"),
        "GIT_OBJECT_DIRECTORY": scene.outside, "GIT_COMMON_DIR": scene.outside, "GIT_EXEC_PATH": scene.outside,
        "GIT_TRACE": trace, "GIT_TRACE2": trace, "GIT_TRACE2_EVENT": trace, "GIT_TEMPLATE_DIR": scene.outside,
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program,
        "GIT_CONFIG_PARAMETERS": format!("'core.fsmonitor={program}'"), "GIT_LITERAL_PATHSPECS": "0",
        "GIT_CONFIG_GLOBAL": scene.outside.join("kept"), "GIT_NAMESPACE": "x", "GIT_ALLOW_PROTOCOL": "ext:ssh:file",
        "LD_PRELOAD": "/nowhere/evil.so", "BASH_ENV": program, "ENV": program,
    });
    for name in names {
        all[name] = json!(program);
    }
    (all, mark)
}

/// Runs all vectors; the engine itself bounds the concurrency.
fn attack(fenced: bool, vectors: Vec<&'static Vector>) {
    let scene = Scene::new();
    let models = models(&scene);
    let (variables, mark) = variables(&scene);
    let attempts: Vec<Attempt> =
        vectors.into_iter().map(|vector| Attempt::new(&scene, &models, vector)).collect();
    let attempts = Arc::new(attempts);
    scene.daemon("", variables, async |asker| {
        if !fenced {
            asker.0.engine.without_git_fence();
        }
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..attempts.len() {
            let (attempts, asker) = (Arc::clone(&attempts), asker.clone());
            tasks.spawn(async move { attempts[at].run(asker).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
    let marks = mark.parent().unwrap();
    assert!(!mark.exists() && !marks.join("trace").exists(), "a variable was obeyed");
    let left: Vec<_> = fs::read_dir(marks).unwrap().map(|it| it.unwrap().file_name()).collect();
    let left: Vec<_> =
        left.iter().filter(|name| !name.to_string_lossy().ends_with(".sh")).collect();
    assert_eq!(left, [""; 0], "marks of programs");
    scene.check_outside("afterwards");
}

/// The first line of defence alone: settings, arguments, refusals.
#[test]
fn nothing_that_a_repository_wants_is_run() {
    attack(false, VECTORS.iter().collect());
}

/// Everything works inside the Landlock sandbox, too.
#[test]
fn a_good_repository_works_inside_of_the_fence() {
    let few = ["nothing", "hooks", "submodule"];
    attack(true, VECTORS.iter().filter(|vector| few.contains(&vector.name)).collect());
}
