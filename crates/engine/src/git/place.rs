//! Where a repository is: found by us and told to git, so that nothing in it can say otherwise.
//!
//! A repository that the owner did not trust stays below its root with all it has: its files, what it borrows from others, and
//! where its links lead. Everything here blocks.

use super::error::GitError;
use super::folder::Folder;
use std::fs::{self, FileType};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest path in a file of git's.
const LONGEST: u64 = 4096;

/// A file of these paths, one a line.
const MANY: u64 = 64 << 10;

/// Repositories that borrow from repositories that borrow; git itself stops at five.
const DEEPEST: usize = 5;

/// Entries below `refs` and `logs`: ten times what large projects have.
const MOST_ENTRIES: usize = 500_000;

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

/// The repository that a folder is in, looked for upwards as far as its root; above the root, one that the owner trusts.
/// `own`: folders of Proctor's; `closed`: roots that are read only.
pub(super) fn find(
    folder: &Folder,
    trusted: &[String],
    own: &[PathBuf],
    closed: &[PathBuf],
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
    let part = closed.iter().find(|closed| closed.starts_with(&top));
    let read_only = match own.iter().find(|own| own.starts_with(&top)) {
        _ if !write => Some(format!("the root {} is read-only", root.display())),
        _ if let Some(part) = part => Some(format!("{} in it is read-only", part.display())),
        Some(own) => Some(format!("Proctor's own files are in it, at {}", own.display())),
        None => None,
    };
    let unsafe_ = |why: String| GitError::Unsafe { top: top.clone(), why };
    let git_dir = git_dir(&top).map_err(unsafe_)?;
    let common_dir = common_dir(&git_dir).map_err(unsafe_)?;
    if !trusted {
        [&git_dir, &common_dir]
            .into_iter()
            .try_for_each(|path| below(path, root))
            .map_err(unsafe_)?;
        owned(&[&top, &top.join(".git"), &git_dir, &common_dir]).map_err(unsafe_)?;
        borrowed(&common_dir.join("objects"), root, DEEPEST).map_err(unsafe_)?;
        plain(&git_dir).map_err(unsafe_)?;
        plain(&common_dir).map_err(unsafe_)?;
    }
    Ok(Place { top, git_dir, common_dir, trusted, read_only })
}

impl Place {
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
        for folder in [&self.git_dir, &self.common_dir] {
            for tree in ["refs", "logs"] {
                no_links(&folder.join(tree), &mut left).map_err(unsafe_)?;
            }
        }
        Ok(())
    }
}

/// The folder behind `.git`, which may be a folder, a link to one, or a file that names one.
fn git_dir(top: &Path) -> Result<PathBuf, String> {
    let dot = top.join(".git");
    let found = fs::metadata(&dot).map_err(|error| format!(".git: {error}"))?;
    if found.is_dir() {
        return real(&dot);
    }
    let text = small(&dot, LONGEST)?;
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

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes.trim_ascii_end()))
}

/// The bytes of a regular file that is no larger than it should be.
pub(super) fn small(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let found = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
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
fn borrowed(objects: &Path, root: &Path, deeper: usize) -> Result<(), String> {
    let file = objects.join("info/alternates");
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = small(&file, MANY)?;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // Quoted ones have odd characters, and comments are none of ours to understand.
        if line.starts_with(b"\"") || line.starts_with(b"#") || deeper == 0 {
            return Err(format!("what {} says is not followed", file.display()));
        }
        let other = real(&objects.join(path_of(line)))?;
        below(&other, root)?;
        borrowed(&other, root, deeper - 1)?;
    }
    Ok(())
}

/// Nothing right below it, and nothing in the folders that git writes into, is a link.
fn plain(folder: &Path) -> Result<(), String> {
    for inner in ["", "objects", "objects/info", "objects/pack", "info"] {
        for (path, kind) in entries(&folder.join(inner))? {
            if kind.is_symlink() {
                return Err(format!("{} is a link", path.display()));
            }
        }
    }
    Ok(())
}

/// No link anywhere below, as deep as it goes.
fn no_links(folder: &Path, left: &mut usize) -> Result<(), String> {
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        for (path, kind) in entries(&folder)? {
            *left = left.checked_sub(1).ok_or("it has too many references")?;
            if kind.is_symlink() {
                return Err(format!("{} is a link", path.display()));
            }
            if kind.is_dir() {
                next.push(path);
            }
        }
    }
    Ok(())
}

/// What is in a folder; one that is not there has nothing in it.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, FileType)>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    entries
        .map(|entry| entry.and_then(|it| Ok((it.path(), it.file_type()?))).map_err(failed))
        .collect()
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
            find(&Folder { root, folder, write: true }, trusted, &[], &[])
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
            let place = find(&named, trusted, &[own.to_owned()], &[]).unwrap();
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

    #[test]
    fn a_folder_of_git_may_be_elsewhere_below_the_root() {
        let scene = scene();
        let work = scene.root.join("work");
        fs::create_dir_all(scene.git("worktrees/work")).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(work.join(".git"), "gitdir: ../a/.git/worktrees/work\n").unwrap();
        fs::write(scene.git("worktrees/work/commondir"), "../..\n").unwrap();
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
        fs::remove_file(scene.git("commondir")).unwrap();

        fs::write(scene.git("objects/info/alternates"), format!("{}\n", scene.outside.display()))
            .unwrap();
        scene.refuses("which is outside of");
        fs::write(scene.git("objects/info/alternates"), "\"x\"\n").unwrap();
        scene.refuses("is not followed");
        fs::remove_file(scene.git("objects/info/alternates")).unwrap();
        scene.find("a", &[]).unwrap().check_writable().unwrap();
    }

    #[test]
    fn links_where_git_writes_are_refused() {
        let scene = scene();
        for link in
            ["index", "COMMIT_EDITMSG", "logs/HEAD", "refs/heads/x", "objects/ab", "info/exclude"]
        {
            let path = scene.git(link);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(&scene.outside, &path).unwrap();
            scene.refuses("is a link");
            fs::remove_file(path).unwrap();
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
