//! `mcp install`: the files of MCP clients, in a home of the test.

use proctor_testkit::{Home, proctor};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Every client, and its user file.
const CLIENTS: [(&str, &str); 6] = [
    ("claude-code", ".claude.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
    ("zed", ".config/zed/settings.json"),
];

fn read(home: &Home, name: &str) -> String {
    fs::read_to_string(home.path().join(name)).unwrap()
}

fn document(home: &Home, name: &str) -> Value {
    serde_json::from_str(&read(home, name)).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path().to_str().unwrap().to_owned()),
        }
    }
    found
}

#[test]
fn every_client_is_set_up_once_and_no_more() {
    for (client, file) in CLIENTS {
        let home = Home::new();
        let said = home.ok(["mcp", "install", client]);
        let path = home.path().join(file);
        assert!(said.ends_with(&format!(": added proctor to {}\n", path.display())), "{said}");
        let first = read(&home, file);
        let program = proctor().canonicalize().unwrap();
        assert!(first.contains(program.to_str().unwrap()), "{client}: {first}");
        assert!(
            first.contains(&format!("[\"mcp\", \"--home\", {:?}]", home.path())),
            "{client}: {first}"
        );
        assert_eq!(mode(&path), 0o600, "{client}");
        assert_eq!(
            files(home.path()).len(),
            1,
            "{client}: nothing else, and no Proctor was started"
        );

        let said = home.ok(["mcp", "install", client]);
        assert!(said.contains(": proctor is already in "), "{said}");
        assert_eq!(read(&home, file), first);

        let said = home.ok(["mcp", "install", client, "--remove"]);
        assert!(said.contains(": removed proctor from "), "{said}");
        assert!(!read(&home, file).contains("proctor"), "{client}");
        let said = home.ok(["mcp", "install", client, "--remove"]);
        assert!(said.contains(": proctor is not in "), "{said}");
    }
}

#[test]
fn a_folder_that_is_made_for_the_user_is_the_users_alone() {
    let home = Home::new();
    home.ok(["mcp", "install", "vscode"]);
    for folder in [".config", ".config/Code", ".config/Code/User"] {
        assert_eq!(mode(&home.path().join(folder)), 0o700, "{folder}");
    }
}

#[test]
fn a_dry_run_shows_what_would_change_and_changes_nothing() {
    let home = Home::new();
    let text = "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n";
    let path = home.write(".cursor/mcp.json", text);
    let shown = home.ok(["mcp", "install", "cursor", "--scope", "user", "--dry-run"]);
    let beginning =
        format!("--- {0}\n+++ {0}\n@@ -1,6 +1,11 @@\n {{\n   // mine\n", path.display());
    assert!(shown.starts_with(&beginning), "{shown}");
    assert!(shown.contains("-    \"a\": {}\n+    \"a\": {},\n+    \"proctor\": {\n"), "{shown}");
    assert_eq!(read(&home, ".cursor/mcp.json"), text);

    let answer = home.json(["mcp", "install", "gemini", "--dry-run"]);
    assert_eq!((&answer["change"], &answer["written"]), (&json!("added"), &json!(false)));
    assert!(answer["diff"].as_str().unwrap().contains("+  \"mcpServers\": {"), "{answer:#}");
    assert!(!home.path().join(".gemini").exists());
}

#[test]
fn a_program_can_read_what_was_done() {
    let home = Home::new();
    let answer =
        home.json(["mcp", "install", "codex", "--name", "mine", "--toolsets", "processes,logs"]);
    assert_eq!(answer["client"], "codex");
    assert_eq!(answer["scope"], "user");
    assert_eq!(answer["name"], "mine");
    assert_eq!(answer["change"], "added");
    assert_eq!(answer["written"], true);
    assert_eq!(answer["file"], home.path().join(".codex/config.toml").to_str().unwrap());
    let text = read(&home, ".codex/config.toml");
    assert!(text.starts_with("[mcp_servers.mine]\n"), "{text}");
    assert!(text.contains("\"--toolsets\", \"processes,logs\"]"), "{text}");
    let answer = home.json(["mcp", "install", "codex", "--name", "mine", "--remove", "--quiet"]);
    assert_eq!((&answer["change"], &answer["written"]), (&json!("removed"), &json!(true)));
    assert_eq!(read(&home, ".codex/config.toml"), "");
}

