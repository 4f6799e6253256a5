//! Where a repository is: found by us and told to git, so that nothing in it can say otherwise.
//!
//! A repository that the owner did not trust stays below its root with all it has: its files, what it borrows from others, and
//! where its links lead. Everything here blocks.

use super::error::GitError;
use super::folder::Folder;
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Longest path in a file of git's.
const LONGEST: u64 = 4096;

/// A file of these paths, one a line.
const MANY: u64 = 64 << 10;

/// Repositories that borrow from repositories that borrow; git itself stops at five.
const DEEPEST: usize = 5;

/// Files in a folder of git: ten times what large projects have.
const MOST_ENTRIES: usize = 500_000;

/// What nothing is read from and nothing written to: programs, the repositories of submodules, what other tools keep.
const LEFT_OUT: [&str; 4] = ["hooks", "modules", "lfs", "annex"];

/// There may be very many in them, and who only looks is not led astray: looked at before something is changed.
const REFERENCES: [&str; 2] = ["refs", "logs"];

/// A repository. All paths are absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
    /// Where it shares what belongs to all its work trees; often the same.
    pub(super) common_dir: PathBuf,
    /// The owner lets it run programs.
    pub(super) trusted: bool,
    /// Why nothing is changed in it.
    pub(super) read_only: Option<String>,
}

/// Where nothing is changed. All paths are without links.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Folders of Proctor's own.
    pub(super) own: Vec<PathBuf>,
    /// Roots that are read-only.
    pub(super) closed: Vec<PathBuf>,
    /// Roots that may be written to. One inside of a closed one is open.
    pub(super) open: Vec<PathBuf>,
}

impl Bounds {
    /// Why nothing is changed in these folders.
    fn against(&self, folders: &[&Path]) -> Option<String> {
        for folder in folders {
            if let Some(part) = self.closed.iter().find(|closed| closed.starts_with(folder)) {
                return Some(format!("{} in it is read-only", part.display()));
            }
            if let Some(around) = self.closed.iter().find(|closed| self.closes(closed, folder)) {
                return Some(format!("the root {} is read-only", around.display()));
            }
            if let Some(own) = self.own.iter().find(|own| own.starts_with(folder)) {
                return Some(format!("Proctor's own files are in it, at {}", own.display()));
            }
        }
        None
    }

    /// Is this the root that counts for a folder in it?
    fn closes(&self, closed: &Path, folder: &Path) -> bool {
        let nearer =
            |open: &PathBuf| open != closed && open.starts_with(closed) && folder.starts_with(open);
        folder.starts_with(closed) && !self.open.iter().any(nearer)
    }
}

/// The repository that a folder is in, looked for upwards as far as its root; above the root, one that the owner trusts.
pub(super) fn find(
    folder: &Folder,
    trusted: &[String],
    bounds: &Bounds,
) -> Result<Place, GitError> {
    let Folder { root, folder, write } = folder;
    let trusted: Vec<PathBuf> =
        trusted.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let counts = |above: &Path| above.starts_with(root) || trusted.iter().any(|top| top == above);
    let mut above = folder.ancestors().filter(|above| counts(above));
    let top = above.find(|above| above.join(".git").symlink_metadata().is_ok());
    let none = || GitError::NoRepository { folder: folder.clone(), root: root.clone() };
    let top = top.ok_or_else(none)?.to_owned();
    let trusted = trusted.contains(&top);
    let unsafe_ = |why: String| GitError::Unsafe { top: top.clone(), why };
    let git_dir = git_dir(&top).map_err(unsafe_)?;
    let common_dir = common_dir(&git_dir).map_err(unsafe_)?;
    let read_only = match write {
        true => bounds.against(&[&top, &git_dir, &common_dir]),
        false => Some(format!("the root {} is read-only", root.display())),
    };
    let place = Place { top, git_dir, common_dir, trusted, read_only };
    if !trusted {
        place.check(root).map_err(|why| GitError::Unsafe { top: place.top.clone(), why })?;
    }
    Ok(place)
}

impl Place {
    /// Nothing of it leads out of the root.
    fn check(&self, root: &Path) -> Result<(), String> {
        for path in [&self.git_dir, &self.common_dir] {
            below(path, root)?;
        }
        owned(&[&self.top, &self.top.join(".git"), &self.git_dir, &self.common_dir])?;
        let mut left = MOST_ENTRIES;
        let unread: Vec<&str> = LEFT_OUT.into_iter().chain(REFERENCES).collect();
        for folder in self.folders() {
            no_links(folder, &unread, &mut left)?;
        }
        borrowed(&self.common_dir.join("objects"), root, DEEPEST, &mut left)
    }

    /// May git write here? Where it writes, no link may lead elsewhere.
    pub(super) fn check_writable(&self) -> Result<(), GitError> {
        if let Some(why) = &self.read_only {
            return Err(GitError::ReadOnly { top: self.top.clone(), why: why.clone() });
        }
        if self.trusted {
            return Ok(());
        }
        let unsafe_ = |why: String| GitError::Unsafe { top: self.top.clone(), why };
        let mut left = MOST_ENTRIES;
        for folder in self.folders() {
            for tree in REFERENCES {
                no_links(&folder.join(tree), &[], &mut left).map_err(unsafe_)?;
            }
        }
        Ok(())
    }

    /// All that git has, each once.
    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let other = (self.git_dir != self.common_dir).then_some(&self.git_dir);
        [&self.common_dir].into_iter().chain(other)
    }
}

