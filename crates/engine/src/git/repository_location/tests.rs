//! Found and rejected repositories, and the reasons.

use super::*;
use proctor_sys::beneath::Root;
use std::os::unix::fs::symlink;

struct Scene {
    _folder: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
}

/// A folder below a root.
fn named(root: &Path, folder: PathBuf, write: bool) -> RequestFolder {
    let held = Arc::new(Root::open(root).unwrap());
    RequestFolder { root: root.to_owned(), held, folder, write }
}

/// A root with a repository `a`, and a folder outside.
fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let (root, outside) = (path.join("root"), path.join("outside"));
    for inner in ["refs/heads", "objects/info", "logs"] {
        fs::create_dir_all(root.join("a/.git").join(inner)).unwrap();
    }
    fs::create_dir_all(root.join("a/deep/er")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    Scene { _folder: folder, root, outside }
}

impl Scene {
    fn find(&self, folder: &str, trusted: &[String]) -> Result<RepositoryLocation, GitError> {
        find(&named(&self.root, self.root.join(folder), true), trusted, &Bounds::default())
    }

    /// Checks that the repository is rejected, unless it is trusted.
    #[track_caller]
    fn refuses(&self, why: &str) {
        let error = self.find("a", &[]).and_then(|place| place.check_writable()).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        let top = self.root.join("a").display().to_string();
        let trusted = self.find("a", &[top]).unwrap();
        assert!(trusted.trusted && trusted.check_writable().is_ok());
    }

    fn git(&self, path: &str) -> PathBuf {
        self.root.join("a/.git").join(path)
    }
}

#[test]
fn a_repository_is_found_upwards_and_never_above_its_root() {
    let scene = scene();
    let place = scene.find("a/deep/er", &[]).unwrap();
    assert_eq!((place.top, place.git_dir), (scene.root.join("a"), scene.root.join("a/.git")));
    let above = scene.root.parent().unwrap();
    fs::create_dir_all(above.join(".git/refs")).unwrap();
    assert!(matches!(scene.find("", &[]), Err(GitError::NoRepository { .. })));
    let trusted = [above.display().to_string()];
    let place = scene.find("", &trusted).unwrap();
    assert!(place.trusted && place.top == above, "the owner named it");
    assert_eq!(scene.find("a", &trusted).unwrap().top, scene.root.join("a"), "it is nearer");
}

#[test]
fn a_read_only_root_and_what_holds_our_own_files_is_not_changed() {
    let scene = scene();
    let (root, folder) = (scene.root.clone(), scene.root.join("a"));
    let refused = |write: bool, own: &Path, trusted: &[String]| {
        let named = named(&root, folder.clone(), write);
        let bounds = Bounds { own: vec![own.to_owned()], ..Bounds::default() };
        let place = find(&named, trusted, &bounds).unwrap();
        place.check_writable().err().map(|error| error.to_string())
    };
    let trusted = [folder.display().to_string()];
    for trusted in [&[][..], &trusted] {
        assert_eq!(refused(true, &root, trusted), None, "it is around the repository");
        assert!(refused(false, &root, trusted).unwrap().contains("is read-only"));
        for own in [folder.clone(), folder.join("state")] {
            assert!(refused(true, &own, trusted).unwrap().contains("Proctor's own files"));
        }
    }
}

/// The innermost root around a repository decides, whichever root it was named by, and any read-only root in
/// it.
#[test]
fn a_root_that_is_read_only_closes_all_that_git_would_change_in_it() {
    let scene = scene();
    let work = worktree(&scene);
    let root = |name: &str| scene.root.join(name);
    let refused = |folder: &str, closed: &str, open: &[&str]| {
        let named = named(&scene.root, root(folder), true);
        let open = open.iter().map(|name| root(name)).collect();
        let bounds = Bounds { own: Vec::new(), closed: vec![root(closed)], open };
        find(&named, &[], &bounds).unwrap().check_writable().is_err()
    };
    assert!(work.is_dir());
    for (folder, closed, open, expected) in [
        ("a", "a", &[][..], true),
        ("a", "a/deep", &[], true),
        ("a", "a/.git/refs", &[], true),
        ("a", "", &[], true),
        ("a/deep", "", &["a/deep"], true),
        ("a", "", &["a"], false),
        ("a", "a", &[""], true),
        ("a", "work", &[], false),
        ("work", "a", &[], true),
        ("work", "", &["work"], true),
        ("work", "", &["work", "a"], false),
    ] {
        assert_eq!(refused(folder, closed, open), expected, "{folder} {closed} {open:?}");
    }
}

