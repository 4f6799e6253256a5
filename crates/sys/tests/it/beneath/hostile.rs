//! Every path of the table with every operation and both methods: refused, or without effect.

use super::paths::{OF_THE_KERNEL, hostile};
use super::scene::{ACTS, Act, PLAIN, SECRET, Scene};
use proctor_sys::beneath::{
    Folder, Kind, LinkPolicy, OverwriteMode, PathError, RelativePath, ResolveMethod, Root,
};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

const WAYS: [ResolveMethod; 2] = [ResolveMethod::Kernel, ResolveMethod::Names];

/// A longer wait for the other end of a pipe counts as endless.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs on its own thread, so that an endless wait is detected.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (told, heard) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        told.send(()).ok();
    });
    match heard.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("somebody waits for a pipe"),
        _ => worker.join().unwrap(),
    }
}

fn every_path_with_every_act(way: ResolveMethod) {
    let scene = Scene::new();
    let before = scene.outsiders();
    let (mut refused, mut harmless) = (0, 0);
    for path in hostile() {
        let path = path.replace('@', scene.path("").to_str().unwrap().trim_end_matches('/'));
        let shown = path.chars().take(60).collect::<String>();
        // Restores the existing content for the next operation.
        let precious = fs::symlink_metadata(scene.path("base").join(&path)).is_ok();
        for act in ACTS {
            match act.attempt(&scene.root(way), &path) {
                Err(_) => refused += 1,
                Ok(learnt) => {
                    harmless += 1;
                    let learnt = String::from_utf8_lossy(&learnt).into_owned();
                    let leaked = learnt.contains(SECRET) || learnt.contains("daemon:");
                    assert!(!leaked, "{way:?} {act:?} {shown:?} told {learnt:?}");
                    if precious && !Act::READING.contains(&act) {
                        assert_eq!(scene.outsiders(), before, "{way:?} {act:?} {shown:?}");
                        scene.inside();
                    }
                }
            }
        }
        assert_eq!(scene.outsiders(), before, "{way:?} {shown:?} did something outside");
        scene.inside();
    }
    assert!(refused > harmless && harmless > 100, "{refused} refused, {harmless} harmless");
}

#[test]
fn the_table_is_long_enough() {
    let kernel: usize = OF_THE_KERNEL.iter().map(|(_, paths)| paths.len()).sum();
    let all = hostile().len() + kernel;
    assert!(all >= 300, "{all} paths");
}

#[test]
fn no_path_leads_out_when_the_kernel_resolves_it() {
    assert_eq!(
        Root::open(Path::new("/")).unwrap().way(),
        ResolveMethod::Kernel,
        "this kernel has openat2"
    );
    in_time(|| every_path_with_every_act(ResolveMethod::Kernel));
}

#[test]
fn no_path_leads_out_when_it_is_walked_name_by_name() {
    in_time(|| every_path_with_every_act(ResolveMethod::Names));
}

#[test]
fn files_and_doors_of_the_kernel_are_not_opened() {
    in_time(|| {
        for way in WAYS {
            for (folder, paths) in OF_THE_KERNEL {
                let root = Root::open(Path::new(folder)).unwrap().going(way);
                for path in *paths {
                    let learnt = Act::Read.attempt(&root, path);
                    assert!(learnt.is_err(), "{way:?} {folder}/{path} was read");
                }
            }
            let root = Root::open(Path::new("/proc")).unwrap().going(way);
            for door in ["self/root", "self/cwd", "self/fd/0", "thread-self/root/etc"] {
                assert!(Act::List.attempt(&root, door).is_err(), "{way:?} {door} was listed");
            }
            let read = Act::Read.attempt(&root, "self/status");
            assert!(matches!(read, Err(PathError::OfTheKernel)), "{read:?}");
        }
    });
}

#[test]
fn links_that_stay_beneath_are_followed_for_reading_and_never_for_writing() {
    let scene = Scene::new();
    let link = |text: &str, name: &str| {
        std::os::unix::fs::symlink(text, scene.path("base").join(name)).unwrap();
    };
    link("sub/deep", "good");
    link("../plain.txt", "sub/good-file");
    link("sub/deep/../../sub/deep/", "good-round");
    link("good/..", "good-up");
    link("good", "good-chain");
    for way in WAYS {
        let root = scene.root(way);
        for path in [
            "good/plain.txt",
            "sub/good-file",
            "good-round/plain.txt",
            "good-up/x",
            "good-chain/plain.txt",
            "good-up/deep/plain.txt",
            "chain-39",
        ] {
            let read = Act::Read.attempt(&root, path);
            assert_eq!(read.unwrap_or_else(|f| panic!("{way:?} {path}: {f}")), PLAIN.as_bytes());
        }
        for path in ["good", "good-round", "good-up", "good-chain", "good/.", ""] {
            Act::List.attempt(&root, path).unwrap_or_else(|f| panic!("{way:?} {path}: {f}"));
        }
        for path in ["good/new", "good-up/new", "good-round/new", "good-chain/new"] {
            let made = Act::Create.attempt(&root, path);
            assert!(matches!(made, Err(PathError::Link)), "{way:?} {path}: {made:?}");
        }
    }
}

