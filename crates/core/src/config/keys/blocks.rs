//! The keys of blocks. A block may appear in a service and in `supervisor:`; each of its keys is
//! overridden separately.

use super::{Absent, Choice, Duration, Key, Kind, Scope, Unit, key};

const ON_FULL: &[Choice] = &[Choice::new("drop"), Choice::new("block")];

const fn milliseconds(min: u64) -> Kind {
    Kind::Duration(Duration { unit: Unit::Milliseconds, min, none: false })
}

const fn milliseconds_or_none(min: u64) -> Kind {
    Kind::Duration(Duration { unit: Unit::Milliseconds, min, none: true })
}

const fn seconds(min: u64) -> Kind {
    Kind::Duration(Duration { unit: Unit::Seconds, min, none: false })
}

pub(in super::super) const RESTART: &[Key] = &[
    key(
        "delay",
        Scope::Both,
        milliseconds_or_none(0),
        Absent::Nothing("the first restart is immediate, the second waits 250 ms"),
        "Wait before the first restart; each further one waits `backoff` times longer.",
        "5000",
    ),
    key(
        "max_delay",
        Scope::Both,
        milliseconds(1),
        Absent::Value("60000"),
        "Maximum wait.",
        "60000",
    ),
    key(
        "backoff",
        Scope::Both,
        Kind::Float { min: 1.0, max: 100.0 },
        Absent::Value("2.0"),
        "Factor from one wait to the next.",
        "2.0",
    ),
    key(
        "jitter",
        Scope::Both,
        Kind::Float { min: 0.0, max: 1.0 },
        Absent::Value("0.1"),
        "Random share of the wait, so that services do not restart in step.",
        "0.2",
    ),
    key(
        "window",
        Scope::Both,
        milliseconds(1),
        Absent::Value("600000"),
        "Time window in which `max_restarts` counts restarts.",
        "600000",
    ),
    key(
        "stable_after",
        Scope::Both,
        milliseconds(0),
        Absent::Value("10000"),
        "Uptime after which a run counts as stable and the waits start over.",
        "10000",
    ),
    key(
        "cool_off",
        Scope::Both,
        milliseconds_or_none(1),
        Absent::Nothing("a failed service stays failed"),
        "Wait before a failed service is tried again.",
        "15m",
    ),
];

pub(in super::super) const STOP: &[Key] = &[
    key(
        "signal",
        Scope::Both,
        Kind::Signal,
        Absent::Value("TERM"),
        "The signal that asks the service to end.",
        "INT",
    ),
    key(
        "grace",
        Scope::Both,
        milliseconds(0),
        Absent::Value("10s"),
        "Grace period after the signal; then the service and everything it started is killed.",
        "30s",
    ),
];

pub(in super::super) const HEALTH_CHECK: &[Key] = &[
    key(
        "interval",
        Scope::Both,
        seconds(100),
        Absent::Value("30"),
        "Time between two checks.",
        "30",
    ),
    key(
        "timeout",
        Scope::Both,
        seconds(1),
        Absent::Value("10"),
        "Timeout of one check; a slower response is a failure.",
        "10",
    ),
    key(
        "retries",
        Scope::Both,
        Kind::Integer { min: 1, max: 1000 },
        Absent::Value("3"),
        "Number of failures in a row before the service is restarted.",
        "3",
    ),
    key(
        "start_period",
        Scope::Both,
        seconds(0),
        Absent::Value("30"),
        "Failures do not count in a run that is younger than this and was never healthy. The first success ends the period; until then checks run at least every 2 s. `0`: every failure counts.",
        "2m",
    ),
];

pub(in super::super) const LOGS: &[Key] = &[
    key(
        "max_size",
        Scope::Both,
        Kind::Size { min: 4096 },
        Absent::Value("16MiB"),
        "Size at which an output file is closed, at the next line end or at most 1 MiB later. `MiB`, `M`: powers of 1024; `MB`: powers of 1000.",
        "16MiB",
    ),
    key(
        "max_files",
        Scope::Both,
        Kind::Integer { min: 2, max: 100_000 },
        Absent::Value("8"),
        "Maximum number of files for each stream, including the open one.",
        "8",
    ),
    key(
        "max_total",
        Scope::Both,
        Kind::Size { min: 8192 },
        Absent::Value("128MiB"),
        "Maximum bytes of a service's output, both streams and their indexes together; at least twice `max_size`. A stream may use the space that the other does not need. Beyond this size the larger stream loses its oldest closed file.",
        "1G",
    ),
    key(
        "max_age",
        Scope::Both,
        milliseconds_or_none(1000),
        Absent::Nothing("by size only"),
        "Age at which an output file is closed, whatever its size.",
        "1d",
    ),
    key(
        "on_full",
        Scope::Both,
        Kind::Choice(ON_FULL),
        Absent::Value("drop"),
        "Reaction to a full disk: `drop` deletes the oldest closed files of this service, then drops output and reports how much; `block` deletes nothing, and the service waits.",
        "block",
    ),
];

