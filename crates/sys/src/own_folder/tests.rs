//! Folders in every state that somebody can leave them in.

use super::*;
use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A folder that only we can write, in which `path` is to be made.
    fn new() -> Scene {
        Scene { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("content"), "content").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn mode_of(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

#[test]
fn a_missing_folder_is_made_for_us_alone_and_a_sound_one_stays() {
    let scene = Scene::new();
    let path = scene.path().join("a/b");
    for _ in 0..2 {
        assert_eq!(make(&path, FolderRule::INNER).unwrap(), None);
        assert_eq!(mode_of(&path), 0o700);
    }
    // Others may look into it, if somebody wanted that.
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(make(&path, FolderRule::INNER).unwrap(), None);
    assert_eq!(mode_of(&path), 0o755);
    assert_eq!(
        check(&scene.path().join("no"), FolderRule::INNER).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert!(!is_damaged(&scene.path().join("no"), FolderRule::INNER));
}

#[test]
fn a_pipe_a_file_and_a_link_are_moved_aside_and_kept() {
    let obstacles: [fn(&Scene); 4] = [
        |scene| fs::write(scene.path(), "theirs").unwrap(),
        |scene| symlink(scene.folder("elsewhere", 0o700), scene.path()).unwrap(),
        |scene| symlink("nowhere", scene.path()).unwrap(),
        |scene| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
            rustix::fs::mknodat(rustix::fs::CWD, scene.path(), kind, mode, 0).unwrap();
        },
    ];
    for put in obstacles {
        let scene = Scene::new();
        put(&scene);
        assert!(is_damaged(&scene.path(), FolderRule::INNER));
        assert!(names(&scene.path(), FolderRule::INNER).is_err());
        let kept = FolderRule { may_be_replaced: false, ..FolderRule::INNER };
        assert!(unsound(&make(&scene.path(), kept).unwrap_err()).is_some());
        let mended = make(&scene.path(), FolderRule::INNER).unwrap().unwrap().to_string();
        assert!(mended.contains("own.damaged-"), "{mended}");
        check(&scene.path(), FolderRule::INNER).unwrap();
        assert_eq!(names(&scene.path(), FolderRule::INNER).unwrap(), Vec::<OsString>::new());
        let aside = scene.names().into_iter().find(|name| name.starts_with("own.damaged-"));
        assert!(aside.is_some(), "{:?}", scene.names());
    }
}

#[test]
fn a_wrong_mode_is_corrected_and_the_content_stays() {
    for (mode, right) in [(0o777, 0o755), (0o770, 0o750), (0, 0o700), (0o555, 0o755)] {
        let scene = Scene::new();
        let path = scene.folder("own", mode);
        assert!(is_damaged(&path, FolderRule::INNER), "{mode:o}");
        let mended = make(&path, FolderRule::INNER).unwrap().unwrap().to_string();
        assert!(mended.contains(&format!("{right:04o} now")), "{mended}");
        assert_eq!(mode_of(&path), right);
        assert_eq!(names(&path, FolderRule::INNER).unwrap(), ["content"]);
    }
    // A home may be a project that a group works in.
    let scene = Scene::new();
    let path = scene.folder("own", 0o775);
    assert_eq!(make(&path, FolderRule::HOME).unwrap(), None);
    assert_eq!(mode_of(&path), 0o775);
}

#[test]
fn a_folder_for_everybody_is_neither_moved_nor_closed() {
    let scene = Scene::new();
    let path = scene.folder("own", 0o1777);
    assert!(make(&path, FolderRule::LARGE).is_err());
    assert_eq!((mode_of(&path), scene.names()), (0o1777, vec!["own".to_owned()]));
}

#[test]
fn a_link_is_used_where_it_may_be_and_where_nobody_else_can_change_what_it_names() {
    let scene = Scene::new();
    symlink(scene.folder("elsewhere", 0o700), scene.path()).unwrap();
    assert_eq!(make(&scene.path(), FolderRule::LARGE).unwrap(), None);
    assert_eq!(names(&scene.path(), FolderRule::LARGE).unwrap(), ["content"]);
    for mode in [0o777, 0o1777] {
        let scene = Scene::new();
        let elsewhere = scene.folder("elsewhere", mode);
        symlink(&elsewhere, scene.path()).unwrap();
        let mended = make(&scene.path(), FolderRule::LARGE).unwrap().unwrap().to_string();
        assert!(mended.contains("can be written by others"), "{mended}");
        assert_eq!(mode_of(&elsewhere), mode);
        assert!(scene.path().symlink_metadata().unwrap().is_dir());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
    }
}

#[test]
fn a_folder_or_a_link_of_a_stranger_is_moved_aside() {
    const STRANGER: u32 = 54_321;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let obstacles: [fn(&Scene); 4] = [
        |scene| chown(scene.folder("own", 0o700), Some(STRANGER), None).unwrap(),
        |scene| {
            // Left while it could be written by everybody.
            chown(scene.folder("own", 0o777).join("content"), Some(STRANGER), None).unwrap();
        },
        |scene| {
            symlink(scene.folder("elsewhere", 0o700), scene.path()).unwrap();
            lchown(scene.path(), Some(STRANGER), None).unwrap();
        },
        |scene| {
            let elsewhere = scene.folder("elsewhere", 0o700);
            chown(&elsewhere, Some(STRANGER), None).unwrap();
            symlink(&elsewhere, scene.path()).unwrap();
        },
    ];
    for put in obstacles {
        let scene = Scene::new();
        put(&scene);
        assert!(make(&scene.path(), FolderRule::LARGE).unwrap().is_some());
        assert_eq!(names(&scene.path(), FolderRule::LARGE).unwrap(), Vec::<OsString>::new());
        assert!(scene.names().iter().any(|name| name.starts_with("own.damaged-")));
    }
}
