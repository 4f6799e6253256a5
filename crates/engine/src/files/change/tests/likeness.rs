//! The attributes of a file are kept, even if the file was deleted in between.

use super::*;
use rustix::fs::XattrFlags;
use std::ffi::CStr;
use std::os::unix::fs::chown;

/// Only the superuser can own files of this user.
const OTHER: u32 = 1234;

/// A file with mode 666, whatever the umask, and of another owner if possible.
fn special(scene: &Scene, path: &str) -> (u32, u32, u32) {
    scene.place.write(path, "x\n");
    let full = scene.place.path("app").join(path);
    fs::set_permissions(&full, fs::Permissions::from_mode(0o777)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&full, Some(OTHER), Some(OTHER)).unwrap();
    }
    let set = rustix::fs::setxattr(&full, c"user.mark", b"kept", XattrFlags::empty());
    assert!(set.is_ok() || set == Err(rustix::io::Errno::OPNOTSUPP), "{set:?}");
    like(scene, path)
}

fn like(scene: &Scene, path: &str) -> (u32, u32, u32) {
    let about = fs::metadata(scene.place.path("app").join(path)).unwrap();
    (about.mode(), about.uid(), about.gid())
}

fn mark(scene: &Scene, path: &str) -> Option<Vec<u8>> {
    let mut value = [0; 100];
    let full = scene.place.path("app").join(path);
    let length = rustix::fs::getxattr(&full, c"user.mark", &mut value[..]).ok()?;
    Some(value[..length].to_vec())
}

#[test]
fn what_was_deleted_comes_back_as_what_it_was() {
    let scene = Scene::new();
    let (was, marked) = (special(&scene, "a"), mark(&scene, "a"));
    scene.run(scene.files.delete("a".into(), wish())).unwrap();
    scene.run(scene.files.undo("a".into(), None, wish())).unwrap();
    assert_eq!((like(&scene, "a"), mark(&scene, "a")), (was, marked));
}

#[test]
fn the_same_content_with_other_attributes_is_another_generation() {
    let scene = Scene::new();
    scene.place.write("g", "A\n");
    let path = scene.place.path("app/g");
    let set =
        |name: &CStr, value: &[u8]| rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
    match set(c"user.k", b"old") {
        Err(rustix::io::Errno::OPNOTSUPP) => return,
        set => set.unwrap(),
    }
    assert_eq!(scene.write("g", "B\n").unwrap().generation, Some(1));
    fs::write(&path, "A\n").unwrap();
    set(c"user.k", b"new").unwrap();
    set(c"user.z", b"1").unwrap();
    let gone = scene.run(scene.files.delete("g".into(), wish())).unwrap();
    assert_eq!(gone.generation, Some(2));
    scene.run(scene.files.undo("g".into(), None, wish())).unwrap();
    let get = |name: &CStr| {
        let mut value = [0; 100];
        rustix::fs::getxattr(&path, name, &mut value[..]).map(|length| value[..length].to_vec())
    };
    assert_eq!(scene.read("g").as_deref(), Some("A\n"));
    assert_eq!((get(c"user.k"), get(c"user.z")), (Ok(b"new".to_vec()), Ok(b"1".to_vec())));
    let keep = || {
        let target = Target::of(&scene.place.spot("g"), &scene.place.guarded).unwrap();
        let (found, bounds) = (target.find().unwrap(), Bounds { generations: 9, bytes: 1 << 20 });
        let backups = Backups::of(&scene.files.shared.home);
        let mut running = BackupInProgress::default();
        backups.keep(&target.spot, found.as_ref(), "test", None, bounds, &mut running).unwrap()
    };
    assert_eq!((keep(), keep()), (Some(4), Some(4)), "the same is kept once");
}

#[test]
fn what_a_diff_deleted_is_taken_back_as_what_it_was() {
    let scene = Scene::new();
    let (was, marked) = (special(&scene, "a"), mark(&scene, "a"));
    let text = b"--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n".to_vec();
    let query = DiffQuery { text, ..DiffQuery::default() };
    let held = ExpectedState { hold: true, ..wish() };
    let changed = scene.run(scene.files.apply_diff(query, held)).unwrap();
    assert_eq!(scene.read("a"), None);
    assert!(scene.run(scene.files.take_back(changed, wish())).unwrap().is_empty());
    assert_eq!((like(&scene, "a"), mark(&scene, "a")), (was, marked));
}