const fn limit(name: &'static str, bytes: bool, doc: &'static str, example: &'static str) -> Key {
    key(name, Scope::Both, Kind::Limit { bytes }, Absent::Nothing("inherited"), doc, example)
}

pub(in super::super) const LIMITS: &[Key] = &[
    limit("nofile", false, "Open files.", "65536"),
    limit("nproc", false, "Processes of the user.", "1024"),
    limit("core", true, "Size of a core dump.", "0"),
    limit("as", true, "Address space.", "4GiB"),
    limit("cpu", false, "Processor time in seconds.", "3600"),
    limit("data", true, "Data segment.", "1GiB"),
    limit("fsize", true, "Size of a file that the service writes.", "10GiB"),
    limit("memlock", true, "Locked memory.", "unlimited"),
    limit("stack", true, "Stack of the main thread.", "8MiB:unlimited"),
];

pub(in super::super) const HTTP: &[Key] = &[
    key(
        "host",
        Scope::Both,
        Kind::Host,
        Absent::Value("127.0.0.1"),
        "Address of the HTTP server. An address that other machines can reach needs `tls`.",
        "127.0.0.1",
    ),
    key("port", Scope::Both, Kind::Port, Absent::Value("3001"), "Port of the HTTP server.", "off"),
    key(
        "tls",
        Scope::Both,
        Kind::Block(TLS),
        Absent::Nothing("plain HTTP"),
        "Certificate and key; with them the server accepts only HTTPS.",
        "{ cert: tls/cert.pem, key: tls/key.pem }",
    ),
    key(
        "allowed_hosts",
        Scope::Both,
        Kind::Hosts,
        Absent::Value("[]"),
        "Host names that clients may use for this machine, besides loopback and `host`.",
        "[proctor.example.org]",
    ),
    key(
        "allowed_origins",
        Scope::Both,
        Kind::Origins,
        Absent::Value("[]"),
        "Other origins whose web pages may send requests.",
        "[\"https://tools.example.org\"]",
    ),
];

pub(in super::super) const TLS: &[Key] = &[
    key(
        "cert",
        Scope::Both,
        Kind::File,
        Absent::Nothing("none"),
        "Certificate chain in PEM format, relative to the folder of the file.",
        "tls/cert.pem",
    ),
    key(
        "key",
        Scope::Both,
        Kind::File,
        Absent::Nothing("none"),
        "Private key of the certificate in PEM format.",
        "tls/key.pem",
    ),
];

pub(in super::super) const SECURITY: &[Key] = &[
    key(
        "authentication",
        Scope::Both,
        Kind::Block(AUTHENTICATION),
        Absent::Nothing("see its keys"),
        "Authentication of network callers.",
        "{ enabled: true, token: \"${SUPERVISOR_TOKEN}\" }",
    ),
    key(
        "allowed_commands",
        Scope::Both,
        Kind::Commands,
        Absent::Nothing("everything the caller's role allows"),
        "Limits network callers to these commands (`restart`) and operations (\
         `service.restart`), whatever their role. `status` is `service.status`, `service.list` and `daemon.status`.",
        "[status, restart]",
    ),
    key(
        "bind_to_localhost",
        Scope::Both,
        Kind::Bool,
        Absent::Value("false"),
        "Refuse a configuration that lets other machines connect.",
        "true",
    ),
    key(
        "execute",
        Scope::Both,
        Kind::Block(EXECUTE),
        Absent::Nothing("see its keys"),
        "Commands that network callers may run.",
        "{ allowed: [make test] }",
    ),
    key(
        "audit",
        Scope::Both,
        Kind::Block(AUDIT),
        Absent::Nothing("see its keys"),
        "Log of who ran which operation.",
        "{ reads: true }",
    ),
];

const ROLES: &[Choice] = &[Choice::new("viewer"), Choice::new("operator"), Choice::new("admin")];

const CONTROL: &[Choice] = &[Choice::new("own"), Choice::new("all")];

pub(in super::super) const TOOLSETS: &[Choice] = &[
    Choice::new("processes"),
    Choice::new("logs"),
    Choice::new("files"),
    Choice::new("git"),
    Choice::new("system"),
];

