//! Failpoints: named places at which a campaign of faults ends this process or lets a step fail.
//!
//! They exist with the feature `failpoints` only, which no build for users has; without it every call here is nothing. The
//! campaign arms a point by a file of its name in the folder that `PROCTOR_FAILPOINTS` names: `kill 3` is a SIGKILL at the
//! third time that some process passes the point, `abort 1` a SIGABRT at the first, `error 1` a failure of that step,
//! `hold 1` a wait there until somebody removes `<name>.hit`. Who
//! comes to act renames the file to `<name>.hit` first, so that it happens once, whoever is restarted afterwards.

#[cfg(feature = "failpoints")]
mod armed;
mod points;

pub use points::Point;
use std::io;

/// Is this a build with failpoints?
pub const ENABLED: bool = cfg!(feature = "failpoints");

/// A step that may fail. Allocates nothing, so that a child may call it between fork and exec.
#[cfg(feature = "failpoints")]
pub fn step(point: Point) -> io::Result<()> {
    debug_assert!(point.can_fail(), "{point:?} is a moment");
    armed::pass(point)
}

/// A moment between two steps: nothing can fail here, but a process can end.
#[cfg(feature = "failpoints")]
pub fn moment(point: Point) {
    debug_assert!(!point.can_fail(), "{point:?} is a step");
    // An error was not asked for: the campaign knows which points are moments.
    let _ = armed::pass(point);
}

/// The folder with the armed points, if there is a campaign.
#[cfg(feature = "failpoints")]
pub(crate) fn folder() -> Option<&'static std::path::Path> {
    use std::os::unix::ffi::OsStrExt as _;
    armed::folder().map(|folder| std::path::Path::new(std::ffi::OsStr::from_bytes(folder)))
}

/// Every point as `name step` or `name moment`, for the campaign; `None` in a build without failpoints.
#[cfg(feature = "failpoints")]
pub fn table() -> Option<String> {
    let kind = |point: &Point| if point.can_fail() { "step" } else { "moment" };
    Some(Point::ALL.iter().map(|point| format!("{} {}\n", point.name(), kind(point))).collect())
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn step(_point: Point) -> io::Result<()> {
    Ok(())
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn moment(_point: Point) {}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn folder() -> Option<&'static std::path::Path> {
    None
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn table() -> Option<String> {
    None
}
