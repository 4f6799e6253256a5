//! The table of all failpoints. `cargo xtask torture` passes each of them and reports the ones it
//! could not reach.

macro_rules! points {
    ($($name:ident $kind:ident $text:literal: $doc:literal;)*) => {
        /// A place in the code. A *step* can be made to fail, a *moment* cannot.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = $doc] $name,)*
        }

        #[cfg(feature = "failpoints")]
        impl Point {
            pub const ALL: &'static [Point] = &[$(Point::$name,)*];

            /// The name of its file.
            pub fn name(self) -> &'static str {
                match self {
                    $(Point::$name => $text,)*
                }
            }

            pub fn can_fail(self) -> bool {
                match self {
                    $(Point::$name => points!(@ $kind),)*
                }
            }
        }
    };
    (@ step) => { true };
    (@ moment) => { false };
}

points! {
    SpawnPrepare step "spawn.prepare": "Before anything is prepared for a fork.";
    SpawnFork step "spawn.fork": "Everything is prepared, the fork is next.";
    SpawnForked moment "spawn.forked": "The parent right after the fork.";
    ChildBegin step "child.begin": "The child's first step.";
    ChildSession step "child.session": "The child has its session and is not recorded.";
    ChildRecorded step "child.recorded": "The child has recorded itself.";
    ChildExec step "child.exec": "The child is about to execute the program.";

    RunBegin step "run.begin": "A run is about to be created; nothing of it exists.";
    RunPipes step "run.pipes": "The run's pipes are made.";
    RunRecorded step "run.recorded": "The run is in the state file, which is not locked.";
    RunMade moment "run.made": "The process exists; the keeper has not recorded it.";
    RunPiped moment "run.piped": "The log pump has the run's pipes.";
    RunEnded moment "run.ended": "The main process is reaped, nothing is stored.";
    RunOver moment "run.over": "The end of the run is stored; the pump was not notified.";
    RunDrained moment "run.drained": "The last line is stored; the run's files still exist.";
    RunRemove moment "run.remove": "One of the run's pipes is removed.";

    StateEmpty step "state.empty": "A service's state file is made and empty.";
    StateBegin step "state.begin": "Before a state is written in place.";
    StateWritten step "state.written": "It is written.";

    PersistBegin step "persist.begin": "Before a small file of the keeper's is replaced.";
    PersistWritten step "persist.written": "The new content is in a temporary file.";
    PersistRenamed step "persist.renamed": "It is replaced.";
    StoreBegin step "store.begin": "Before `services.json` is replaced.";
    StoreWritten step "store.written": "The new content is in a temporary file.";
    StoreRenamed step "store.renamed": "It is replaced, the folder is not synced.";

    AuditBegin step "audit.begin": "Before a line of the audit is written.";
    AuditHalf moment "audit.half": "Half of it is written.";
    AuditWritten moment "audit.written": "It is written; the operation continues.";

    FileBegin step "file.begin": "Files are about to be changed; nothing is recorded.";
    FileRecorded step "file.recorded": "The change is recorded; no file is written.";
    FileWritten step "file.written": "A new content is in a temporary file.";
    FileReady step "file.ready": "All new contents are written, and the old ones are backed up.";
    FileTurn step "file.turn": "One of the files is about to be changed.";
    FileTurned moment "file.turned": "It is.";
    FileSettled moment "file.settled": "All files are changed, and that is recorded.";
    FileTidied moment "file.tidied": "The temporary files are gone; the record still exists.";

    DefineBegin step "define.begin": "A service is to be defined, nothing of it is stored.";
    DefineStored moment "define.stored": "A new spec is stored, the keeper has not taken it.";
    RemoveBegin moment "remove.begin": "A service is forgotten; its files still exist.";
    RemoveDone moment "remove.done": "Its files are gone; the daemon was not notified.";

    LogIndex step "log.index": "Bytes wait in a pipe; their index entry is next.";
    LogBytes step "log.bytes": "The index entry is written; the bytes are not.";
    LogMoved moment "log.moved": "The bytes are in the file.";
    LogEnd moment "log.end": "A run's last bytes are stored, its end is not marked.";
    LogEnded moment "log.ended": "The end is marked; the keeper was not notified.";
    RotateBegin step "rotate.begin": "A segment is full, the next is not made.";
    RotateIndex step "rotate.index": "The next segment has a log and no index.";
    RotateMade moment "rotate.made": "The next segment is made.";
    RetainBegin moment "retain.begin": "Before the oldest segment is deleted.";
    RetainLog moment "retain.log": "Its log is deleted, its index is not.";

    KeeperBegin moment "keeper.begin": "A keeper begins; it may have inherited a lock.";
    KeeperLock step "keeper.lock": "It tries to get the lock.";
    KeeperLocked moment "keeper.locked": "It has the lock.";
    TakeoverBegin moment "takeover.begin": "Before the first service is taken over.";
    TakeoverRead step "takeover.read": "Before a stored file is read.";
    TakeoverFound moment "takeover.found": "The result of a run is known.";
    TakeoverWatch step "takeover.watch": "Before an adopted process is watched.";
    TakeoverPipe step "takeover.pipe": "Before a pipe is opened again.";
    TakeoverService moment "takeover.service": "One service is taken over.";
    TakeoverDone moment "takeover.done": "All services are taken over; there is no daemon yet.";

    DaemonSpawn step "daemon.spawn": "The keeper is about to start the daemon.";
    DaemonBegin moment "daemon.begin": "The daemon begins.";
    DaemonHello moment "daemon.hello": "It said hello; the keeper has not responded.";
    DaemonSnapshot moment "daemon.snapshot": "It has the keeper's snapshot.";
    DaemonStarted moment "daemon.started": "It has sent everything stored to the keeper.";
    OwnerSaved moment "owner.saved": "A wish is stored; the keeper was not notified.";
    OwnerTold moment "owner.told": "The keeper has responded; the client has not.";
    RoleGone moment "role.gone": "The daemon saw the keeper die.";
    RoleExec step "role.exec": "It is about to become the keeper.";

    GuardSpawn step "guard.spawn": "The keeper is about to start the guard.";
    GuardPipes moment "guard.pipes": "The guard has a run's pipes; there is no process.";
    GuardStart moment "guard.start": "The guard is about to start a keeper.";

    UpgradeAsked moment "upgrade.asked": "An upgrade is accepted; the daemon still runs.";
    UpgradeStopped moment "upgrade.stopped": "The daemon has left and the pump has stopped.";
    UpgradeStored moment "upgrade.stored": "All states are stored.";
    UpgradePass step "upgrade.pass": "Before lock and socket are passed on.";
    UpgradeExec step "upgrade.exec": "Before the new program is executed.";

    EndStopping moment "end.stopping": "An orderly end begins.";
    EndClean moment "end.clean": "The daemon has left, files are cleared next.";
    EndDone moment "end.done": "All files are removed; the process still runs.";
}
