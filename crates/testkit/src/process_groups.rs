//! Removes the cgroups that a killed keeper left. They are empty, but would stay until the machine
//! is restarted.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Mount points of cgroup v2: alone, or beside v1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Maximum depth: ours, the service's, and one that a service may have made.
const DEPTH: u32 = 3;

/// Removes the empty cgroups of a home's Proctor. Its group is below that of the process that
/// started it: this process.
pub(crate) fn remove_of(home: &Path) {
    let ours = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let ours = ours.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    for mount in MOUNTS {
        let parent = Path::new(mount).join(ours.trim_start_matches('/'));
        remove_below(&parent.join(name_of(home)), DEPTH);
    }
}

/// The keeper names its group after its home's path: FNV-1a, in hexadecimal.
fn name_of(home: &Path) -> PathBuf {
    let bytes = home.as_os_str().as_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("proctor-{hash:016x}").into()
}

fn remove_below(folder: &Path, depth: u32) {
    if depth == 0 {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path(), depth - 1);
        }
    }
    // Skips a group that has members or does not exist.
    let _ = std::fs::remove_dir(folder);
}
