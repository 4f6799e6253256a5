//! Making a new file like the one whose place it takes.

use super::{Fault, Look, seen};
use rustix::fs::{Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;

/// What all names and one value of extended attributes may take, as the kernel has it.
const MOST: usize = 64 << 10;

/// Give `new` the owner, the permissions and the extended attributes of `old`, of which `look` was seen. An owner that cannot be
/// kept is an error; an attribute that this file system or this user cannot set is left out.
pub fn alike(new: &File, old: &File, look: &Look) -> Result<(), Fault> {
    let own = seen(new)?;
    if (own.user, own.group) != (look.user, look.group) {
        fchown(new, Some(Uid::from_raw(look.user)), Some(Gid::from_raw(look.group)))?;
    }
    attributes(new, old)?;
    // After the owner, whose change takes bits away, and after the lists of access, which change them.
    Ok(fchmod(new, Mode::from_raw_mode(look.mode))?)
}

/// Only what was asked for by number: owner and attributes stay.
pub fn set_mode(file: &File, mode: u32) -> Result<(), Fault> {
    Ok(fchmod(file, Mode::from_raw_mode(mode))?)
}

fn attributes(new: &File, old: &File) -> Result<(), Fault> {
    let mut names = vec![0; MOST];
    let length = match flistxattr(old, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    let names = names[..length].split_inclusive(|byte| *byte == 0);
    for name in names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()) {
        let mut value = vec![0; MOST];
        let set = fgetxattr(old, name, &mut value[..])
            .and_then(|length| fsetxattr(new, name, &value[..length], XattrFlags::empty()));
        match set {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::NODATA) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
