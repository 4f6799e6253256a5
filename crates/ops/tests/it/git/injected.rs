//! Texts that look like options, foreign paths or programs are taken literally in every field of every operation.

use super::scene::{Asker, Scene, put};
use proctor_ops::table::find;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Requests that are valid without them.
const REQUESTS: &[(&str, &str)] = &[
    ("git.status", "{}"),
    ("git.diff", r#"{"from":"HEAD~1"}"#),
    ("git.log", r#"{"limit":1}"#),
    ("git.show", "{}"),
    ("git.blame", r#"{"path":"f"}"#),
    ("git.add", r#"{"paths":["f"]}"#),
    ("git.commit", r#"{"message":"m","paths":["f"]}"#),
    ("git.commit", r#"{"message":"m","amend":true}"#),
    ("git.restore", r#"{"paths":["f"]}"#),
    ("git.branch", r#"{"action":"create","name":"main"}"#),
    ("git.branch", r#"{"action":"switch","name":"main"}"#),
    ("git.branch", r#"{"action":"delete","name":"no"}"#),
    ("git.tag", r#"{"action":"create","name":"v0","message":"m"}"#),
    ("git.tag", r#"{"action":"delete","name":"no"}"#),
    ("git.stash", r#"{"action":"push","paths":["kept"]}"#),
    ("git.resolve", r#"{"action":"done","path":"f","content":"x"}"#),
];

/// `OUT` is a file that is never created, `AWAY` a folder outside of the root.
const HOSTILE: &[&str] = &[
    "--output=OUT",
    "--upload-pack=touch OUT",
    "-c core.fsmonitor=touch OUT",
    "--git-dir=AWAY",
    "--work-tree=AWAY",
    "--file=AWAY/kept",
    "--pathspec-from-file=AWAY/kept",
    "--contents=AWAY/kept",
    "--no-index",
    "--ext-diff",
    "--force",
    "--",
    "-",
    "..",
    "../../outside/kept",
    "AWAY/kept",
    ":(top,glob)**",
    ":!f",
    ":/first",
    "@{-1}",
    "HEAD~1..HEAD",
    "^HEAD",
    "refs/../../../OUT",
    "ext::touch OUT",
    "$(touch OUT)",
    "; touch OUT",
    "a\0b",
    "a\nb --output=OUT",
    "%(refname)%00",
];

/// Returns fields with texts, and whether they take several.
fn fields(operation: &str) -> Vec<(String, bool)> {
    let schema = find(operation).unwrap().input_schema();
    let is = |field: &Value, kind: &str| {
        let of = &field["type"];
        of == kind || of.as_array().is_some_and(|kinds| kinds.iter().any(|it| it == kind))
    };
    let all = schema["properties"].as_object().unwrap().iter();
    all.filter_map(|(name, field)| match (is(field, "string"), is(field, "array")) {
        (true, _) => Some((name.clone(), false)),
        (false, true) => Some((name.clone(), true)),
        (false, false) => None,
    })
    .collect()
}

async fn attack(
    asker: Asker,
    repo: std::path::PathBuf,
    at: usize,
    away: String,
    out: String,
) -> usize {
    let (name, request) = REQUESTS[at];
    let request: Value = serde_json::from_str(request).unwrap();
    let mut asked = 0;
    for (field, several) in fields(name) {
        // All operations find the repository in the same way, and several requests of one operation are much alike,
        // so they are tested
        // in turns.
        let shared = matches!(&*field, "repo" | "base_dir");
        let again = REQUESTS[..at].iter().any(|(before, _)| *before == name);
        let now = |text: &usize| !(shared || again) || (text + at).is_multiple_of(3);
        for text in (0..HOSTILE.len()).filter(now).map(|text| HOSTILE[text]) {
            let text = text.replace("OUT", &out).replace("AWAY", &away);
            let mut input = request.clone();
            // A repository elsewhere must be found from there.
            if field != "base_dir" {
                input["repo"] = json!(repo);
            }
            input[&field] = if several { json!([text]) } else { json!(text) };
            let answer = asker.call(name, input.clone()).await;
            assert!(!Path::new(&out).exists(), "{name} {input}: {answer:?}");
            let told = format!("{answer:?}");
            assert!(!told.contains("secret of another"), "{name} {input}: {told}");
            asked += 1;
        }
    }
    asked
}

#[test]
fn no_text_of_a_request_is_an_option_or_a_way_out() {
    let scene = Scene::new();
    let out = scene.root.join("OUT").display().to_string();
    let away = scene.outside.display().to_string();
    fs::write(scene.outside.join("kept"), "secret of another\n").unwrap();
    let repos: Vec<_> = (0..REQUESTS.len())
        .map(|at| {
            let repo = scene.repository(&format!("r{at}"), &[("f", "1\n"), ("kept", "k\n")]);
            put(&repo, "f", "2\n");
            scene.git(&repo, &["commit", "-q", "-a", "-m", "second"]);
            repo
        })
        .collect();
    let before: Vec<String> =
        repos.iter().map(|repo| scene.git(repo, &["config", "--list", "--local"])).collect();
    let repos = Arc::new(repos);
    scene.daemon("", json!({}), async |asker| {
        // Attacks that the sandbox would stop must be stopped without it.
        asker.0.engine.without_git_fence();
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..repos.len() {
            let (asker, repo) = (asker.clone(), repos[at].clone());
            tasks.spawn(attack(asker, repo, at, away.clone(), out.clone()));
        }
        let mut asked = 0;
        while let Some(done) = tasks.join_next().await {
            asked += done.unwrap();
        }
        assert!(asked > 1000, "only {asked} were asked for");
    });
    for (repo, before) in repos.iter().zip(before) {
        let mut names: Vec<String> = fs::read_dir(repo)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".git", "f", "kept"], "{repo:?}");
        assert_eq!(scene.git(repo, &["config", "--list", "--local"]), before, "{repo:?}");
        assert_eq!(scene.git(repo, &["symbolic-ref", "HEAD"]), "refs/heads/main", "{repo:?}");
        let commits = scene.git(repo, &["rev-list", "--count", "main"]);
        let first = scene.git(repo, &["log", "-1", "--format=%s", "main~1"]);
        assert_eq!((commits.as_str(), first.as_str()), ("2", "first"), "{repo:?}");
    }
    assert_eq!(fs::read(scene.outside.join("kept")).unwrap(), b"secret of another\n");
    assert_eq!(fs::read_dir(&scene.outside).unwrap().count(), 1);
}

/// Names that are options, patterns or magic elsewhere.
const NAMES: &[&str] = &[
    "--output=x",
    "-c",
    "--",
    ":(top)f",
    ":!f",
    ":/f",
    "*",
    "[a]",
    "a\nb",
    "$(touch x)",
    "HEAD",
    "@{0}",
    " ",
    "ü",
];

#[test]
fn files_with_odd_names_are_files() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "f\n"), ("a", "a\n")]);
    scene.daemon("", json!({}), async |asker| {
        for name in NAMES {
            put(&repo, name, "one\n");
            put(&repo, "f", &format!("not this: {name}\n"));
            let added = asker.ok("git.add", &repo, json!({ "paths": [name] })).await;
            assert_eq!(added["added"], json!([name]));
            let message = format!("{name}\n\n--amend");
            let made =
                asker.ok("git.commit", &repo, json!({ "message": message, "paths": [name] })).await;
            assert_eq!((&made["committed"], &made["files"]), (&json!(true), &json!(1)), "{name:?}");
            let log = asker.ok("git.log", &repo, json!({ "paths": [name] })).await;
            assert_eq!(log["commits"].as_array().unwrap().len(), 1, "{name:?}");
            let shown = asker.ok("git.show", &repo, json!({ "path": name })).await;
            assert_eq!(shown["file"]["text"], "one\n", "{name:?}");
            let blame = asker.ok("git.blame", &repo, json!({ "path": name })).await;
            assert_eq!(blame["runs"][0]["lines"], json!(["one"]), "{name:?}");
            put(&repo, name, "two\n");
            let diff = asker.ok("git.diff", &repo, json!({ "paths": [name], "stat": true })).await;
            assert_eq!(diff["files"][0]["path"], json!(name));
            assert_eq!(diff["files"].as_array().unwrap().len(), 1, "{name:?}");
            let back = asker.ok("git.restore", &repo, json!({ "paths": [name] })).await;
            assert_eq!(back["restored"], json!([name]));
            assert_eq!(fs::read_to_string(repo.join(name)).unwrap(), "one\n");
        }
        assert_eq!(fs::read_to_string(repo.join("f")).unwrap(), "not this: ü\n");
        let messages = scene.git(&repo, &["log", "--format=%B", "-1"]);
        assert_eq!(messages, "ü\n\n--amend");
    });
}