/// A second work tree of `a`.
fn worktree(scene: &Scene) -> PathBuf {
    let work = scene.root.join("work");
    fs::create_dir_all(scene.git("worktrees/work")).unwrap();
    fs::create_dir(&work).unwrap();
    fs::write(work.join(".git"), "gitdir: ../a/.git/worktrees/work\n").unwrap();
    fs::write(scene.git("worktrees/work/commondir"), "../..\n").unwrap();
    work
}

#[test]
fn a_folder_of_git_may_be_elsewhere_below_the_root() {
    let scene = scene();
    let work = worktree(&scene);
    let place = scene.find("work", &[]).unwrap();
    assert_eq!(place.git_dir, scene.git("worktrees/work"));
    assert_eq!(place.common_dir, scene.root.join("a/.git"));
    fs::write(work.join(".git"), "nonsense").unwrap();
    assert!(matches!(scene.find("work", &[]), Err(GitError::Unsafe { .. })));
}

#[test]
fn what_leads_out_is_refused() {
    let scene = scene();
    fs::create_dir_all(scene.outside.join("git")).unwrap();
    fs::rename(scene.root.join("a/.git"), scene.root.join("a/kept")).unwrap();
    symlink(scene.outside.join("git"), scene.root.join("a/.git")).unwrap();
    scene.refuses("which is outside of");
    fs::remove_file(scene.root.join("a/.git")).unwrap();
    let names = format!("gitdir: {}", scene.outside.join("git").display());
    fs::write(scene.root.join("a/.git"), names).unwrap();
    scene.refuses("which is outside of");
    fs::remove_file(scene.root.join("a/.git")).unwrap();
    fs::rename(scene.root.join("a/kept"), scene.root.join("a/.git")).unwrap();

    fs::write(scene.git("commondir"), scene.outside.as_os_str().as_bytes()).unwrap();
    scene.refuses("which is outside of");
    fs::write(scene.git("commondir"), "..").unwrap();
    fs::rename(scene.git("commondir"), scene.git("kept")).unwrap();
    symlink("kept", scene.git("commondir")).unwrap();
    let error = scene.find("a", &[]).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "what a link leads to is not read: {error}");
    fs::remove_file(scene.git("commondir")).unwrap();

    fs::write(scene.git("objects/info/alternates"), format!("{}\n", scene.outside.display()))
        .unwrap();
    scene.refuses("which is outside of");
    fs::create_dir_all(scene.root.join("x/y")).unwrap();
    for odd in ["\"x\"\n", "#x\n", "../../../x/y/../../x\n"] {
        fs::write(scene.git("objects/info/alternates"), odd).unwrap();
        scene.refuses("is not followed");
    }
    // A trailing space belongs to the path.
    fs::create_dir(scene.root.join("objs")).unwrap();
    symlink(&scene.outside, scene.root.join("objs ")).unwrap();
    fs::write(scene.git("objects/info/alternates"), "../../../objs \n").unwrap();
    scene.refuses("which is outside of");
    fs::write(scene.git("objects/info/alternates"), "../../../objs\n").unwrap();
    scene.find("a", &[]).unwrap();
    symlink(scene.outside.join("x"), scene.root.join("objs/ab")).unwrap();
    scene.refuses("is a link");
    fs::remove_file(scene.git("objects/info/alternates")).unwrap();
    scene.find("a", &[]).unwrap().check_writable().unwrap();
}

#[test]
fn links_where_git_writes_are_refused() {
    let scene = scene();
    for link in [
        "index",
        "COMMIT_EDITMSG",
        "logs/HEAD",
        "refs/heads/x",
        "info/exclude",
        "objects/ab",
        "objects/cd/ef",
        "objects/pack/x.pack",
        "objects/info/commit-graphs/x",
        "rebase-merge/done",
        "rebase-apply/next",
        "sequencer/todo",
        "rr-cache/ab/preimage",
        "worktrees/x/HEAD",
        "new/in/git",
    ] {
        let path = scene.git(link);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&scene.outside, &path).unwrap();
        scene.refuses("is a link");
        fs::remove_file(path).unwrap();
    }
    let pipe = scene.git("config");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    scene.refuses("is a pipe");
    fs::remove_file(pipe).unwrap();
    for link in LEFT_OUT {
        fs::create_dir(scene.git(link)).unwrap();
        symlink(&scene.outside, scene.git(link).join("pre-commit")).unwrap();
    }
    scene.find("a", &[]).unwrap().check_writable().unwrap();
}

#[test]
fn what_belongs_to_another_user_is_refused() {
    let scene = scene();
    // Only root can change owners.
    if std::os::unix::fs::chown(scene.root.join("a"), Some(12345), None).is_ok() {
        scene.refuses("belongs to user 12345");
    }
}
