//! Commands against the real kernel.

use super::*;
use proctor_sys::proc;
use std::time::Duration;

struct Place {
    folder: tempfile::TempDir,
    commands: Commands,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { state: folder.path().into(), runtime: folder.path().join("run") };
    Place { folder, commands: Commands::new(home) }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(groups) = self.commands.groups() {
            groups.remove();
        }
    }
}

impl Place {
    fn shell(&self, script: &str, limit: Duration) -> CommandPlan {
        CommandPlan {
            argv: ["/bin/sh", "-c", script].map(String::from).to_vec(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("A".into(), "b".into())],
            working_dir: self.folder.path().into(),
            limit,
        }
    }

    async fn run(&self, script: &str) -> CommandOutcome {
        let finished =
            self.commands.run(self.shell(script, Duration::from_secs(30))).await.unwrap();
        assert_eq!(left_behind(&self.commands.home).len(), 0, "a mark was left");
        finished
    }

    fn file(&self, name: &str) -> Option<u32> {
        std::fs::read_to_string(self.folder.path().join(name)).ok()?.trim().parse().ok()
    }
}

fn lives(pid: u32) -> bool {
    proc::stat(pid).is_some_and(|stat| !stat.is_dead())
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_exit_is_the_truth_and_both_streams_are_kept_apart() {
    let place = place();
    let finished = place.run("echo out $A $PROCTOR_HOME; echo err >&2; pwd; exit 3").await;
    let folder = place.folder.path().canonicalize().unwrap();
    assert_eq!(finished.end, CommandExit::Code(3));
    let home = place.folder.path().display();
    assert_eq!(finished.stdout, format!("out b {home}\n{}\n", folder.display()));
    assert_eq!((finished.stderr.as_str(), finished.truncated), ("err\n", false));
    assert_eq!(place.run("kill -TERM $$").await.end, CommandExit::Signal(15));
    assert_eq!(place.run("cat").await.end, CommandExit::Code(0), "there was something to read");
}

#[tokio::test]
async fn megabytes_on_both_streams_block_nothing_and_are_cut_in_the_middle() {
    let script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x >&2; \
                  head -c 3000000 /dev/zero | tr '\\0' y; echo last";
    let finished = place().run(script).await;
    assert_eq!((finished.end, finished.truncated), (CommandExit::Code(0), true));
    assert!(finished.stdout.starts_with("first\nyy") && finished.stdout.ends_with("yylast\n"));
    assert!(finished.stdout.len() < 200_000 && finished.stderr.len() < 200_000);
}

#[tokio::test]
async fn when_its_time_is_over_all_of_it_is_killed() {
    let place = place();
    let script =
        "setsid sleep 1000 & echo $! > escaped; sleep 1000 & echo $! > child; echo said; wait";
    let plan = place.shell(script, Duration::from_millis(500));
    let finished = place.commands.run(plan).await.unwrap();
    assert_eq!((finished.end, finished.stdout.as_str()), (CommandExit::TimedOut, "said\n"));
    assert_eq!(finished.left.len(), 2, "{:?}", finished.left);
    assert!(!lives(place.file("child").unwrap()) && !lives(place.file("escaped").unwrap()));
}

#[tokio::test]
async fn what_it_leaves_running_ends_with_it() {
    let place = place();
    let finished = place.run("setsid sleep 1000 > /dev/null 2>&1 & echo $! > child").await;
    assert_eq!((finished.end, finished.left.len()), (CommandExit::Code(0), 1));
    assert!(finished.left[0].starts_with("sleep (pid "), "{:?}", finished.left);
    assert!(!lives(place.file("child").unwrap()));
}

#[tokio::test]
async fn what_wipes_its_environment_and_leaves_its_session_ends_with_it() {
    for cgroups in [true, false] {
        let mut place = place();
        if !cgroups {
            place.commands.groups = OnceLock::from(None);
        }
        let stay = "echo $$ > made; mv made child; exec sleep 1000";
        let script = format!(
            "env -i setsid -f /bin/sh -c '{stay}' > /dev/null 2>&1; until [ -e child ]; do sleep 0.01; done"
        );
        let finished = place.run(&script).await;
        assert_eq!(
            (finished.end, finished.left.len()),
            (CommandExit::Code(0), 1),
            "cgroups {cgroups}"
        );
        assert!(!lives(place.file("child").unwrap()), "cgroups {cgroups}");
    }
}

#[tokio::test]
async fn a_command_nobody_waits_for_any_more_is_killed() {
    let place = place();
    let script = "sleep 1000 & echo $! > child; echo $$ > main; wait";
    let plan = place.shell(script, Duration::from_secs(1000));
    let mut running = Box::pin(place.commands.run(plan));
    tokio::select! {
        _ = &mut running => panic!("it ended"),
        () = until("it runs", || place.file("main").is_some()) => {}
    }
    drop(running);
    let (main, child) = (place.file("main").unwrap(), place.file("child").unwrap());
    until("it is gone", || !lives(main) && !lives(child)).await;
    until("it is reaped", || proc::stat(main).is_none()).await;
    until("its mark is gone", || left_behind(&place.commands.home).is_empty()).await;
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let place = place();
    for (argv, folder, expected) in [
        (vec!["no-such-program"], place.folder.path(), "cannot run 'no-such-program': not in PATH"),
        (vec!["/bin"], place.folder.path(), "cannot run '/bin': /bin is not a regular file"),
        (vec!["true"], Path::new("/nowhere"), "the working directory /nowhere is not a folder"),
        (vec![], place.folder.path(), "the command is empty"),
    ] {
        let mut plan = place.shell("", Duration::from_secs(30));
        (plan.argv, plan.working_dir) =
            (argv.iter().map(|word| (*word).to_owned()).collect(), folder.into());
        let finished = place.commands.run(plan).await.unwrap();
        let CommandExit::NotStarted(why) = finished.end else { panic!("{argv:?}: {finished:?}") };
        assert!(why.starts_with(expected), "{why}");
    }
    assert!(left_behind(&place.commands.home).is_empty());
}

#[tokio::test]
async fn what_a_killed_daemon_left_is_ended_by_its_mark() {
    let place = place();
    let mut mark = ProcessMark::new(&place.commands.home, place.commands.groups());
    let plan = place.shell("sleep 1000 & echo $! > child; wait", Duration::from_secs(1000));
    let mut child = start(&plan, &place.commands.home, &mut mark).unwrap();
    until("it runs", || place.file("child").is_some()).await;
    child.start_kill().unwrap();
    child.wait().await.unwrap();
    let orphan = place.file("child").unwrap();
    assert!(lives(orphan), "nothing is left to find");
    let marks = left_behind(&place.commands.home);
    assert_eq!(marks.len(), 1);
    sweep(marks);
    assert!(!lives(orphan));
    assert!(left_behind(&place.commands.home).is_empty());
}

#[tokio::test]
async fn what_has_been_reaped_is_known_to_be() {
    let child = Command::new("/bin/true").spawn().unwrap();
    let place = place();
    let mut tree = ProcessMark::new(&place.commands.home, None).tree(child.id().unwrap());
    reap(child, &mut tree).await;
    assert!(tree.reaped_at.is_some_and(|tick| tick <= clock::ticks_since_boot()));
}

impl Place {
    fn program(&self, script: &str) -> Program {
        Program {
            file: "/bin/sh".into(),
            args: ["-c", script].map(Into::into).to_vec(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            working_dir: self.folder.path().into(),
            limit: Duration::from_secs(30),
            most: 10,
            ..Program::default()
        }
    }
}

#[tokio::test]
async fn a_program_gets_its_input_and_no_more_is_read_than_is_wanted() {
    let place = place();
    let mut program = place.program("cat; echo oh >&2; exit 3");
    program.input = b"a\0\xff\n".to_vec();
    let ProgramOutput { end, stdout, cut, stderr } = place.commands.produce(program).await.unwrap();
    assert_eq!(
        (end, stdout, cut, stderr),
        (CommandExit::Code(3), b"a\0\xff\n".into(), false, "oh\n".into())
    );
    let mut program = place.program("cat");
    std::fs::write(place.folder.path().join("input"), "of a file").unwrap();
    program.file_input = std::fs::File::open(place.folder.path().join("input")).ok();
    assert_eq!(place.commands.produce(program).await.unwrap().stdout, b"of a file");
    // Endless output ends it, and so does unread input.
    let mut program = place.program("yes");
    program.input = vec![b'x'; 1 << 20];
    let produced = place.commands.produce(program).await.unwrap();
    assert_eq!((produced.stdout.as_slice(), produced.cut), (&b"y\ny\ny\ny\ny\n"[..], true));
    let missing = Program { file: "/nowhere/x".into(), ..place.program("") };
    let produced = place.commands.produce(missing).await.unwrap();
    assert!(matches!(produced.end, CommandExit::NotStarted(_)), "{produced:?}");
    assert!(left_behind(&place.commands.home).is_empty());
}

#[tokio::test]
async fn a_program_whose_time_is_over_is_killed_with_what_it_started() {
    let place = place();
    for thorough in [false, true] {
        let script = "setsid sleep 1000 & echo $! > escaped; wait";
        let limit = Duration::from_millis(500);
        let program = Program { limit, thorough, ..place.program(script) };
        assert_eq!(place.commands.produce(program).await.unwrap().end, CommandExit::TimedOut);
        assert!(!lives(place.file("escaped").unwrap()));
    }
}

#[tokio::test]
async fn a_program_has_as_much_memory_as_it_is_given() {
    let place = place();
    let program = place.program("ulimit -d; ulimit -Hd");
    let program = Program { memory: Some(64 << 20), most: 100, ..program };
    let produced = place.commands.produce(program).await.unwrap();
    assert_eq!(produced.stdout, b"65536\n65536\n", "{produced:?}");
}

/// Reports when it was asked to end, and otherwise ends on request.
const PATIENT: &str = "trap 'echo > asked; exit' TERM; mkfifo told; exec 3<>told; \
                       echo $$ > main; read line <&3; echo > done";

#[tokio::test]
async fn what_is_about_to_end_is_not_asked_to_unless_it_waits_for_others() {
    for (thorough, expected) in [(false, "done"), (true, "asked")] {
        let place = place();
        let limit = Duration::from_secs(1000);
        let program = Program { limit, gentle: true, thorough, ..place.program(PATIENT) };
        let mut running = Box::pin(place.commands.produce(program));
        tokio::select! {
            _ = &mut running => panic!("it ended"),
            () = until("it runs", || place.file("main").is_some()) => {}
        }
        drop(running);
        let there = |name: &str| place.folder.path().join(name).exists();
        if !thorough {
            std::fs::write(place.folder.path().join("told"), "go\n").unwrap();
        }
        until("it has ended", || there(expected)).await;
        until("its mark is gone", || left_behind(&place.commands.home).is_empty()).await;
        assert_eq!([there("asked"), there("done")], [thorough, !thorough]);
    }
}
