//! Making a new file like the one whose place it takes, or like one that is gone.

use super::{Fault, Look, seen};
use rustix::fs::{Gid, Mode, Uid, XattrFlags};
use rustix::fs::{fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;

/// What all names and one value of extended attributes may take, as the kernel has it.
const MOST: usize = 64 << 10;

/// All attributes of one file: more than anybody has, and little enough to hold.
const MOST_OF_ALL: usize = 1 << 20;

/// Who else may do what with a file. Left on a file it was not meant for, it opens that to others.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// What a file is like besides its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    pub mode: u32,
    /// User and group, if they are known.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes, the list of access among them.
    pub attributes: Vec<(CString, Vec<u8>)>,
}

impl Likeness {
    /// Of an open file, of which `look` was seen.
    pub fn of(file: &File, look: &Look) -> Result<Likeness, Fault> {
        let (mut attributes, mut total) = (Vec::new(), 0);
        for name in names(file)? {
            let mut value = vec![0; MOST];
            match fgetxattr(file, &name, &mut value[..]) {
                Ok(length) => value.truncate(length),
                Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::NODATA) => continue,
                Err(errno) => return Err(errno.into()),
            }
            total += value.len();
            if total > MOST_OF_ALL {
                return Err(Fault::Malformed("has more than 1 MiB of extended attributes"));
            }
            value.shrink_to_fit();
            attributes.push((name, value));
        }
        Ok(Likeness { mode: look.mode, owner: Some((look.user, look.group)), attributes })
    }

    /// Make a new file like this. An owner that cannot be given is an error; an attribute that this file system or this user
    /// cannot set is left out. What the new one got from its folder and this does not have is taken away.
    pub fn give(&self, new: &File) -> Result<(), Fault> {
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
                // Some are the system's own business.
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
        // After the owner, whose change takes bits away, and after the lists of access, which change them.
        Ok(fchmod(new, Mode::from_raw_mode(self.mode))?)
    }
}

/// The attributes that a file has; none where there are none.
fn names(file: &File) -> Result<Vec<CString>, Fault> {
    let mut names = vec![0; MOST];
    let length = match flistxattr(file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(errno) => return Err(errno.into()),
    };
    let names = names[..length].split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    Ok(names.map(CStr::to_owned).collect())
}