#[test]
fn what_is_refused_says_why() {
    let scene = Scene::new();
    for way in WAYS {
        let root = scene.root(way);
        let why = |path: &str| Act::Read.attempt(&root, path).unwrap_err().to_string();
        assert_eq!(why("pipe"), "is a pipe, not a regular file");
        assert_eq!(why("socket"), "is a socket, not a regular file");
        assert_eq!(why("sub"), "is a folder, not a regular file");
        assert_eq!(why("link-sibling/x"), "leads out of its root");
        assert_eq!(why("link-etc/passwd"), "leads out of its root");
        assert_eq!(why("link-ping"), "is or goes through a link, which is not followed here");
        let missing = Act::Read.attempt(&root, "nothing").unwrap_err();
        assert!(missing.is_missing());
    }
}

#[test]
fn a_file_with_a_name_outside_is_read_but_never_written_there() {
    let scene = Scene::new();
    for way in WAYS {
        let root = scene.root(way);
        assert_eq!(Act::Read.attempt(&root, "hard").unwrap(), PLAIN.as_bytes());
        let place = root.place(&RelativePath::parse("hard").unwrap(), LinkPolicy::Refuse).unwrap();
        let temporary = place.folder().place("beside".as_ref()).unwrap();
        temporary.create(0o600).unwrap().write_all(b"changed").unwrap();
        temporary.rename(&place, OverwriteMode::Anything).unwrap();
        assert_eq!(fs::read_to_string(scene.path("base/hard")).unwrap(), "changed");
        assert_eq!(fs::read_to_string(scene.path("outside/shared")).unwrap(), PLAIN);
        fs::remove_file(scene.path("base/hard")).unwrap();
        fs::hard_link(scene.path("outside/shared"), scene.path("base/hard")).unwrap();
    }
}

#[test]
fn a_folder_that_is_moved_out_while_it_is_held_is_noticed() {
    for way in WAYS {
        let scene = Scene::new();
        let root = scene.root(way);
        let held =
            root.folder_at(&RelativePath::parse("sub/deep").unwrap(), LinkPolicy::Refuse).unwrap();
        let ids = |folder: &Folder| {
            let mut ids = Vec::new();
            root.ascend(folder, |folder| {
                ids.push(folder.id());
                Ok::<(), PathError>(())
            })
            .map(|()| ids)
        };
        let chain = ids(&held).unwrap();
        assert_eq!((chain.len(), chain[2]), (3, root.folder().id()));
        fs::rename(scene.path("base/sub"), scene.path("base/moved")).unwrap();
        assert_eq!(ids(&held).unwrap(), chain, "moved, and still below");
        fs::rename(scene.path("base/moved/deep"), scene.path("outside/deep")).unwrap();
        assert!(matches!(ids(&held), Err(PathError::Outside)));
        let gone = Act::Read.attempt(&root, "sub/deep/plain.txt").unwrap_err();
        assert!(gone.is_missing(), "{gone}");
        // The root itself may be moved: the descriptor is what counts.
        fs::rename(scene.path("base"), scene.path("elsewhere")).unwrap();
        assert_eq!(Act::Read.attempt(&root, "plain.txt").unwrap(), PLAIN.as_bytes());
    }
}

#[test]
fn a_folder_tells_what_is_in_it() {
    let scene = Scene::new();
    let root = scene.root(ResolveMethod::Kernel);
    let mut entries = root.folder().entries().unwrap();
    entries.sort();
    let kind = |name: &str| entries.iter().find(|entry| entry.name == name).unwrap().kind;
    assert_eq!(kind("plain.txt"), Kind::File);
    assert_eq!(kind("sub"), Kind::Folder);
    assert_eq!(kind("link-up"), Kind::Link);
    assert_eq!(kind("pipe"), Kind::Pipe);
    assert_eq!(kind("socket"), Kind::Socket);
    assert!(root.folder().place("a/b".as_ref()).is_err());
    assert!(root.folder().place("..".as_ref()).is_err());
    assert!(root.folder().place("".as_ref()).is_err());
    root.folder().sync().unwrap();
}

#[test]
fn nothing_is_overwritten_where_nothing_was_expected() {
    let scene = Scene::new();
    let root = scene.root(ResolveMethod::Kernel);
    let place =
        |path: &str| root.place(&RelativePath::parse(path).unwrap(), LinkPolicy::Refuse).unwrap();
    for taken in ["plain.txt", "sub", "link-up", "pipe", "link-dangling"] {
        let fault = place("sub/x").rename(&place(taken), OverwriteMode::Nothing).unwrap_err();
        assert_eq!(
            fault.to_string(),
            PathError::from(rustix::io::Errno::EXIST).to_string(),
            "{taken}"
        );
        assert!(place(taken).create(0o600).is_err(), "{taken}");
    }
    place("sub/x").rename(&place("free"), OverwriteMode::Nothing).unwrap();
    assert_eq!(fs::read_to_string(scene.path("base/free")).unwrap(), PLAIN);
}