/// The folder behind `.git`, which may be a folder, a link to one, or a file that names one.
fn git_dir(top: &Path) -> Result<PathBuf, String> {
    let dot = top.join(".git");
    let found = fs::metadata(&dot).map_err(|error| format!(".git: {error}"))?;
    if found.is_dir() {
        return real(&dot);
    }
    let text = small(&real(&dot)?, LONGEST)?;
    let path = text.strip_prefix(b"gitdir: ").ok_or(".git is a file that names no folder")?;
    real(&top.join(path_of(path)))
}

fn common_dir(git_dir: &Path) -> Result<PathBuf, String> {
    let file = git_dir.join("commondir");
    match file.symlink_metadata() {
        Ok(_) => real(&git_dir.join(path_of(&small(&file, LONGEST)?))),
        Err(_) => Ok(git_dir.to_owned()),
    }
}

fn real(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The only line of a file, as git reads it: what is no end of a line belongs to the path.
fn path_of(mut bytes: &[u8]) -> &Path {
    while let [line @ .., b'\n' | b'\r'] = bytes {
        bytes = line;
    }
    Path::new(OsStr::from_bytes(bytes))
}

/// The bytes of a regular file, and no link to one, that is no larger than it should be.
pub(super) fn small(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let found = fs::symlink_metadata(path).map_err(|error| failed(error.to_string()))?;
    if !found.is_file() || found.len() > most {
        return Err(failed("it is no small regular file".into()));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(most).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    Ok(bytes)
}

fn below(path: &Path, root: &Path) -> Result<(), String> {
    match path.starts_with(root) {
        true => Ok(()),
        false => Err(format!("it uses {}, which is outside of {}", path.display(), root.display())),
    }
}

/// What belongs to somebody else may change under our hands. Git itself asks the same where it looks for a repository.
fn owned(paths: &[&Path]) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    for path in paths {
        let owner = path.symlink_metadata().map_err(|error| error.to_string())?.uid();
        if owner != own {
            return Err(format!("{} belongs to user {owner}, not to user {own}", path.display()));
        }
    }
    Ok(())
}

/// Objects of other repositories that it uses are below the root, too.
fn borrowed(objects: &Path, root: &Path, deeper: usize, left: &mut usize) -> Result<(), String> {
    let file = objects.join("info/alternates");
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = small(&file, MANY)?;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let path = Path::new(OsStr::from_bytes(line));
        // Quoted ones have odd characters, and comments are none of ours to understand.
        let odd = line.starts_with(b"\"") || line.starts_with(b"#");
        if odd || deeper == 0 || turns_back(path) {
            return Err(format!("what {} says is not followed", file.display()));
        }
        let other = real(&objects.join(path))?;
        below(&other, root)?;
        no_links(&other, &[], left)?;
        borrowed(&other, root, deeper - 1, left)?;
    }
    Ok(())
}

/// A `..` behind a name: where that leads depends on whether the name is a link, and not every git asks.
fn turns_back(path: &Path) -> bool {
    let mut parts = path.components().skip_while(|part| *part == Component::ParentDir);
    parts.any(|part| part == Component::ParentDir)
}

/// No link anywhere below, as deep as it goes, apart from what is in the folders named `unread` right below it. One that
/// is not there has nothing in it.
fn no_links(top: &Path, unread: &[&str], left: &mut usize) -> Result<(), String> {
    let mut next = vec![top.to_owned()];
    while let Some(folder) = next.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            *left = left.checked_sub(1).ok_or("it has too many files of git's")?;
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(failed(error)),
            };
            if kind.is_symlink() {
                return Err(format!("{} is a link", entry.path().display()));
            }
            let skipped = || folder == top && unread.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !skipped() {
                next.push(entry.path());
            }
        }
    }
    Ok(())
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Scene {
        _folder: tempfile::TempDir,
        root: PathBuf,
        outside: PathBuf,
    }

    /// A root with a repository `a`, and something outside.
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
        fn find(&self, folder: &str, trusted: &[String]) -> Result<Place, GitError> {
            let (root, folder) = (self.root.clone(), self.root.join(folder));
            find(&Folder { root, folder, write: true }, trusted, &Bounds::default())
        }

        /// A change to the repository that makes it unsafe, unless it is trusted.
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
        fs::create_dir(above.join(".git")).unwrap();
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
            let named = Folder { root: root.clone(), folder: folder.clone(), write };
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

    /// A repository is closed by the nearest root around it, whichever root it was named by, and by any root in it.
    #[test]
    fn a_root_that_is_read_only_closes_all_that_git_would_change_in_it() {
        let scene = scene();
        let work = worktree(&scene);
        let root = |name: &str| scene.root.join(name);
        let refused = |folder: &str, closed: &str, open: &[&str]| {
            let named = Folder { root: root(""), folder: root(folder), write: true };
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
        assert!(
            error.contains("no small regular file"),
            "what a link leads to is not read: {error}"
        );
        fs::remove_file(scene.git("commondir")).unwrap();

        fs::write(scene.git("objects/info/alternates"), format!("{}\n", scene.outside.display()))
            .unwrap();
        scene.refuses("which is outside of");
        fs::create_dir_all(scene.root.join("x/y")).unwrap();
        for odd in ["\"x\"\n", "#x\n", "../../../x/y/../../x\n"] {
            fs::write(scene.git("objects/info/alternates"), odd).unwrap();
            scene.refuses("is not followed");
        }
        // A blank at the end of a path is one of its letters.
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
        for link in LEFT_OUT {
            fs::create_dir(scene.git(link)).unwrap();
            symlink(&scene.outside, scene.git(link).join("pre-commit")).unwrap();
        }
        scene.find("a", &[]).unwrap().check_writable().unwrap();
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let scene = scene();
        // Only root can give something away.
        if std::os::unix::fs::chown(scene.root.join("a"), Some(12345), None).is_ok() {
            scene.refuses("belongs to user 12345");
        }
    }
}
