//! Checks before a start. A missing program or a port in use is reported now, with nothing changed, instead of
//! after the first crash.

use crate::definition::Definition;
use crate::error::{EngineError, PortHolder};
use crate::registry::Registry;
use crate::usage::members;
use proctor_core::config::secret::shown_text;
use proctor_core::name::ServiceName;
use proctor_sys::port::Holder;
use proctor_sys::process_tree::ProcessCensus;
use proctor_sys::program::ProgramError;
use proctor_sys::{port, program, user};
use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checks before a start. Services that have a run are skipped.
pub(crate) fn check_start(registry: &Registry, names: &[ServiceName]) -> Result<(), EngineError> {
    let idle = |name: &&ServiceName| registry.began_with(name).is_none();
    let definitions = names.iter().filter(idle).filter_map(|name| registry.definition(name));
    check(registry, definitions, &BTreeSet::new())
}

/// Checks before a restart. Ports of the running services count as free.
pub(crate) fn check_restart(registry: &Registry, names: &[ServiceName]) -> Result<(), EngineError> {
    let definitions = names.iter().filter_map(|name| registry.definition(name));
    check(registry, definitions, &registry.ports(names))
}

/// Checks that each of these can start as a process, given that the ports in `freed` will be free.
pub(crate) fn check(
    registry: &Registry,
    definitions: impl IntoIterator<Item = Arc<Definition>>,
    freed: &BTreeSet<u16>,
) -> Result<(), EngineError> {
    definitions.into_iter().try_for_each(|definition| check_one(registry, &definition, freed))
}

fn check_one(
    registry: &Registry,
    definition: &Definition,
    freed: &BTreeSet<u16>,
) -> Result<(), EngineError> {
    let exec = &definition.spec().exec;
    let service = definition.name();
    let folder = Path::new(&exec.working_dir);
    if !folder.is_dir() {
        let why = format!("the working directory of '{service}' must be a folder");
        return Err(EngineError::Unreadable { path: PathBuf::from(folder), why });
    }
    let name = exec.argv.first().map_or("", String::as_str);
    if let Err(missing) = program::resolve(name, folder, definition.variable("PATH")) {
        return Err(not_runnable(service, name, &missing));
    }
    if let Some(credentials) = exec.credentials.as_ref().filter(|_| !user::may_change()) {
        return Err(EngineError::CannotChangeUser {
            service: service.clone(),
            user: definition
                .def()
                .user
                .as_ref()
                .map_or_else(|| credentials.uid.to_string(), |wanted| wanted.user.clone()),
            ourselves: user::shown_user(user::effective().0),
        });
    }
    match definition.def().port {
        Some(port) if !freed.contains(&port) && !port::is_free(port) => {
            Err(EngineError::PortInUse {
                service: service.clone(),
                port,
                holder: port::holder(port).map(|holder| with_service(registry, holder)),
            })
        }
        Some(_) | None => Ok(()),
    }
}

fn not_runnable(service: &ServiceName, program: &str, missing: &ProgramError) -> EngineError {
    let (service, program) = (service.clone(), shown_text(program));
    let why = shown_text(&missing.to_string());
    match missing.remedy() {
        None => EngineError::ProgramMissing { service, program, searched: why },
        Some(remedy) => {
            EngineError::NotRunnable { service, program, why, remedy: shown_text(&remedy) }
        }
    }
}

/// A process, and the Proctor service it belongs to.
fn with_service(registry: &Registry, Holder { process, pid }: Holder) -> PortHolder {
    let names: Vec<ServiceName> = registry.read(|view| view.services.keys().cloned().collect());
    let census: LazyCell<ProcessCensus> = LazyCell::new(ProcessCensus::take);
    let mut runs = registry.runs(&names).into_iter();
    let service = runs.find(|(_, run)| members(run, &census).contains(&pid));
    PortHolder { process, pid, service: service.map(|(name, _)| name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Origin;
    use crate::definition::tests::{definition, plain};
    use crate::keeper_link::KeeperEvent;
    use proctor_core::config::ServiceDef;
    use proctor_core::lifecycle::Wish;
    use proctor_core::name::RunId;
    use proctor_core::time::Wall;
    use proctor_core::wire::{PhaseView, RunView, ServiceState};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    fn check(change: impl FnOnce(&mut ServiceDef)) -> String {
        let mut def = plain("web", &["/bin/sh"]);
        change(&mut def);
        let registry = Registry::new();
        registry.define(&[definition(def, Origin::File)]);
        match check_start(&registry, &[ServiceName::parse("web").unwrap()]) {
            Ok(()) => "fine".into(),
            Err(EngineError::ProgramMissing { program, searched, .. }) => {
                format!("{program}: {searched}")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn programs_and_folders_are_looked_for_where_the_service_would() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().display().to_string();
        let tool = folder.path().join("tool");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();

        assert_eq!(check(|_| {}), "fine");
        assert_eq!(check(|def| def.argv = vec!["tool".into()]), "tool: not in PATH (/bin)");
        assert_eq!(
            check(|def| {
                def.argv = vec!["tool".into()];
                def.env = vec![("PATH".into(), base.clone())];
            }),
            "fine"
        );
        assert_eq!(
            check(|def| {
                def.argv = vec!["./tool".into()];
                def.working_dir.clone_from(&base);
            }),
            "fine"
        );
        assert_eq!(check(|def| def.argv = vec!["./tool".into()]), "./tool: there is no /./tool");
        let secret = check(|def| def.argv = vec!["./a?token=hunter2".into()]);
        assert_eq!(secret, "./a?token=***: there is no /./a?token=***");
        let gone = format!("{base}/gone");
        assert_eq!(
            check(|def| def.working_dir.clone_from(&gone)),
            format!("cannot read {gone}: the working directory of 'web' must be a folder")
        );
    }

    #[test]
    fn a_taken_port_is_refused_with_its_holder() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let text = check(|def| def.port = Some(port));
        let me = format!("(pid {})", std::process::id());
        assert!(text.starts_with(&format!("web: port {port} is in use by ")), "{text}");
        assert!(text.ends_with(&me), "{text}");
    }

    #[test]
    fn a_process_of_a_service_is_told_with_its_service() {
        let registry = Registry::new();
        let state = |service: &str, pid| {
            let run = RunView { id: RunId(1), pid, started: Wall(0), cgroup: None };
            let name = ServiceName::parse(service).unwrap();
            let phase = PhaseView::Up { run };
            let (wish, since) = (Wish::Up, Wall(0));
            KeeperEvent::State(Box::new(ServiceState {
                name,
                wish,
                phase,
                since,
                restarts: 0,
                last_exit: None,
            }))
        };
        let me = std::process::id();
        registry.observe(vec![state("other", u32::MAX), state("own", me)]);
        let told =
            |pid| with_service(&registry, Holder { process: "node".into(), pid }).to_string();
        assert_eq!(told(me), format!("node (pid {me}) of service 'own'"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(told(child.id()), format!("node (pid {}) of service 'own'", child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(told(1), "node (pid 1)");
    }
}
