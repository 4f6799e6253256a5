//! Converts errors of the engine to errors for people, with a remedy.

use crate::error::{Code, OpError};
use proctor_core::config::Problem;
use proctor_core::wire::Refusal;
use proctor_engine::error::{EngineError, PortHolder};
use proctor_engine::git::GitError;
use serde_json::json;

impl From<EngineError> for OpError {
    fn from(error: EngineError) -> OpError {
        let message = error.to_string();
        let op = |code| OpError::new(code, message);
        match error {
            EngineError::Name(_) => op(Code::BadInput),
            EngineError::UnknownService { name, nearest } => {
                let guess = nearest.as_ref().map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
                op(Code::UnknownService)
                    .help(format!("{guess}`proctor list` shows all"))
                    .details(json!({ "service": name, "nearest": nearest }))
            }
            EngineError::NoneNamed { names } => op(Code::BadInput)
                .help("give a name, or set `primary: true` on one in the configuration")
                .details(json!({ "services": names })),
            EngineError::AlreadyExists { name, .. } => op(Code::AlreadyExists).help(format!(
                "start it as it is with `proctor start {name}`, or redefine it with `--replace` (`replace: true`)"
            )),
            EngineError::AssistantRefused { services } => {
                let names: Vec<&str> = services.iter().map(|(name, _)| name.as_str()).collect();
                op(Code::Forbidden)
                    .help("nothing was changed; ask the person you work for")
                    .details(json!({ "services": names }))
            }
            EngineError::Widens { keys } => op(Code::Forbidden)
                .help("nothing was changed; an assistant may only narrow these settings; ask a person to run `proctor up`")
                .details(json!({ "settings": keys })),
            EngineError::NoLease(_) => {
                op(Code::BadInput).help("the service is kept until it is removed; give a duration such as 2h to set a lease")
            }
            EngineError::DefinedInFile(_, path) => op(Code::DefinedInFile)
                .help(format!("change {} and run `proctor up`", path.display())),
            EngineError::BadConfig(problems) => bad_config(&problems),
            EngineError::Unreadable { .. } | EngineError::Unwritable { .. } => op(Code::Failed),
            EngineError::HomeInUse { running, asked } => op(Code::HomeInUse)
                .help(format!(
                    "stop it first with `proctor down`, or give {} its own home: `proctor --home DIR up`",
                    asked.display()
                ))
                .details(json!({ "running": running, "asked": asked })),
            EngineError::ProgramMissing { program, .. } if program.contains('/') => {
                op(Code::ProgramMissing).help(
                    "correct the path, or build the program first; a relative path starts in the working directory",
                )
            }
            EngineError::ProgramMissing { .. } => op(Code::ProgramMissing).help(
                "install the program, write its full path, or set a PATH in `env` of the service that contains it",
            ),
            EngineError::NotRunnable { remedy, .. } => op(Code::ProgramMissing).help(remedy),
            EngineError::CannotChangeUser { .. } => op(Code::Failed)
                .help("run Proctor as root, or remove `user:` from the service"),
            EngineError::PortInUse { port, holder, .. } => port_in_use(op(Code::PortInUse), port, holder),
            EngineError::UnknownUser { .. } => op(Code::UnknownUser),
            EngineError::Refused(refusal) => refused(&refusal),
            EngineError::KeeperGone => {
                op(Code::Unavailable).help("it is being replaced; retry in a moment")
            }
            EngineError::BadPattern(_) => {
                op(Code::BadInput).help("the pattern is a regular expression; put \\ before a literal ( [ * + ? .")
            }
            EngineError::BadCursor(_) => {
                op(Code::BadInput).help("pass a cursor exactly as an earlier response returned it")
            }
            EngineError::NoProctor { .. } => op(Code::BadInput).help("nothing was changed; give the new binary with `--binary`"),
            EngineError::File(error) => error.into(),
            EngineError::Git(error) => error.into(),
            EngineError::Failed(_) => op(Code::Failed),
        }
    }
}

impl From<GitError> for OpError {
    fn from(error: GitError) -> OpError {
        let message = error.to_string();
        let op = |code| OpError::new(code, message);
        const TRUST: &str =
            "if it is yours, list its folder in `supervisor.git.trusted` of the configuration";
        match error {
            GitError::Missing { searched } => op(Code::ProgramMissing)
                .help(format!("install git 2.32 or newer on Proctor's machine; {searched}")),
            GitError::TooOld { .. } => op(Code::ProgramMissing)
                .help("install a newer git, or put its folder first in Proctor's PATH"),
            GitError::NoRepository { .. } => op(Code::NotFound).help(
                "give another folder as 'repo'; a repository around a root is used if it is a root itself or `supervisor.git.trusted` lists it",
            ),
            GitError::ReadOnly { .. } => op(Code::Forbidden)
                .help("`roots` in the configuration lists the writable folders; keep Proctor's own files elsewhere"),
            GitError::Unsafe { .. } | GitError::Filtered { .. } => op(Code::Forbidden).help(TRUST),
            GitError::NoRevision(_) => op(Code::NotFound).help("`proctor git log` and `proctor git branch` show revisions"),
            GitError::Nothing(_) => op(Code::NotFound),
            GitError::Exists(_) => op(Code::AlreadyExists),
            GitError::Bad { field, .. } => op(Code::BadInput).details(json!({ "field": field })),
            GitError::Nobody => op(Code::Failed).help(
                "set `git config --global user.name NAME` and user.email as Proctor's user, or give 'author' as 'Name <address>'",
            ),
            GitError::Conflict(_) => op(Code::Conflict),
            GitError::Stale => op(Code::Stale).help("start again without the cursor"),
            GitError::Late { .. } => op(Code::Timeout).help("raise `supervisor.git.timeout` in the configuration"),
            GitError::Failed { .. } => op(Code::Failed),
        }
    }
}

