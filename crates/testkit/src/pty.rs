//! A terminal for a command: somebody who types at it, sees what it shows and changes its size.

use crate::wait::wait_until;
use rustix::pty::{self, OpenptFlags};
use rustix::termios::{self, LocalModes, Winsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The terminal of 24 lines and 80 columns of one command, which leads its session.
pub struct Pty {
    master: File,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Keeps the settings readable when the command has ended.
    terminal: File,
    child: Child,
}

impl Pty {
    /// Start a command at a terminal of its own. Its standard error stays where `errors` says, or is the terminal, too.
    #[track_caller]
    pub fn start(command: &Command, errors: Option<Stdio>) -> Pty {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = pty::openpt(flags).expect("a pseudo terminal");
        pty::unlockpt(&master).expect("its lock is ours");
        let terminal = File::from(pty::ioctl_tiocgptpeer(&master, flags).expect("its other end"));
        let copy = || Stdio::from(terminal.try_clone().expect("a descriptor"));
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        leader.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            leader.current_dir(folder);
        }
        leader.stdin(copy()).stdout(copy()).stderr(errors.unwrap_or_else(copy));
        let one = Pty {
            child: leader.spawn().expect("setsid is there"),
            shown: Arc::default(),
            terminal,
            master: File::from(master),
        };
        one.resize(24, 80);
        one.watch();
        one
    }

    fn watch(&self) {
        let mut master = self.master.try_clone().expect("a descriptor");
        let shown = self.shown.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = master.read(&mut chunk) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend(&chunk[..length]);
            }
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    pub fn type_keys(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("somebody has the terminal");
    }

    #[track_caller]
    pub fn resize(&self, lines: u16, columns: u16) {
        let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        termios::tcsetwinsize(&self.master, size).expect("a size is a size");
    }

    /// Everything that was shown.
    pub fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }

    #[track_caller]
    pub fn wait_to_show(&self, text: &str, limit: Duration) {
        wait_until(&format!("the terminal shows {text:?}"), limit, || self.shown().contains(text));
    }

    /// Returns true if the terminal edits and echoes lines, as it does for a shell's commands.
    pub fn is_as_before(&self) -> bool {
        let settings = termios::tcgetattr(&self.terminal).expect("its settings");
        settings.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// The exit code of the command once it has ended; `None` if a signal ended it.
    #[track_caller]
    pub fn exit_code(&mut self, limit: Duration) -> Option<i32> {
        let child = &mut self.child;
        wait_until("the command at the terminal has ended", limit, || {
            child.try_wait().expect("it is our child").is_some()
        });
        let status = child.wait().expect("it has ended");
        status.code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