pub(in super::super) const BACKUPS: &[Key] = &[
    key(
        "generations",
        Scope::Both,
        Kind::Integer { min: 0, max: 10_000 },
        Absent::Value("20"),
        "Maximum number of backups of each file. With 0 no change can be undone.",
        "50",
    ),
    key(
        "max_total",
        Scope::Both,
        Kind::Size { min: 4096 },
        Absent::Value("256MiB"),
        "Maximum bytes of all backups together; the oldest are deleted first. A larger file is changed without a backup.",
        "1G",
    ),
];

pub(in super::super) const MCP: &[Key] = &[
    key(
        "role",
        Scope::Both,
        Kind::Choice(ROLES),
        Absent::Value("admin"),
        "Maximum role of an assistant, whichever user it acts for. An assistant with a token has the token's role if that is lower.",
        "operator",
    ),
    key(
        "control",
        Scope::Both,
        Kind::Choice(CONTROL),
        Absent::Value("all"),
        "Services that an assistant may change: all, or only those that an assistant of the same name started. With `own` it changes nothing of Proctor itself.",
        "own",
    ),
    key(
        "toolsets",
        Scope::Both,
        Kind::Choices(TOOLSETS),
        Absent::Value("[processes, logs, files, git]"),
        "Toolsets offered to clients that request none.",
        "[processes, logs]",
    ),
];

pub(in super::super) const AUTHENTICATION: &[Key] = &[
    key(
        "enabled",
        Scope::Both,
        Kind::Bool,
        Absent::Value("true"),
        "With `false`, every process of this machine's owner of Proctor and of root may do everything over the network \
         without a token; no other machine may connect then.",
        "true",
    ),
    key(
        "token",
        Scope::Both,
        Kind::Secret,
        Absent::Nothing("only those of `proctor token`"),
        "Token with the role admin, besides those of `proctor token`. `SUPERVISOR_TOKEN` sets it too.",
        "\"${SUPERVISOR_TOKEN}\"",
    ),
    key(
        "anonymous_read",
        Scope::Both,
        Kind::Bool,
        Absent::Value("true"),
        "Whether local processes of Proctor's owner and of root may read without a token.",
        "false",
    ),
];

pub(in super::super) const EXECUTE: &[Key] = &[
    key(
        "allowed",
        Scope::Both,
        Kind::List,
        Absent::Value("[]"),
        "Commands that an admin may have run over the network, by `execute` and around a `custom-restart`; each text is split \
         as a shell does and allows exactly its words. `*` in a word stands for any characters but `=`, and never for the \
         `-` of an option or a `..`; the last word `**` for any number of such words, and `...` for anything at all. On this machine the owner runs \
         anything.",
        "[make test, ./bin/migrate *]",
    ),
    key(
        "env",
        Scope::Both,
        Kind::List,
        Absent::Value("[]"),
        "Names of variables that an admin may set over the network for such a command and for the run that a `custom-restart` \
         makes; `*` in a name stands for any characters.",
        "[MODE, APP_*]",
    ),
];

pub(in super::super) const AUDIT: &[Key] = &[
    key(
        "reads",
        Scope::Both,
        Kind::Bool,
        Absent::Value("false"),
        "Whether reads are recorded too. A page that polls every second fills the audit with reads.",
        "true",
    ),
    key(
        "max_size",
        Scope::Both,
        Kind::Size { min: 65536 },
        Absent::Value("16MiB"),
        "Size at which the audit starts a new file.",
        "16MiB",
    ),
    key(
        "max_files",
        Scope::Both,
        Kind::Integer { min: 2, max: 100_000 },
        Absent::Value("64"),
        "Maximum number of audit files.",
        "64",
    ),
];

pub(in super::super) const GIT: &[Key] = &[
    key(
        "trusted",
        Scope::Both,
        Kind::List,
        Absent::Value("[]"),
        "Repositories whose own configuration may run programs: hooks, filters, merge drivers, signing. Each is the folder that contains \
         `.git`, relative to the folder of the file. In other repositories none of these programs run.",
        "[., ../library]",
    ),
    key(
        "protocols",
        Scope::Both,
        Kind::List,
        Absent::Value("[]"),
        "Protocols by which git may fetch objects that a partial clone lacks: `https`, `http`, `ssh`, `git`, `file`.",
        "[https]",
    ),
    key(
        "timeout",
        Scope::Both,
        seconds(1000),
        Absent::Value("60"),
        "Timeout of a git call; a slower call is killed with everything it started.",
        "60",
    ),
];
