//! Holding, waiting for and recovering the lock of an index.

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

struct Scene(tempfile::TempDir);

impl Scene {
    fn git_dir(&self) -> PathBuf {
        self.0.path().join("git")
    }

    fn home(&self) -> Home {
        Home { state: self.0.path().into(), runtime: self.0.path().into() }
    }

    fn take(&self) -> Option<Index> {
        let inside = Inside::named(self.git_dir());
        Index::take(self.git_dir(), inside, &self.home().held_indexes()).unwrap()
    }
}

fn scene() -> Scene {
    let scene = Scene(tempfile::tempdir().unwrap());
    fs::create_dir(scene.git_dir()).unwrap();
    scene
}

#[test]
fn one_holds_it_and_what_was_prepared_takes_its_place() {
    let scene = scene();
    let git = scene.git_dir();
    let index = scene.take().unwrap();
    assert!(scene.take().is_none() && !index.next().exists());
    fs::write(index.next(), "first").unwrap();
    index.install().unwrap();
    assert!(scene.take().is_none(), "it is still held");
    drop(index);
    assert_eq!(fs::read(git.join("index")).unwrap(), b"first");

    let index = scene.take().unwrap();
    assert_eq!(fs::read(index.next()).unwrap(), b"first");
    fs::write(index.next(), "second").unwrap();
    drop(index);
    assert_eq!(fs::read(git.join("index")).unwrap(), b"first", "it was not installed");
    assert_eq!(names(&git), ["index"]);
    assert!(held_before(&scene.home()).is_empty());
}

#[test]
fn a_lock_of_somebody_else_is_waited_for_and_never_removed() {
    let scene = scene();
    let lock = scene.git_dir().join(LOCK);
    for text in ["", "DIRC", "proctor\nand more"] {
        fs::write(&lock, text).unwrap();
        assert!(scene.take().is_none());
        release(&scene.git_dir());
        assert_eq!(fs::read_to_string(&lock).unwrap(), text);
    }
    fs::remove_file(&lock).unwrap();
    let index = scene.take().unwrap();
    // Removed by hand, and then another git came.
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, "").unwrap();
    fs::write(index.next(), "mine").unwrap();
    assert!(index.install().is_err());
    drop(index);
    assert!(lock.exists() && !scene.git_dir().join("index").exists());
}

#[test]
fn an_index_that_is_no_file_is_neither_followed_nor_waited_for() {
    let scene = scene();
    let (git, secret) = (scene.git_dir(), scene.0.path().join("secret"));
    fs::write(&secret, "secret").unwrap();
    let own = git.join(OWN);
    let check = |what: &str| {
        let inside = Inside::named(git.clone());
        let taken = Index::take(git.clone(), inside, &scene.home().held_indexes());
        let why = taken.err().map(|why| why.to_string());
        assert_eq!(why.as_deref(), Some("it is not a regular file"), "{what}");
        assert_eq!(names(&git), ["index"], "{what}");
        fs::remove_file(&own).unwrap();
    };
    std::os::unix::fs::symlink(&secret, &own).unwrap();
    check("a link");
    let made = std::process::Command::new("mkfifo").arg(&own).status().unwrap();
    assert!(made.success());
    check("a pipe");
    let lock = git.join(LOCK);
    fs::write(&secret, WORD).unwrap();
    std::os::unix::fs::symlink(&secret, &lock).unwrap();
    release(&git);
    assert!(lock.symlink_metadata().is_ok() && scene.take().is_none());
}

#[test]
fn what_a_killed_daemon_held_is_released() {
    let scene = scene();
    let kill = |index: Index| {
        let Index { git_dir, .. } = &index;
        let left = (git_dir.clone(), index.lock.try_clone().unwrap());
        fs::write(index.aside(), "half").unwrap();
        std::mem::forget(index);
        left
    };
    // A living owner has the flock, whichever daemon checks.
    let (git, lock) = kill(scene.take().unwrap());
    release(&git);
    release_all(held_before(&scene.home()));
    assert!(git.join(LOCK).exists());
    lock.unlock().unwrap();
    assert!(scene.take().is_some(), "the next who wants it");
    let (git, lock) = kill(scene.take().unwrap());
    lock.unlock().unwrap();
    release_all(held_before(&scene.home()));
    assert!(names(&git).is_empty() && held_before(&scene.home()).is_empty());
}

#[test]
fn the_index_of_a_commit_that_was_made_takes_its_place_whoever_comes() {
    let one = format!("{}\n", "1".repeat(40));
    let check = |made: bool, changed: bool, release: fn(&Scene), expected: &[u8]| {
        let scene = scene();
        let git = scene.git_dir();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::write(git.join(OWN), "before").unwrap();
        let index = scene.take().unwrap();
        fs::write(index.next(), "prepared").unwrap();
        let of_git = index.begin().unwrap();
        drop(index);
        release(&scene);
        assert!(git.join(LOCK).exists(), "git is still at it");
        if made {
            fs::write(git.join("refs/heads/main"), &one).unwrap();
        }
        if changed {
            fs::write(git.join(OWN), "somebody's").unwrap();
        }
        drop(of_git);
        release(&scene);
        assert_eq!(fs::read(git.join(OWN)).unwrap(), expected);
        assert_eq!(names(&git), ["HEAD", "index", "refs"]);
    };
    for release in [
        |scene: &Scene| release(&scene.git_dir()),
        |scene: &Scene| drop(scene.take()),
        |scene: &Scene| release_all(held_before(&scene.home())),
    ] {
        check(true, false, release, b"prepared");
        check(false, false, release, b"before");
        check(true, true, release, b"somebody's");
    }
}

#[test]
fn a_lock_that_was_never_finished_is_in_nobodys_way() {
    let scene = scene();
    let draft = scene.git_dir().join(DRAFT);
    let other = write_lock(&draft).unwrap();
    assert!(scene.take().is_none() && !scene.git_dir().join(LOCK).exists(), "it may yet be one");
    other.unlock().unwrap();
    assert!(scene.take().is_some());
    fs::write(&draft, "").unwrap();
    release(&scene.git_dir());
    assert!(names(&scene.git_dir()).is_empty());
    std::os::unix::fs::symlink("elsewhere", &draft).unwrap();
    assert!(scene.take().is_none(), "nobody follows it");
    assert_eq!(names(&scene.git_dir()), [DRAFT]);
}
