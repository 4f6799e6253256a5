//! Spawns real processes: their inputs, reports and records.

use proctor_core::lifecycle::Exit;
use proctor_core::name::RunId;
use proctor_core::record_encoding::Identity;
use proctor_sys::spawn::{Environment, Outcome, Plan, Record, Spawned, Strings, spawn};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::LazyLock;

fn own(entries: &[String]) -> Environment<'_> {
    static NOTHING: LazyLock<Strings> = LazyLock::new(Strings::default);
    Environment { shared: &NOTHING, hidden: &[], own: entries }
}

/// Waits for the report in blocking mode: the child always ends it.
fn outcome(spawned: &mut Spawned) -> Outcome {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(spawned, PollFlags::IN)], None).unwrap();
    spawned.outcome()
}

fn run(argv: &[&str], environment: &[&str], working_dir: &str) -> (Outcome, String, Exit) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let argv: Vec<String> = argv.iter().map(|s| s.to_string()).collect();
    let environment: Vec<String> = environment.iter().map(|s| s.to_string()).collect();
    let mut spawned = spawn(&Plan {
        program: None,
        argv: &argv,
        environment: own(&environment),
        working_dir,
        credentials: None,
        umask: Some(0o27),
        limits: &[],
        nice: None,
        oom_score_adj: None,
        stdio: [null.as_raw_fd(), writer.as_raw_fd(), writer.as_raw_fd()],
        is_terminal: false,
        passed: &[],
        record: None,
        cgroup: None,
        tag: None,
        boot: proctor_sys::boot_id::id(),
    })
    .unwrap();
    drop(writer);
    let outcome = outcome(&mut spawned);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let exit = wait_for(spawned.pid);
    (outcome, text, exit)
}

/// Reaps this child only: children of other tests are theirs.
fn wait_for(pid: u32) -> Exit {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())
        .unwrap()
        .unwrap();
    status.exit_status().map_or(Exit::Unknown, Exit::Code)
}

#[test]
fn a_service_gets_three_descriptors_a_session_and_its_own_environment() {
    let script = "ls /proc/self/fd | tr '\\n' ' '; echo; pwd; env | sort; umask; cut -d' ' -f6 /proc/self/stat; echo $$; \
                  grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let (outcome, text, exit) =
        run(&["sh", "-c", script], &["PATH=/nowhere:/usr/bin:/bin", "A=b c"], "/tmp");
    assert_eq!((outcome, exit), (Outcome::Running, Exit::Code(0)));
    let lines: Vec<&str> = text.lines().collect();
    // 3 belongs to the listing itself.
    assert_eq!(lines[0].trim(), "0 1 2 3");
    assert_eq!(lines[1], "/tmp");
    assert!(text.contains("A=b c\n") && !text.contains("HOME="), "{text}");
    assert!(text.contains("0027"), "{text}");
    let session = lines.iter().position(|line| line.contains("0027")).unwrap() + 1;
    assert_eq!(lines[session], lines[session + 1], "the service leads its session: {text}");
    assert!(text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000"), "{text}");
}

#[test]
fn a_program_that_cannot_run_is_reported_with_its_path_and_errno() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let path = format!("PATH=/nowhere:{}", dir.path().display());
    for (argv, environment, cwd, step, subject, errno) in [
        (
            "missing-program",
            "PATH=/nowhere:/bin",
            "/",
            "run",
            "/nowhere/missing-program".to_owned(),
            libc::ENOENT,
        ),
        ("/nowhere/x", "", "/", "run", "/nowhere/x".to_owned(), libc::ENOENT),
        ("plain", path.as_str(), "/", "run", plain.display().to_string(), libc::EACCES),
        (
            "true",
            "PATH=/bin",
            "/no/such",
            "enter the working directory",
            "/no/such".to_owned(),
            libc::ENOENT,
        ),
    ] {
        let (outcome, _, exit) = run(&[argv], &[environment], cwd);
        let Outcome::Failed(failure) = outcome else { panic!("{argv} ran: {outcome:?}") };
        assert_eq!((failure.step.as_str(), failure.subject, failure.errno), (step, subject, errno));
        assert_eq!(exit, Exit::Code(127));
    }
}

#[test]
fn the_record_names_the_process_before_its_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    assert!(proctor_sys::small_file::try_lock(&file).unwrap());
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let argv = ["/bin/sleep".to_owned(), "60".to_owned()];
    let mut spawned = spawn(&Plan {
        program: None,
        argv: &argv,
        environment: own(&[]),
        working_dir: "/",
        credentials: None,
        umask: None,
        limits: &[],
        nice: Some(3),
        oom_score_adj: Some(500),
        stdio: [null.as_raw_fd(); 3],
        is_terminal: false,
        passed: &[],
        record: Some(Record { file: &file, offset: 100, run: RunId(7) }),
        cgroup: None,
        tag: None,
        boot: proctor_sys::boot_id::id(),
    })
    .unwrap();
    assert_eq!(outcome(&mut spawned), Outcome::Running);
    let written = std::fs::read(&path).unwrap();
    let identity = Identity::decode(written[100..].try_into().unwrap()).unwrap();
    let identity = identity.expect("the child wrote its identity");
    assert_eq!((identity.run, identity.pid), (RunId(7), spawned.pid));
    drop(file);
    let again = File::open(&path).unwrap();
    assert!(proctor_sys::small_file::try_lock(&again).unwrap(), "exec has let go of the lock");
    let process = proctor_sys::process::Process::recognise(&identity).expect("it is recognised");
    let score = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", spawned.pid)).unwrap();
    assert_eq!(score.trim(), "500");
    assert!(process.signal(libc::SIGKILL).unwrap());
    wait_for(spawned.pid);
    assert!(process.is_gone());
    // Linux 6.15 and later still know the exit; older kernels report it as unknown.
    let killed = Exit::Signal { signal: libc::SIGKILL, oom: false, core: false };
    assert!([killed, Exit::Unknown].contains(&process.exit()), "{:?}", process.exit());
}

#[test]
fn a_child_whose_keeper_is_gone_says_by_its_exit_that_it_could_not_run() {
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let spawned = spawn(&Plan {
        program: None,
        argv: &["/no/such/program".to_owned()],
        environment: own(&[]),
        working_dir: "/",
        credentials: None,
        umask: None,
        limits: &[],
        nice: None,
        oom_score_adj: None,
        stdio: [null.as_raw_fd(); 3],
        is_terminal: false,
        passed: &[],
        record: None,
        cgroup: None,
        tag: None,
        boot: proctor_sys::boot_id::id(),
    })
    .unwrap();
    let pid = spawned.pid;
    // Nobody is left to read the report.
    drop(spawned);
    assert_eq!(wait_for(pid), Exit::Code(127));
}
