//! A relative path below a root that consists of plain names only.

use super::PathError;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum length of one name on common file systems.
const MAX_NAME_BYTES: usize = 255;

/// Names separated by slashes, without `.` and `..`; empty for the root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelativePath(Vec<u8>);

impl RelativePath {
    /// Maximum number of names: deeper than real folders, and few enough to hold all of them open.
    pub const DEEPEST: usize = 256;

    /// Maximum length in bytes: the kernel's limit for a path, without its zero.
    pub const MAX_PATH_BYTES: usize = 4095;

    /// The root itself.
    pub fn root() -> RelativePath {
        RelativePath::default()
    }

    /// Parses a path. A text that looks like an encoded escape is just an unusual name.
    pub fn parse(text: impl AsRef<OsStr>) -> Result<RelativePath, PathError> {
        let bytes = text.as_ref().as_bytes();
        if bytes.first() == Some(&b'/') {
            return Err(PathError::Outside);
        }
        if bytes.contains(&0) {
            return Err(PathError::Malformed("contains a zero byte"));
        }
        let (mut names, mut depth) = (Vec::with_capacity(bytes.len()), 0);
        for name in bytes.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => continue,
                b".." => return Err(PathError::Outside),
                name if name.len() > MAX_NAME_BYTES => {
                    return Err(PathError::Malformed("contains a name of more than 255 bytes"));
                }
                name => {
                    if !names.is_empty() {
                        names.push(b'/');
                    }
                    names.extend_from_slice(name);
                    depth += 1;
                }
            }
        }
        if depth > RelativePath::DEEPEST {
            return Err(PathError::Malformed("is more than 256 folders deep"));
        }
        if names.len() > RelativePath::MAX_PATH_BYTES {
            return Err(PathError::Malformed("is longer than 4095 bytes"));
        }
        Ok(RelativePath(names))
    }

    /// Appends one name; it must be a single name.
    pub fn join(&self, name: &OsStr) -> Result<RelativePath, PathError> {
        let mut path = self.0.clone();
        path.push(b'/');
        path.extend_from_slice(name.as_bytes());
        RelativePath::parse(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(&path)))
    }

    /// Iterates over the names.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        let names = self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.map(OsStr::from_bytes)
    }

    /// Splits into the parent folder and the last name; `None` for the root.
    pub fn split(&self) -> Option<(RelativePath, &OsStr)> {
        let begin = self.0.iter().rposition(|byte| *byte == b'/');
        let (folder, name) = match begin {
            Some(begin) => (&self.0[..begin], &self.0[begin + 1..]),
            None => (&[][..], &self.0[..]),
        };
        (!name.is_empty()).then(|| (RelativePath(folder.to_vec()), OsStr::from_bytes(name)))
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            b"" => out.write_str("."),
            bytes => out.write_str(&String::from_utf8_lossy(bytes)),
        }
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let found = RelativePath::parse(text).ok().map(|path| path.to_string());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn names_stay_and_what_could_be_more_is_refused() {
        check("a/b", Some("a/b"));
        check("./a//b/./c/", Some("a/b/c"));
        check("", Some("."));
        check("././/", Some("."));
        check("...", Some("..."));
        check("..a/b..", Some("..a/b.."));
        for out in ["..", "../a", "a/..", "a/../b", "a/b/../../..", "/", "/a", "//a", "./../a"] {
            check(out, None);
        }
        check("a\0b", None);
        check("\0", None);
        check(&"n".repeat(255), Some(&"n".repeat(255)));
        check(&"n".repeat(256), None);
        check(&"a/".repeat(256), Some(&vec!["a"; 256].join("/")));
        check(&"a/".repeat(257), None);
        check(
            &format!("{}/", "n".repeat(255)).repeat(15),
            Some(&vec!["n".repeat(255); 15].join("/")),
        );
        check(&format!("{}/", "n".repeat(255)).repeat(17), None);
    }

    #[test]
    fn a_path_has_a_folder_and_a_name_and_is_made_of_both() {
        for (text, folder, name) in [("a", ".", "a"), ("a/b", "a", "b"), ("a/b/c", "a/b", "c")] {
            let path = RelativePath::parse(text).unwrap();
            let (above, last) = path.split().unwrap();
            assert_eq!((above.to_string().as_str(), last.to_str().unwrap()), (folder, name));
            assert_eq!(above.join(last).unwrap(), path);
        }
        assert!(RelativePath::root().split().is_none());
        assert!(RelativePath::root().join(OsStr::new("..")).is_err());
    }
}
