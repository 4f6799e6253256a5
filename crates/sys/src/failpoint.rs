//! Failpoints: named places where fault injection ends this process or makes a step fail.
//!
//! They exist only with the feature `failpoints`, which no release build has; without it every call
//! is a no-op. A campaign arms a point with a file of its name in the folder of
//! `PROCTOR_FAILPOINTS`. `kill 3` sends SIGKILL the third time any process passes the point, `abort
//! 1` sends SIGABRT the first time, `error 1` makes the step fail, and `hold 1` waits until
//! `<name>.hit` is removed. The process that acts first renames the file to `<name>.hit`, so that
//! the fault happens once even after restarts.

#[cfg(feature = "failpoints")]
mod armed;
mod points;

pub use points::Point;
use std::io;

/// Whether this build has failpoints.
pub const ENABLED: bool = cfg!(feature = "failpoints");

/// A step that can be made to fail. Allocates nothing, so a child may call it between fork and
/// exec.
#[cfg(feature = "failpoints")]
pub fn step(point: Point) -> io::Result<()> {
    debug_assert!(point.can_fail(), "{point:?} is a moment");
    armed::pass(point)
}

/// A moment between two steps: no step can fail here, but the process can end.
#[cfg(feature = "failpoints")]
pub fn moment(point: Point) {
    debug_assert!(!point.can_fail(), "{point:?} is a step");
    // Ignores an error: the campaign knows which points are moments.
    let _ = armed::pass(point);
}

/// The folder of the armed points, if a campaign runs.
#[cfg(feature = "failpoints")]
pub(crate) fn folder() -> Option<&'static std::path::Path> {
    use std::os::unix::ffi::OsStrExt as _;
    armed::folder().map(|folder| std::path::Path::new(std::ffi::OsStr::from_bytes(folder)))
}

/// Every point as `name step` or `name moment`, for the campaign; `None` in a build without
/// failpoints.
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