#[test]
fn what_a_diff_moves_is_what_it_was() {
    let scene = Scene::new();
    let (was, marked) = (special(&scene, "a"), mark(&scene, "a"));
    scene.diff("diff --git a/a b/b\nrename from a\nrename to b\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n").unwrap();
    assert_eq!(scene.read("b").as_deref(), Some("y\n"));
    assert_eq!((like(&scene, "b"), mark(&scene, "b")), (was, marked));
}

#[test]
fn a_generation_of_an_earlier_version_has_its_permissions_and_no_owner() {
    let scene = Scene::new();
    special(&scene, "a");
    scene.run(scene.files.delete("a".into(), wish())).unwrap();
    let backups = Backups::of(&scene.files.shared.home);
    let kept = backups.all().pop().unwrap().0;
    let text = String::from_utf8(fs::read(&kept).unwrap()).unwrap();
    let (line, content) = text.split_once('\n').unwrap();
    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
    let fields = line.as_object_mut().unwrap();
    assert!(fields.remove("owner").is_some());
    fields.remove("attributes");
    fs::write(&kept, format!("{line}\n{content}")).unwrap();
    scene.run(scene.files.undo("a".into(), None, wish())).unwrap();
    let own = fs::metadata(scene.place.path("app")).unwrap();
    assert_eq!(like(&scene, "a"), (0o100777, own.uid(), own.gid()));
}

#[test]
fn a_private_file_is_not_opened_by_what_its_folder_gives_to_new_ones() {
    let scene = Scene::new();
    scene.place.write("sub/secret", "x\n");
    scene.place.write("sub/shared", "x\n");
    let path = |name: &str| scene.place.path("app/sub").join(name);
    // User 1234 may read everything in the folder: version 2, then kind, permissions and id of each entry.
    let nobody = u32::MAX;
    let entries = [(1, 6, nobody), (2, 4, OTHER), (4, 4, nobody), (16, 4, nobody), (32, 0, nobody)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (kind, may, whose) in entries {
        list.extend([u16::to_le_bytes(kind), u16::to_le_bytes(may)].concat());
        list.extend(u32::to_le_bytes(whose));
    }
    let access = c"system.posix_acl_access";
    let given = c"system.posix_acl_default";
    match rustix::fs::setxattr(path(""), given, &list, XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => return,
        set => set.unwrap(),
    }
    rustix::fs::setxattr(path("shared"), access, &list, XattrFlags::empty()).unwrap();
    fs::set_permissions(path("secret"), fs::Permissions::from_mode(0o640)).unwrap();
    for name in ["sub/secret", "sub/shared"] {
        scene.edit(name, "x", "y", wish()).unwrap();
    }
    let list_of = |name: &str| {
        let mut value = [0; 1000];
        let length = rustix::fs::getxattr(path(name), access, &mut value[..]);
        length.map(|length| value[..length].to_vec())
    };
    assert_eq!(list_of("secret"), Err(rustix::io::Errno::NODATA));
    assert_eq!(like(&scene, "sub/secret").0, 0o100640);
    assert_eq!(list_of("shared"), Ok(list), "what was its own stays");
}

#[test]
fn a_diff_says_who_may_execute_a_file_and_not_who_may_read_it() {
    let scene = Scene::new();
    let check = |mode: u32, said: &str, expected: u32| {
        scene.place.write("f", "x\n");
        let path = scene.place.path("app/f");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        scene.diff(&format!("diff --git a/f b/f\nold mode 100644\nnew mode {said}\n")).unwrap();
        assert_eq!(like(&scene, "f").0 & 0o7777, expected, "{mode:o} {said}");
    };
    check(0o600, "100644", 0o600);
    check(0o600, "100755", 0o700);
    check(0o644, "100755", 0o755);
    check(0o755, "100644", 0o644);
    check(0o750, "100644", 0o640);
    scene
        .diff(
            "diff --git a/n b/n\nnew file mode 100777\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n",
        )
        .unwrap();
    scene.place.write("plain", "x\n");
    let plain = like(&scene, "plain").0;
    assert_eq!(like(&scene, "n").0, plain | (plain & 0o444) >> 2, "as the umask says");
}
