//! How a program begins.
//!
//! Before `main`, the standard library looks for its stack in `/proc/self/maps` and sets up a second one, to say of a stack that
//! overflows that it did. That takes as long as a short command's own work (`docs/decisions/0008`), and is left out: here a
//! stack that overflows is a SIGSEGV like any other.

use rustix::fs::{Mode, OFlags};

/// Make this function, which returns an exit code, the beginning of the program.
#[macro_export]
macro_rules! begin_with {
    ($run:path) => {
        // SAFETY: it is the only symbol of this name in a program that has no other beginning.
        #[unsafe(no_mangle)]
        extern "C" fn main() -> ::std::ffi::c_int {
            $crate::begin::prepare();
            ::std::process::exit($run().into())
        }
    };
}

/// The rest of what the standard library does: standard input, output and error are open, whoever started us, and writing
/// to a pipe that nobody reads is an error and no death.
#[doc(hidden)]
pub fn prepare() {
    for number in 0..=2 {
        // SAFETY: asking for the flags of a number is harmless whether or not it is open.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            open_nothing();
        }
    }
    // SAFETY: nothing else runs yet, and to ignore a signal takes no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // A process that executed itself through /proc would be called "exe" otherwise.
    let _ = rustix::thread::set_name(c"proctor");
}

/// The lowest number that is free becomes `/dev/null`; what is opened later would be taken for standard output otherwise.
fn open_nothing() {
    match rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        Ok(null) => std::mem::forget(null),
        // To go on would be to write into whatever is opened next.
        Err(_) => std::process::abort(),
    }
}
