//! Copies the metadata of a replaced or deleted file to a new one.

use super::{EntryInfo, PathError, seen};
use rustix::fs::{Gid, Mode, Uid, XattrFlags};
use rustix::fs::{fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;

/// Maximum size of all names, and of one value, of extended attributes; the kernel's limit.
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Maximum size of all attributes of one file: more than real files have, and little enough to hold
/// in memory.
const MAX_ATTRIBUTES_BYTES: usize = 1 << 20;

/// The access control list. If left on the wrong file, it opens that file to others.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAttributes {
    pub mode: u32,
    /// User and group, if known.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes, including the access control list.
    pub attributes: Vec<(CString, Vec<u8>)>,
}

impl FileAttributes {
    /// Reads the metadata of an open file with the status `look`.
    pub fn of(file: &File, look: &EntryInfo) -> Result<FileAttributes, PathError> {
        let (mut attributes, mut total) = (Vec::new(), 0);
        for name in names(file)? {
            let mut value = vec![0; MAX_ATTRIBUTE_BYTES];
            match fgetxattr(file, &name, &mut value[..]) {
                Ok(length) => value.truncate(length),
                Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::NODATA) => continue,
                Err(errno) => return Err(errno.into()),
            }
            total += value.len();
            if total > MAX_ATTRIBUTES_BYTES {
                return Err(PathError::Malformed("has more than 1 MiB of extended attributes"));
            }
            value.shrink_to_fit();
            attributes.push((name, value));
        }
        Ok(FileAttributes { mode: look.mode, owner: Some((look.user, look.group)), attributes })
    }

    /// Applies the metadata to a new file. Fails if the owner cannot be set. Skips attributes that
    /// this file system or user cannot set. Removes attributes that the new file inherited from its
    /// folder.
    pub fn give(&self, new: &File) -> Result<(), PathError> {
        let own = seen(new)?;
        if let Some((user, group)) = self.owner.filter(|owner| *owner != (own.user, own.group)) {
            fchown(new, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        for name in names(new)? {
            if self.attributes.iter().any(|(kept, _)| *kept == name) {
                continue;
            }
            match fremovexattr(new, &name) {
                Ok(()) | Err(Errno::NODATA) => {}
                // The system manages some attributes itself.
                Err(_) if name.as_c_str() != ACCESS_LIST => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        for (name, value) in &self.attributes {
            match fsetxattr(new, name, value, XattrFlags::empty()) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        // After the owner, which clears mode bits, and after the access control list, which changes
        // them.
        Ok(fchmod(new, Mode::from_raw_mode(self.mode))?)
    }
}

/// The names of a file's attributes; empty if the file system has none.
fn names(file: &File) -> Result<Vec<CString>, PathError> {
    let mut names = vec![0; MAX_ATTRIBUTE_BYTES];
    let length = match flistxattr(file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(errno) => return Err(errno.into()),
    };
    let names = names[..length].split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    Ok(names.map(CStr::to_owned).collect())
}
