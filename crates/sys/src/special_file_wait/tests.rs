//! Real processes that wait, and what is found of them.

use super::*;
use proctor_testkit::{wait_for, wait_until};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A shell script in a folder with a FIFO; killed with its children at the end.
struct Scene {
    folder: tempfile::TempDir,
    child: Child,
}

impl Scene {
    fn new(script: &str) -> Scene {
        use std::os::unix::process::CommandExt;
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(folder.path()).process_group(0);
        let child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Scene { folder, child }
    }

    fn fifo(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("fifo")
    }

    fn waits(&self, name: &str) -> Vec<SpecialFileWait> {
        in_tree(self.child.id(), |found| found == name)
    }

    /// The one wait that there is, which stays the same.
    fn wait(&self, name: &str) -> SpecialFileWait {
        let seen = wait_for("a wait", LIMIT, || self.waits(name).into_iter().next());
        assert_eq!(self.waits(name), std::slice::from_ref(&seen));
        seen
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn an_open_that_waits_for_the_other_end_is_found_and_goes_on_waiting() {
    for (script, name) in [
        ("exec cat fifo", "cat"),
        ("exec cat ./fifo", "cat"),
        ("cat fifo; true", "cat"),
        ("ln -s fifo link; cat link; true", "cat"),
        ("echo x > fifo", "sh"),
        ("exec cat \"$PWD/fifo\"", "cat"),
    ] {
        let scene = Scene::new(script);
        let SpecialFileWait { kind, path, .. } = scene.wait(name);
        let file = if script.contains("link") { "link" } else { "fifo" };
        let expected = (SpecialKind::Fifo, Some(scene.fifo().with_file_name(file)));
        assert_eq!((kind, path), expected, "{script}");
        assert_eq!(scene.waits("git"), [], "a process of another name");
    }
}

#[test]
fn a_read_of_a_fifo_that_nobody_writes_to_is_found() {
    let scene = Scene::new("exec cat fifo");
    let ends = File::options().read(true).write(true).open(scene.fifo()).unwrap();
    let read = format!("{} ", libc::SYS_read);
    let reads = || scene.waits("cat").into_iter().find(|wait| wait.call.starts_with(&read));
    assert_eq!(wait_for("a read", LIMIT, reads).path, Some(scene.fifo()));
    drop(ends);
}

#[test]
fn a_device_that_is_read_without_end_is_found() {
    let scene = Scene::new("exec cat /dev/zero");
    let SpecialFileWait { kind, path, .. } = scene.wait("cat");
    assert_eq!((kind, path), (SpecialKind::Device, Some("/dev/zero".into())));
}

#[test]
fn pipes_between_processes_and_standard_input_are_left_alone() {
    for script in ["cat | cat | cat", "exec 7<>fifo; cat <&7"] {
        let scene = Scene::new(script);
        let waits = |pid: &u32| {
            let is_cat = proc::name(*pid).is_some_and(|name| name == "cat");
            is_cat && proc::stat(*pid).is_some_and(|stat| stat.state == b'S')
        };
        let all = || [scene.child.id()].into_iter().chain(children(scene.child.id()));
        let expected = script.matches("cat").count();
        wait_until("cats that wait", LIMIT, || all().filter(waits).count() == expected);
        assert_eq!(scene.waits("cat"), [], "{script}");
    }
}

#[test]
fn the_function_of_the_kernel_tells_the_open_of_a_fifo() {
    let scene = Scene::new("exec cat fifo");
    let pid = scene.wait("cat").pid;
    let function = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap();
    match function.as_str() {
        // Some kernels are built without names.
        "0" => assert_eq!(by_kernel_function(pid, pid), None),
        name => {
            let found = by_kernel_function(pid, pid).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((found.kind, found.path), (SpecialKind::Fifo, None));
        }
    }
}

#[test]
fn a_line_of_the_kernel_is_a_number_and_six_arguments() {
    let line = "257 0xffffff9c 0x7ffc 0x0 0x1 0x2 0x3 0x7ffc50c277b0 0x7f2d06b21011\n";
    assert_eq!(parse(line), Some((257, [0xffff_ff9c, 0x7ffc, 0, 1, 2, 3])));
    for odd in ["running\n", "-1 0x7ffc 0x7f2d\n", "", "257 0x1 0x2\n", "x 0x1"] {
        assert_eq!(parse(odd), None, "{odd}");
    }
}
