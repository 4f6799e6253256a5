//! A root that contains everything that could lead out, the files outside, and every operation to
//! try on a path.

use proctor_sys::beneath::{
    EntryPath, Kind, LinkPolicy, OverwriteMode, PathError, RelativePath, ResolveMethod, Root,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Occurs in no file and no name below the root.
pub(super) const SECRET: &str = "secret-of-outside";

/// The content of a file inside, for comparison.
pub(super) const PLAIN: &str = "inside\n";

/// LinkPolicy below the root, with their targets.
pub(super) const LINKS: &[(&str, &str)] = &[
    ("up", ".."),
    ("up-slash", "../"),
    ("up-dot", "../."),
    ("sibling", "../outside"),
    ("prefix", "../base-sibling"),
    ("file", "../outside/secret-of-outside.txt"),
    ("deep", "sub/../../outside"),
    ("deeper", "./sub/deep/../../../outside"),
    ("round", "sub/link-back"),
    ("dangling", "../outside/new.txt"),
    ("into-new", "../outside/new/er"),
    ("slash", "/"),
    ("slashes", "//"),
    ("etc", "/etc"),
    ("passwd", "/etc/passwd"),
    ("absolute", "@outside"),
    ("absolute-file", "@outside/secret-of-outside.txt"),
    ("absolute-round", "@base/../outside"),
    ("absolute-inside", "@base/plain.txt"),
    ("proc-root", "/proc/self/root"),
    ("proc-cwd", "/proc/self/cwd"),
    ("proc-exe", "/proc/self/exe"),
    ("proc-fd", "/proc/self/fd"),
    ("proc-fd-0", "/proc/self/fd/0"),
    ("proc-thread", "/proc/thread-self/root"),
    ("dev-fd", "/dev/fd/0"),
    ("stdin", "/dev/stdin"),
    ("null", "/dev/null"),
    ("self", "link-self"),
    ("ping", "link-pong"),
    ("pong", "link-ping"),
    ("sub-loop", "sub/../link-sub-loop/x"),
];

pub(super) struct Scene {
    folder: TempDir,
}

impl Scene {
    pub(super) fn new() -> Scene {
        let scene = Scene { folder: tempfile::tempdir().unwrap() };
        scene.outside();
        scene.inside();
        scene
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn root(&self, way: ResolveMethod) -> Root {
        Root::open(&self.path("base")).unwrap().going(way)
    }

    fn outside(&self) {
        for folder in ["outside/dir", "base-sibling", "base/sub/deep"] {
            fs::create_dir_all(self.path(folder)).unwrap();
        }
        for file in ["outside/dir/inner", "outside/x", "base-sibling/x"] {
            fs::write(self.path(file), SECRET).unwrap();
            fs::write(self.path(file).with_file_name(format!("{SECRET}.txt")), SECRET).unwrap();
        }
        fs::write(self.path("outside/shared"), PLAIN).unwrap();
    }

    /// Restores everything below the root after an attempt.
    pub(super) fn inside(&self) {
        self.clear("sub/away");
        for file in ["plain.txt", "sub/plain.txt", "sub/deep/plain.txt", "sub/x"] {
            let path = self.path("base").join(file);
            if fs::read_to_string(&path).is_ok_and(|text| text == PLAIN) {
                continue;
            }
            self.clear(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, PLAIN).unwrap();
        }
        for (name, text) in LINKS {
            let text = text.replace("@outside", self.path("outside").to_str().unwrap());
            let text = text.replace("@base", self.path("base").to_str().unwrap());
            self.link(&format!("link-{name}"), &text);
        }
        self.link("sub/link-back", "../../outside");
        // A chain of harmless links that is longer than the kernel follows.
        self.link("chain-0", "plain.txt");
        for at in 0..45 {
            self.link(&format!("chain-{}", at + 1), &format!("chain-{at}"));
        }
        self.special();
    }

    fn special(&self) {
        let is = |name: &str, right: fn(&fs::Metadata) -> bool| {
            fs::symlink_metadata(self.path("base").join(name)).is_ok_and(|data| right(&data))
        };
        if !is("hard", |data| data.nlink() == 2) {
            self.clear("hard");
            fs::hard_link(self.path("outside/shared"), self.path("base/hard")).unwrap();
        }
        if !is("socket", |data| data.file_type().is_socket()) {
            self.clear("socket");
            let _ = UnixListener::bind(self.path("base/socket")).unwrap();
        }
        if !is("pipe", |data| data.file_type().is_fifo()) {
            self.clear("pipe");
            self.node("pipe", FileType::Fifo, 0).unwrap();
        }
        for (name, device) in [("device-null", 0x0103), ("device-zero", 0x0105)] {
            if !is(name, |data| data.file_type().is_char_device()) {
                self.clear(name);
                // Only a privileged user can create these; missing ones are harmless.
                let _ = self.node(name, FileType::CharacterDevice, device);
            }
        }
    }

    fn link(&self, name: &str, text: &str) {
        let path = self.path("base").join(name);
        if fs::read_link(&path).is_ok_and(|there| there.to_str() == Some(text)) {
            return;
        }
        self.clear(name);
        symlink(text, path).unwrap();
    }

    fn clear(&self, name: &str) {
        let path = self.path("base").join(name);
        if fs::remove_file(&path).is_err() {
            fs::remove_dir_all(&path).ok();
        }
    }

    fn node(&self, name: &str, kind: FileType, device: u64) -> rustix::io::Result<()> {
        let path = self.path("base").join(name);
        mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device)
    }

    /// The state of everything outside the root.
    pub(super) fn outsiders(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for folder in ["outside", "base-sibling"] {
            gather(&self.path(folder), &mut seen);
        }
        let mut names: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        seen.insert(self.folder.path().to_owned(), format!("{names:?}"));
        seen
    }
}

fn gather(path: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    let data = fs::symlink_metadata(path).unwrap();
    let content = fs::read_to_string(path).unwrap_or_default();
    let text = format!("{} {:o} {} {content}", data.ino(), data.mode(), data.mtime_nsec());
    seen.insert(path.to_owned(), text);
    if data.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            gather(&entry.unwrap().path(), seen);
        }
    }
}