fn port_in_use(error: OpError, port: u16, holder: Option<PortHolder>) -> OpError {
    let mut details = json!({ "port": port });
    let mut help = "stop the process that uses it, or give the service another port".to_owned();
    if let Some(PortHolder { process, pid, service }) = holder {
        (details["process"], details["pid"]) = (process.into(), pid.into());
        if let Some(service) = service {
            help =
                format!("free it with `proctor stop {service}`, or give the service another port");
            details["service"] = service.as_str().into();
        }
    }
    error.help(help).details(details)
}

fn refused(refusal: &Refusal) -> OpError {
    let op = |code| OpError::new(code, refusal.to_string());
    match refusal {
        Refusal::UnknownService(_) => op(Code::UnknownService).help("`proctor list` shows all"),
        Refusal::NotRunning(name) => {
            op(Code::NotRunning).help(format!("start it with `proctor start {name}`"))
        }
        Refusal::ShuttingDown => op(Code::Unavailable).help("retry when it has ended"),
        Refusal::Failed(_) => op(Code::Failed),
    }
}

/// Lists all problems, one per line, like a compiler.
fn bad_config(problems: &[Problem]) -> OpError {
    let count = problems.len();
    let head = if count == 1 { "1 problem".into() } else { format!("{count} problems") };
    // An example stays below its problem.
    let line = |problem: &Problem| format!("  {}", problem.to_string().replace('\n', "\n      "));
    let lines: Vec<String> = problems.iter().map(line).collect();
    let details: Vec<_> = problems
        .iter()
        .map(|p| {
            json!({ "file": p.file, "line": p.line, "column": p.column, "message": p.message, "help": p.help })
        })
        .collect();
    OpError::new(Code::BadConfig, format!("{head} in the configuration\n{}", lines.join("\n")))
        .help("nothing was changed; `proctor config --example` shows a valid configuration")
        .details(json!({ "problems": details }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::name::ServiceName;

    fn check(error: EngineError, code: Code, words: &[&str]) {
        let told = OpError::from(error);
        let text = format!("{} / {}", told.message, told.help.unwrap_or_default());
        assert_eq!(told.code, code, "{text}");
        for word in words {
            assert!(text.contains(word), "'{word}' is missing in: {text}");
        }
    }

    #[test]
    fn errors_say_what_to_do_next() {
        let web = || ServiceName::parse("web").unwrap();
        check(
            EngineError::UnknownService { name: "wbe".into(), nearest: Some("web".into()) },
            Code::UnknownService,
            &["'wbe'", "did you mean 'web'?", "proctor list"],
        );
        check(
            EngineError::PortInUse {
                service: web(),
                port: 80,
                holder: Some(PortHolder { process: "nginx".into(), pid: 3, service: None }),
            },
            Code::PortInUse,
            &["port 80 is in use by nginx (pid 3)", "stop the process that uses it"],
        );
        let holder = PortHolder { process: "node".into(), pid: 4, service: Some(web()) };
        check(
            EngineError::PortInUse { service: web(), port: 80, holder: Some(holder) },
            Code::PortInUse,
            &["in use by node (pid 4) of service 'web'", "`proctor stop web`"],
        );
        check(
            EngineError::HomeInUse { running: "/a/p.yaml".into(), asked: "/b/p.yaml".into() },
            Code::HomeInUse,
            &["/a/p.yaml", "/b/p.yaml", "--home", "proctor down"],
        );
        let missing = |program: &str, searched: &str| EngineError::ProgramMissing {
            service: web(),
            program: program.into(),
            searched: searched.into(),
        };
        check(
            missing("tool", "not in PATH (/bin)"),
            Code::ProgramMissing,
            &["not found: not in PATH (/bin) / install the program"],
        );
        check(
            missing("./tool", "there is no /srv/tool"),
            Code::ProgramMissing,
            &["not found: there is no /srv/tool / correct the path"],
        );
        check(
            EngineError::from(Refusal::NotRunning(web())),
            Code::NotRunning,
            &["proctor start web"],
        );
        check(
            EngineError::from(Refusal::UnknownService(web())),
            Code::UnknownService,
            &["'web'", "proctor list"],
        );
        check(
            EngineError::from(Refusal::ShuttingDown),
            Code::Unavailable,
            &["shutting down", "retry"],
        );
        check(EngineError::from(Refusal::Failed("no room".into())), Code::Failed, &["no room"]);
        check(EngineError::Failed("it broke".into()), Code::Failed, &["it broke"]);
        check(EngineError::KeeperGone, Code::Unavailable, &["retry"]);
        check(EngineError::BadCursor("x".into()), Code::BadInput, &["'x'", "earlier response"]);
    }

    #[test]
    fn every_problem_of_a_configuration_is_told_with_its_place() {
        let problem = |line, help: Option<&str>| Problem {
            file: "proctor.yaml".into(),
            line,
            column: 5,
            message: "unknown key 'comand'".into(),
            help: help.map(Into::into),
        };
        check(
            EngineError::BadConfig(vec![
                problem(7, Some("did you mean 'command'?")),
                problem(8, Some("write, for example:\nsupervisor:")),
                problem(0, None),
            ]),
            Code::BadConfig,
            &[
                "3 problems",
                "write, for example:\n      supervisor:",
                "proctor.yaml:7:5: unknown key 'comand'; did you mean 'command'?",
                "\n  proctor.yaml: ",
            ],
        );
    }
}
