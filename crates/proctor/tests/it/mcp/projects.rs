//! An assistant works in the project in which its client was started, and in no other by accident.

use crate::control::admin;
use crate::files::{app, put};
use proctor_testkit::{Conversation, Home, Http};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A folder with a README, next to the configured project.
fn other(home: &Home, name: &str) -> PathBuf {
    let folder = home.path().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("README.md"), format!("{name} words\n")).unwrap();
    folder
}

fn init(folder: &Path) {
    let made = Command::new("git").args(["init", "-q", "--template="]).current_dir(folder).status();
    assert!(made.unwrap().success());
}

#[test]
fn a_relative_path_is_in_the_project_of_the_conversation() {
    let home = app("");
    put(&home, "README.md", "app words\n");
    let elsewhere = other(&home, "elsewhere");
    let mut conversation = Conversation::begin_in(&home, &elsewhere, json!({}));
    let edits = json!([{ "old": "words", "new": "deeds" }]);
    let told = conversation.ok("edit_file", json!({ "path": "README.md", "edits": edits }));
    assert!(told.text.starts_with("README.md: changed"), "{}", told.text);
    assert_eq!(read(&elsewhere.join("README.md")), "elsewhere deeds\n");
    assert_eq!(
        read(&home.path().join("app/README.md")),
        "app words\n",
        "the other project is as it was"
    );
    conversation.ok("undo_edit", json!({ "path": "README.md" }));
    assert_eq!(read(&elsewhere.join("README.md")), "elsewhere words\n");
    // The declared root is available by its name and by its absolute path.
    let told = conversation.ok("read_file", json!({ "paths": ["app:README.md"] }));
    assert!(told.text.contains("app words"), "{}", told.text);
}

#[test]
fn files_and_git_work_in_a_fresh_folder_without_a_configuration() {
    let home = Home::new();
    let project = other(&home, "fresh/project");
    let mut conversation = Conversation::begin_in(&home, &project, json!({}));
    let told = conversation.ok("list_files", json!({}));
    assert!(told.text.contains("README.md"), "{}", told.text);
    conversation.ok("write_file", json!({ "path": "src/new.txt", "content": "made\n" }));
    assert_eq!(read(&project.join("src/new.txt")), "made\n");
    // The root is the whole repository, wherever in it the client was started.
    init(&project);
    let mut deep = Conversation::begin_in(&home, &project.join("src"), json!({}));
    let told = deep.ok("git_status", json!({}));
    assert!(told.text.contains("new.txt"), "{}", told.text);
    let told = deep.ok("read_file", json!({ "paths": ["new.txt", "../README.md"] }));
    assert!(
        told.text.contains("made") && told.text.contains("fresh/project words"),
        "{}",
        told.text
    );
}

#[test]
fn the_home_folder_is_no_project_and_nothing_else_is_guessed() {
    let home = app("");
    put(&home, "README.md", "app words\n");
    let mut conversation = Conversation::begin_in(&home, home.path(), json!({}));
    let told = conversation.call(
        "edit_file",
        json!({
            "path": "README.md", "edits": [{ "old": "words", "new": "deeds" }],
        }),
    );
    let root = home.path().join("app").display().to_string();
    assert!(told.is_error && told.text.contains(&format!("app ({root})")), "{}", told.text);
    assert_eq!(read(&home.path().join("app/README.md")), "app words\n");
    let told = conversation.call("git_status", json!({}));
    assert!(told.is_error && told.text.contains(&root), "{}", told.text);
    let unset = Home::new();
    let mut conversation = Conversation::begin_in(&unset, Path::new("/"), json!({}));
    let told = conversation.call("read_file", json!({ "paths": ["etc/hostname"] }));
    assert!(told.is_error && told.text.contains("no folder is declared"), "{}", told.text);
}

#[test]
fn the_roots_of_the_client_are_its_projects() {
    let home = Home::new();
    let (one, two) = (other(&home, "one"), other(&home, "two"));
    let mut conversation =
        Conversation::begin_in(&home, Path::new("/"), json!({ "roots": { "listChanged": true } }));
    conversation.roots = [&one, &two].map(|folder| format!("file://{}", folder.display())).into();
    let told = conversation.ok("read_file", json!({ "paths": ["README.md", "two:README.md"] }));
    assert!(told.text.contains("one words") && told.text.contains("two words"), "{}", told.text);
    let told = conversation.call("read_file", json!({ "paths": [home.path().join("x")] }));
    assert!(told.text.contains("one (") && told.text.contains("two ("), "{}", told.text);
    conversation.roots.remove(0);
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    conversation.say(&changed);
    let told = conversation.ok("read_file", json!({ "paths": ["README.md"] }));
    assert!(told.text.contains("two words"), "{}", told.text);
}

#[test]
fn nobody_brings_folders_along_over_http() {
    let home = app("");
    let elsewhere = other(&home, "elsewhere");
    let http = Http::at(home.port("http")).token(&admin(&home));
    let body = json!({ "path": elsewhere.join("README.md"), "folders": [elsewhere] });
    let response = http.post("/api/v1/file/read", &body);
    let text = String::from_utf8_lossy(&response.body).into_owned();
    assert_eq!(response.status, 403, "{text}");
    assert!(text.contains("unix socket"), "{text}");
}
