//! Hostile paths: out of the root, into files of Proctor or git, or to non-files; with every operation that
//! changes something.

use super::{Scene, all_names, wish};
use crate::files::change::{DiffQuery, Replacement, WriteRequest};
use proctor_core::edit::Edit;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Links below the root, and their targets.
const LINKS: &[(&str, &str)] = &[
    ("up", ".."),
    ("up-slash", "../"),
    ("sibling", "../outside"),
    ("file", "../outside/secret"),
    ("deep", "sub/../../outside"),
    ("dangling", "../outside/new"),
    ("slash", "/"),
    ("etc", "/etc"),
    ("absolute", "@outside"),
    ("absolute-file", "@outside/secret"),
    ("absolute-round", "@app/../outside"),
    ("proc-root", "/proc/self/root"),
    ("proc-cwd", "/proc/self/cwd"),
    ("self", "link-self"),
    ("ping", "link-pong"),
    ("pong", "link-ping"),
    ("state", ".state"),
    ("git", ".git"),
];

/// Paths through a link, and the link itself.
const BEHIND: &[&str] = &[
    "",
    "/",
    "/.",
    "/secret",
    "/new",
    "/dir/new",
    "/../outside/secret",
    "/./secret",
    "/../secret",
    "/dir",
    "//secret",
    "/secret/",
];

/// Paths that need no link.
const PLAIN: &[&str] = &[
    "..",
    "../outside",
    "../outside/secret",
    "../outside/new",
    "./../outside/secret",
    "sub/../../outside/secret",
    "sub/..",
    "sub/../..",
    "/",
    "//",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/root/etc/x",
    "@outside/secret",
    "@outside",
    "@app/../outside/secret",
    "@app-sibling/x",
    "app:../outside/secret",
    "app:/etc/passwd",
    "other:secret",
    "a\0b",
    "\0",
    "..\0",
    "sub/\0",
    ".git",
    ".git/",
    ".git/config",
    ".git/hooks/new",
    ".Git/config",
    "sub/.git/x",
    ".git/../.git/config",
    ".state",
    ".state/token",
    ".state/new",
    ".state/run/x",
    ".state/audit/x",
    ".state/../.state/token",
    "pipe",
    "socket",
    "pipe/x",
    "socket/x",
    "plain/x",
    "plain/../../outside/secret",
    "",
    ".",
    "./",
    "app:",
    "app:.",
    "link-sibling",
    "link-sibling/secret",
    "~/x/../../../outside",
    "...//../outside/secret",
    "sub//../../outside",
];

/// Paths that a decoder might turn into something else: here they are plain names, and stay below the root.
const ENCODED: &[&str] = &[
    "%2e%2e/outside/secret",
    "..%2foutside",
    "%2e%2e%2foutside%2fsecret",
    "..%c0%afoutside",
    "\u{ff0e}\u{ff0e}/x",
    "..\\outside\\secret",
    "C:\\x",
    "\\\\host\\share",
    "file:///etc/passwd",
    "$HOME/x",
    "`id`",
    "$(id)",
    "a;b",
    "a|b",
    "-rf",
    "--",
    "*",
    "?",
    "[a]",
    " ",
    " ..",
    ".. ",
    "..;/x",
    ".../x",
    "\u{202e}x",
    "a\nb",
    "\r",
    "\u{7f}",
    "a\tb",
    "nul",
    "con",
    "x:y",
    "..:x",
];

fn paths(scene: &Scene) -> Vec<String> {
    let links = LINKS
        .iter()
        .flat_map(|(link, _)| BEHIND.iter().map(move |end| format!("link-{link}{end}")));
    let below = BEHIND.iter().map(|end| format!("sub/link-back{end}"));
    let plain = PLAIN.iter().chain(ENCODED).map(|path| (*path).to_owned());
    let long = [format!("{}x", "a/".repeat(300)), "n".repeat(300), "../".repeat(50) + "etc/passwd"];
    let base = scene.place.path("");
    let base = base.to_str().unwrap().trim_end_matches('/').to_owned();
    let all = links.chain(below).chain(plain).chain(long);
    all.map(|path| path.replace('@', &format!("{base}/"))).collect()
}

