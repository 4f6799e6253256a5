//! The entry point of a program.
//!
//! Before `main`, the standard library finds its stack in `/proc/self/maps` and sets up a second
//! one to report stack overflows. That takes as long as a short command's own work
//! (`docs/decisions/0008`), so it is omitted here: a stack overflow is an ordinary SIGSEGV.

use rustix::fs::{Mode, OFlags};

/// Makes this function, which returns an exit code, the entry point of the program.
#[macro_export]
macro_rules! begin_with {
    ($run:path) => {
        // SAFETY: it is the only symbol of this name in a program without another entry point.
        #[unsafe(no_mangle)]
        extern "C" fn main() -> ::std::ffi::c_int {
            $crate::process_start::prepare();
            ::std::process::exit($run().into())
        }
    };
}

/// Does the remaining setup of the standard library: opens standard input, output and error if they
/// are closed, and turns SIGPIPE into an error.
#[doc(hidden)]
pub fn prepare() {
    for number in 0..=2 {
        // SAFETY: reading the flags of a number is harmless whether or not it is open.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            open_nothing();
        }
    }
    // SAFETY: nothing else runs yet, and ignoring a signal needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // Otherwise a process that executed itself through /proc would be called "exe".
    let _ = rustix::thread::set_name(c"proctor");
}

/// Opens `/dev/null` at the lowest free number, so that a file opened later does not become
/// standard output.
fn open_nothing() {
    match rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        Ok(null) => std::mem::forget(null),
        // Continuing would write into whatever file is opened next.
        Err(_) => std::process::abort(),
    }
}