/// An operation on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Look,
    Read,
    List,
    Create,
    Replace,
    MakeFolder,
    MoveHere,
    MoveAway,
    Remove,
    RemoveFolder,
}

pub(super) const ACTS: [Act; 10] = [
    Act::Look,
    Act::Read,
    Act::List,
    Act::Create,
    Act::Replace,
    Act::MakeFolder,
    Act::MoveHere,
    Act::MoveAway,
    Act::Remove,
    Act::RemoveFolder,
];

impl Act {
    pub(super) const READING: [Act; 3] = [Act::Look, Act::Read, Act::List];

    /// Tries the operation; returns what it revealed.
    pub(super) fn attempt(self, root: &Root, path: &str) -> Result<Vec<u8>, PathError> {
        let path = RelativePath::parse(path)?;
        let refusing = || root.place(&path, LinkPolicy::Refuse);
        match self {
            Act::Look => {
                let look = root.place(&path, LinkPolicy::Follow)?.look()?;
                Ok(look.map(|look| look.size.to_string()).unwrap_or_default().into())
            }
            Act::Read => {
                let (mut file, look) = root.place(&path, LinkPolicy::Follow)?.read()?;
                assert_eq!(look.kind, Kind::File);
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Act::List => {
                let entries = root.folder_at(&path, LinkPolicy::Follow)?.entries()?;
                Ok(entries.iter().flat_map(|entry| entry.bytes().to_vec()).collect())
            }
            Act::Create => {
                refusing()?.create(0o600)?.write_all(b"new")?;
                Ok(Vec::new())
            }
            Act::Replace => replace(&refusing()?, PLAIN.as_bytes()),
            Act::MakeFolder => refusing()?.make_folder(0o700).map(|()| Vec::new()),
            Act::MoveHere => {
                let from = root.place(&RelativePath::parse("sub/x")?, LinkPolicy::Refuse)?;
                from.rename(&refusing()?, OverwriteMode::Nothing).map(|()| Vec::new())
            }
            Act::MoveAway => {
                let to = root.place(&RelativePath::parse("sub/away")?, LinkPolicy::Refuse)?;
                refusing()?.rename(&to, OverwriteMode::Nothing).map(|()| Vec::new())
            }
            Act::Remove => refusing()?.remove().map(|()| Vec::new()),
            Act::RemoveFolder => refusing()?.remove_folder().map(|()| Vec::new()),
        }
    }
}

/// Creates a temporary file and renames it.
fn replace(place: &EntryPath, bytes: &[u8]) -> Result<Vec<u8>, PathError> {
    let temporary = place.folder().place(".replace.tmp".as_ref())?;
    temporary.create(0o600)?.write_all(bytes)?;
    match temporary.rename(place, OverwriteMode::Anything) {
        Ok(()) => Ok(Vec::new()),
        Err(fault) => {
            temporary.remove()?;
            Err(fault)
        }
    }
}