#[test]
fn a_file_that_cannot_be_read_is_left_as_it_is() {
    let home = Home::new();
    let broken = "{\n  \"mcpServers\": {\n    \"a\": {}\n";
    home.write(".claude.json", broken);
    let (code, said) = home.fail(["mcp", "install", "claude-code"]);
    assert_eq!(code, 1);
    assert!(
        said.contains(".claude.json was not changed: line 2, column 17: this { is not closed"),
        "{said}"
    );
    assert!(said.contains("--print"), "{said}");
    assert_eq!(read(&home, ".claude.json"), broken);

    let path = home.path().join(".codex/config.toml");
    fs::create_dir(home.path().join(".codex")).unwrap();
    fs::write(&path, b"a = '\xff'\n").unwrap();
    let (_, said) = home.fail(["mcp", "install", "codex", "--scope", "user"]);
    assert!(said.contains("it is not UTF-8 text, from byte 5 on"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), b"a = '\xff'\n");
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_changed() {
    let home = Home::new();
    let kept = home.write("dotfiles/cursor.json", "{\n  \"mcpServers\": {}\n}\n");
    fs::set_permissions(&kept, Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(home.path().join(".cursor")).unwrap();
    symlink("../dotfiles/cursor.json", home.path().join(".cursor/mcp.json")).unwrap();
    home.ok(["mcp", "install", "cursor", "--scope", "user"]);
    assert!(home.path().join(".cursor/mcp.json").is_symlink());
    assert!(document(&home, "dotfiles/cursor.json")["mcpServers"]["proctor"].is_object());
    assert_eq!(mode(&kept), 0o640);

    symlink(home.path().join("dotfiles/new/zed.json"), home.path().join("zed.json")).unwrap();
    fs::create_dir_all(home.path().join(".config/zed")).unwrap();
    symlink("../../zed.json", home.path().join(".config/zed/settings.json")).unwrap();
    home.ok(["mcp", "install", "zed"]);
    assert!(document(&home, "dotfiles/new/zed.json")["context_servers"]["proctor"].is_object());
    assert!(home.path().join(".config/zed/settings.json").is_symlink());
}

#[test]
fn a_folder_that_lists_servers_gets_one_more() {
    let home = Home::new();
    home.write("work/.mcp.json", "{\n  \"mcpServers\": {}\n}\n");
    home.write("work/.zed/settings.json", "{ \"theme\": \"One\" }\n");
    let here = |words: &[&str]| {
        let output = home.command(words).current_dir(home.path().join("work")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let said = here(&["mcp", "install", "claude-code"]);
    assert!(said.contains("work/.mcp.json\n"), "{said}");
    // Settings without servers are not chosen, unless requested.
    let said = here(&["mcp", "install", "zed"]);
    assert!(said.contains(&format!("{}/.config/zed", home.path().display())), "{said}");
    here(&["mcp", "install", "zed", "--scope", "project"]);
    assert!(document(&home, "work/.zed/settings.json")["context_servers"]["proctor"].is_object());
    assert_eq!(document(&home, "work/.zed/settings.json")["theme"], "One");

    here(&["mcp", "install", "claude-code", "--remove"]);
    here(&["mcp", "install", "claude-code", "--scope", "user"]);
    let said = here(&["mcp", "install", "claude-code", "--remove"]);
    assert!(said.contains(".claude.json: remove it there with `--scope user`"), "{said}");

    home.write("work/.mcp.json", "{");
    let output = home
        .command(["mcp", "install", "claude-code"])
        .current_dir(home.path().join("work"))
        .output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains("or give `--scope user`"), "{said}");
}

/// Runs with `proctor` in PATH, as a link in its own folder.
fn with_path(home: &Home, words: &[&str]) -> String {
    let folder = home.path().join("bin");
    fs::create_dir_all(&folder).unwrap();
    symlink(proctor(), folder.join("proctor")).ok();
    let output = Command::new(folder.join("proctor"))
        .args(words)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", &folder)
        .current_dir(home.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_user_gets_the_full_path_and_a_project_the_name() {
    let home = Home::new();
    with_path(&home, &["mcp", "install", "gemini", "--scope", "project"]);
    let entry = &document(&home, ".gemini/settings.json")["mcpServers"]["proctor"];
    assert_eq!(*entry, json!({ "command": "proctor", "args": ["mcp"] }));
    assert_eq!(mode(&home.path().join(".gemini/settings.json")) & 0o600, 0o600);

    with_path(&home, &["mcp", "install", "cursor"]);
    let entry = &document(&home, ".cursor/mcp.json")["mcpServers"]["proctor"];
    let link = home.path().join("bin/proctor");
    assert_eq!(*entry, json!({ "type": "stdio", "command": link, "args": ["mcp"] }));
    // The folder of this test is the user's home, so its file is not a project's.
    let said = with_path(&home, &["mcp", "install", "cursor"]);
    assert!(said.contains(": proctor is already in "), "{said}");
}

#[test]
fn over_http_the_secret_stays_in_the_environment() {
    let home = Home::new();
    let output = home.run(["mcp", "install", "claude-code", "--http"]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("needs PROCTOR_TOKEN in its environment"), "{notes}");
    assert!(notes.contains("--home and PROCTOR_HOME are ignored"), "{notes}");
    let entry = document(&home, ".claude.json")["mcpServers"]["proctor"].clone();
    assert_eq!(
        entry,
        json!({
            "type": "http",
            "url": "http://127.0.0.1:3001/mcp",
            "headers": { "Authorization": "Bearer ${PROCTOR_TOKEN}" },
        })
    );
    home.ok(["mcp", "install", "claude-code", "--http=https://build.example:3001/mcp"]);
    let changed = document(&home, ".claude.json")["mcpServers"]["proctor"]["url"].clone();
    assert_eq!(changed, "https://build.example:3001/mcp");
    home.ok(["mcp", "install", "claude-code", "--http", "--toolsets", "logs,processes"]);
    let changed = document(&home, ".claude.json")["mcpServers"]["proctor"]["url"].clone();
    assert_eq!(changed, "http://127.0.0.1:3001/mcp?toolsets=processes,logs");

    let (code, said) = home.fail(["mcp", "install", "zed", "--http"]);
    assert_eq!(code, 2);
    assert!(said.contains("omit --http"), "{said}");
    assert!(!home.path().join(".config").exists());
}

#[test]
fn what_to_paste_is_what_would_be_written() {
    for (client, file) in CLIENTS {
        let home = Home::new();
        let printed = home.ok(["mcp", "install", client, "--print"]);
        assert!(files(home.path()).is_empty(), "{client}");
        home.ok(["mcp", "install", client]);
        assert_eq!(read(&home, file), printed);
    }
}

#[test]
fn a_client_that_is_not_there_is_a_remark() {
    let home = Home::new();
    let note =
        |client: &str| String::from_utf8(home.run(["mcp", "install", client]).stderr).unwrap();
    assert!(note("zed").contains("Zed does not seem to be installed here"));
    assert!(!note("zed").contains("does not seem"), "its folder is there now");
    let output = home.run(["-q", "mcp", "install", "gemini"]);
    assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    for words in [
        &["emacs"][..],
        &["cursor", "--name", "no spaces"],
        &["cursor", "--name", ""],
        &["cursor", "--name", "longer_than_any_client_likes"],
        &["cursor", "--toolsets", "weather"],
        &["cursor", "--http=ftp://x"],
        &["cursor", "--remove", "--print"],
        &["cursor", "--dry-run", "--print"],
        &["cursor", "--scope", "world"],
    ] {
        let words = ["mcp", "install"].iter().chain(words);
        assert_eq!(home.fail(words.clone()).0, 2, "{words:?}");
    }
    let (code, said) = home.fail(["mcp", "--toolsets", "logs", "install", "cursor"]);
    assert_eq!(code, 2, "that would be an option of the server: {said}");
    assert!(files(home.path()).is_empty());
}

/// Root may write any file, so this runs as another user.
#[test]
fn a_file_that_is_read_only_is_so_on_purpose() {
    const NOBODY: u32 = 65534;
    let home = Home::new();
    let path = home.write(".cursor/mcp.json", "{}\n");
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    let program = home.path().join("proctor");
    // Copied by a separate program: a child forked by another test would have our copy open, and it could not be executed.
    assert!(Command::new("cp").arg(proctor()).arg(&program).status().unwrap().success());
    let mut command = Command::new(program);
    command.args(["mcp", "install", "cursor"]).env_clear().env("HOME", home.path());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        for path in [home.path(), path.parent().unwrap(), &path] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.current_dir(home.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write") && said.contains("Permission denied"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n");
}
