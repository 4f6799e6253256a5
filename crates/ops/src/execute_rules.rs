//! Rules for commands, variables and folders of requests: the lists of `security.execute`.

use crate::error::{Code, OpError};
use crate::operation::{Caller, Context, Principal};
use proctor_core::config::execute::Execute;

/// Returns true if this caller may run a command. The owner at the unix socket could run it without Proctor. A caller from
/// the network may run the commands that the configuration lists, and none without a list.
pub(crate) fn is_permitted(caller: &Caller, execute: &Execute, argv: &[String]) -> bool {
    is_owner(caller) || execute.allows(argv)
}

/// Refuses a command that is not permitted, with the entry to add.
pub(crate) fn permit(
    caller: &Caller,
    execute: &Execute,
    argv: &[String],
    shown: &str,
) -> Result<(), OpError> {
    if is_permitted(caller, execute, argv) {
        return Ok(());
    }
    let help = match execute.beginning(argv) {
        Some(entry) => format!(
            "the entry '{entry}' of `security.execute.allowed` allows only exactly these words; add '{shown}', \
             or a pattern: `*` for a word that is not an option, `**` for any number of them, `...` for anything"
        ),
        None => {
            "list it in `security.execute.allowed`; on this machine `proctor execute` runs anything"
                .into()
        }
    };
    Err(OpError::new(Code::Forbidden, format!("'{shown}' may not be run over this interface"))
        .help(help))
}

fn is_owner(caller: &Caller) -> bool {
    matches!(caller.principal, Principal::Local { .. }) && !caller.is_network()
}

/// Refuses variables that the caller may not set. `PATH` or `PYTHONPATH` would turn every command and every service into
/// another one.
pub(crate) fn check_variables<'a>(
    context: &Context,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), OpError> {
    context.engine.security(|security| {
        names.try_for_each(|name| permit_variable(&context.caller, &security.execute, name))
    })
}

fn permit_variable(caller: &Caller, execute: &Execute, name: &str) -> Result<(), OpError> {
    if is_owner(caller) || execute.allows_variable(name) {
        return Ok(());
    }
    let message = format!("the variable '{name}' may not be set over this interface");
    Err(OpError::new(Code::Forbidden, message)
        .help("omit it, or list its name in `security.execute.env` of the configuration"))
}

/// Refuses a folder or an environment for a command if the caller may not choose it.
pub(crate) fn choose_surroundings<const N: usize>(
    context: &Context,
    given: [(&str, bool); N],
) -> Result<(), OpError> {
    let Some((field, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    context.engine.security(|security| permit_choice(&context.caller, &security.execute, field))
}

/// `make test` is another command in another folder or environment, so a listed command runs in the server's own. A caller
/// that may use the shell could set these anyway.
fn permit_choice(caller: &Caller, execute: &Execute, field: &str) -> Result<(), OpError> {
    if is_owner(caller) || execute.allows_any_shell_command() {
        return Ok(());
    }
    let message = format!("'{field}' of a command may not be set over this interface");
    Err(OpError::new(Code::Forbidden, message).help(
        "omit it; `service` uses the folder and the variables of a service, and a listed script can set its own",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Front, Role, TokenId};

    fn split(text: &str) -> Option<Vec<String>> {
        shlex::split(text)
    }

    fn over(principal: Principal, front: Front) -> Caller {
        Caller::remote(principal, front, "127.0.0.1:1".parse().unwrap())
    }

    #[test]
    fn the_servers_list_decides_and_the_request_has_no_say() {
        let owner = Caller::local(0);
        let principal = |role| Principal::Token { id: TokenId("t".into()), name: "t".into(), role };
        let token = over(principal(Role::Admin), Front::Rest);
        let words = |text: &str| split(text).unwrap();
        let check = |caller: &Caller, allowed: &[&str], command: &str, expected: bool| {
            let execute = Execute::parse(allowed, &[]).unwrap();
            let result = permit(caller, &execute, &words(command), command);
            assert_eq!(result.is_ok(), expected, "{command} of {allowed:?}");
        };
        check(&owner, &[], "rm -r x", true);
        check(&token, &[], "make test", false);
        check(&token, &["make test"], "make test", true);
        check(&token, &["make test"], "make test V=1", false);
        check(&token, &["make test V=*"], "make test V=1", true);
        check(&token, &["make test"], "make", false);
        check(&token, &["make"], "/tmp/make", false);
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        let execute = Execute::parse(&["make test"], &[]).unwrap();
        let token = over(Principal::Anonymous, Front::Rest);
        let help = |command: &str| {
            permit(&token, &execute, &split(command).unwrap(), command).unwrap_err().help.unwrap()
        };
        let further = help("make test V=1");
        assert!(
            further.starts_with("the entry 'make test' of")
                && further.contains("add 'make test V=1'")
        );
        assert!(help("make install").starts_with("list it in `security.execute.allowed`"));
    }

    #[test]
    fn only_the_owner_and_who_has_the_shell_choose_folder_and_variables() {
        let check = |caller: &Caller, allowed: &[&str], expected: bool| {
            let execute = Execute::parse(allowed, &["MODE"]).unwrap();
            let result = permit_choice(caller, &execute, "working_dir");
            assert_eq!(result.is_ok(), expected, "{caller:?} with {allowed:?}");
            let result = permit_variable(caller, &execute, "PATH");
            assert_eq!(result.is_ok(), expected, "{caller:?} with {allowed:?}");
            assert!(permit_variable(caller, &execute, "MODE").is_ok());
        };
        let (id, name, role) = (TokenId("t".into()), "t".into(), Role::Admin);
        let token = over(Principal::Token { id, name, role }, Front::Rest);
        check(&Caller::local(0), &[], true);
        check(&Caller::local(0).through(Front::Mcp, None), &[], true);
        check(&token, &["make test", "/bin/sh -c true", "sh ...", "/bin/sh -c"], false);
        check(&over(Principal::Anonymous, Front::Tcp), &["make test"], false);
        check(&over(Principal::Local { uid: 0 }, Front::Tcp), &["make test"], false);
        check(&token, &["make test", "/bin/sh -c ..."], true);
        check(&token, &["/bin/sh ..."], true);
    }
}
