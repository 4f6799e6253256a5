//! The machine of the figures, without date or name.

use anyhow::{Context as _, Result};
use std::path::Path;

pub(crate) fn facts(folder: &Path) -> Result<Vec<(&'static str, String)>> {
    let system = rustix::system::uname();
    let kernel = format!(
        "{} {} {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
        system.machine().to_string_lossy()
    );
    let cores = std::thread::available_parallelism().context("cannot count the cores")?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
    let system = file_system(&mounts, folder).unwrap_or("unknown").to_owned();
    Ok(vec![("kernel", kernel), ("cores", cores.to_string()), ("file system", system)])
}

/// The type of the mount with the longest path that contains the folder; later mounts hide earlier
/// ones.
fn file_system<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    let around = mounted.filter(|(place, _)| folder.starts_with(place));
    around.max_by_key(|(place, _)| place.len()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(folder: &str, kind: Option<&str>) {
        let mounts =
            "a / ext4 rw 0 0\nb /tmp tmpfs rw 0 0\nc /tmp/x xfs rw 0 0\nd /tmp/x btrfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new(folder)), kind, "{folder}");
    }

    #[test]
    fn the_innermost_mount_counts() {
        check("/home/a", Some("ext4"));
        check("/tmp", Some("tmpfs"));
        check("/tmpfile", Some("ext4"));
        check("/tmp/x/y", Some("btrfs"));
        check("relative", None);
    }
}