fn prepare() -> Scene {
    let scene = Scene::new();
    let root = scene.place.path("app");
    for folder in ["sub", ".git/hooks", "sub/.git"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::create_dir_all(scene.place.path("outside/dir")).unwrap();
    fs::create_dir(scene.place.path("app-sibling")).unwrap();
    for (file, text) in [
        ("app/plain", "plain"),
        ("app/.git/config", "git"),
        ("app/.state/token", "token"),
        ("outside/secret", "secret"),
        ("app-sibling/x", "sibling"),
    ] {
        fs::write(scene.place.path(file), text).unwrap();
    }
    for (link, to) in LINKS {
        let to = to.replace('@', &format!("{}/", scene.place.path("").display()));
        symlink(to, root.join(format!("link-{link}"))).unwrap();
    }
    symlink("../../outside", root.join("sub/link-back")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    drop(UnixListener::bind(root.join("socket")).unwrap());
    scene
}

/// Everything that must stay: names and contents outside, git's, and Proctor's, except for backups and records.
fn untouchable(scene: &Scene) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in ["outside", "app-sibling", "app/.git", "app/sub/.git", "app/.state"] {
        for name in all_names(&scene.place.path(folder)) {
            let ours =
                ["backups", "changes"].iter().any(|kept| name.contains(&format!("/.state/{kept}")));
            if !ours {
                let content = fs::read(&name).unwrap_or_default();
                found.insert(name, content);
            }
        }
    }
    found.extend(
        scene
            .place
            .path("")
            .read_dir()
            .unwrap()
            .map(|entry| (format!("{:?}", entry.unwrap().path()), Vec::new())),
    );
    found
}

/// Runs every changing operation on one path; true if one of them succeeded.
fn try_all(scene: &Scene, path: &str) -> bool {
    let files = &scene.files;
    let written = WriteRequest { content: b"evil".to_vec(), ..WriteRequest::default() };
    let edit = |old: &str| vec![Edit { old: old.into(), new: "evil".into(), all: true }];
    let wanted =
        Replacement { find: ".".into(), put: "evil".into(), regex: true, ..Replacement::default() };
    let made = format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+evil\n");
    let below = DiffQuery {
        text: b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+evil\n".to_vec(),
        folder: Some(path.into()),
        ..DiffQuery::default()
    };
    let diff = DiffQuery { text: made.into_bytes(), ..DiffQuery::default() };
    let tried = [
        scene.run(files.write(path.into(), written, wish())).is_ok(),
        scene.run(files.edit(path.into(), edit("secret"), wish())).is_ok(),
        scene.run(files.replace(path.into(), wanted, wish())).is_ok(),
        scene.run(files.apply_diff(diff, wish())).is_ok(),
        scene.run(files.apply_diff(below, wish())).is_ok(),
        scene.run(files.rename("plain".into(), path.into(), true, wish())).is_ok(),
        scene.run(files.rename(path.into(), "moved".into(), true, wish())).is_ok(),
        scene.run(files.delete(path.into(), wish())).is_ok(),
        scene.run(files.make_folder(path.into())).is_ok(),
        scene.run(files.undo(path.into(), None, wish())).is_ok(),
    ];
    tried.contains(&true)
}

#[test]
fn no_path_leads_out_or_into_what_is_not_ours() {
    let mut scene = prepare();
    let mut kept = untouchable(&scene);
    let paths = paths(&scene);
    let count = paths.len();
    let mut refused = 0;
    for path in paths {
        let changed = try_all(&scene, &path);
        assert_eq!(untouchable(&scene), restored(&kept, &scene), "{path:?}");
        refused += usize::from(!changed);
        if changed {
            // A link itself was deleted or moved, or a file was created below the root: start afresh for the
            // next path.
            scene = prepare();
            kept = untouchable(&scene);
        }
    }
    assert!(count >= 300 && refused > 100, "{count} paths, {refused} refused by every operation");
}

/// Checks that the scene is the same folder, and returns the expected state.
fn restored(kept: &BTreeMap<String, Vec<u8>>, scene: &Scene) -> BTreeMap<String, Vec<u8>> {
    let base = scene.place.path("");
    assert!(
        kept.keys()
            .all(|name| name.contains(Path::new(&base).to_str().unwrap().trim_end_matches('/')))
    );
    kept.clone()
}
