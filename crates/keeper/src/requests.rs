//! Handles the requests of the daemon.

use crate::keeper::Keeper;
use crate::log;
use crate::own_folder;
use crate::pump::Command;
use crate::records::{self, Folder};
use crate::service::{MainProcess, Service};
use crate::service_folder::ServiceFolder;
use proctor_core::lifecycle::{Event, Machine, Wish};
use proctor_core::name::ServiceName;
use proctor_core::spec::ServiceSpec;
use proctor_core::stored;
use proctor_core::wire::{FromKeeper, Refusal, ToKeeper, Whom};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::process_tree::SearchScope;
use proctor_sys::{cgroup, clock, process};
use std::sync::Arc;

/// The reply to a request of a newer daemon that this keeper does not know.
const UNKNOWN_REQUEST: &str = "the keeper is older than the daemon and does not know this request; run `proctor daemon upgrade`";

impl Keeper {
    pub(crate) fn on_message(&mut self, message: ToKeeper) {
        match message {
            // Sent once, at the beginning; see `obey_daemon`.
            ToKeeper::Hello { .. } => {}
            ToKeeper::Environment { id, vars } => self.environments.add(&self.home, id, vars),
            ToKeeper::Define { request, spec } => {
                let result = self.define(&spec);
                self.reply(request, result);
            }
            ToKeeper::Remove { request, name } => {
                let result = self.remove(&name);
                self.reply(request, result);
            }
            ToKeeper::SetWish { request, name, wish } => {
                if wish == Wish::Down {
                    self.forget_once_of(&name);
                }
                let result = self.command(&name, Event::SetWish(wish));
                self.reply(request, result);
            }
            ToKeeper::Restart { request, name } => {
                self.forget_once_of(&name);
                let result = self.command(&name, Event::Restart);
                self.reply(request, result);
            }
            ToKeeper::RestartWith { request, name, env } => {
                let result = self.restart_with(&name, env);
                self.reply(request, result);
            }
            ToKeeper::Signal { request, name, signal, whom } => {
                let result = self.signal(&name, signal, whom);
                self.reply(request, result);
            }
            ToKeeper::Unhealthy { name, run } => {
                if let Some(slot) = self.services.find(&name) {
                    self.handle(slot, Event::Unhealthy { run });
                }
            }
            ToKeeper::Shutdown { request } => {
                self.reply(request, Ok(()));
                self.shut_down();
            }
            ToKeeper::Unknown { request } => {
                log!("the daemon sent a message that this keeper does not know");
                if let Some(request) = request {
                    self.reply(request, Err(Refusal::Failed(UNKNOWN_REQUEST.into())));
                }
            }
            ToKeeper::Upgrade { request, binary } => {
                let result = self.can_become(&binary);
                let accepted = result.is_ok();
                self.reply(request, result);
                if accepted {
                    self.upgrade(binary);
                }
            }
        }
    }

    fn forget_once_of(&mut self, name: &ServiceName) {
        if let Some(slot) = self.services.find(name) {
            self.forget_once(slot);
        }
    }

    /// Responds after the new state was sent: a client may read the state as soon as it has the
    /// response.
    fn reply(&mut self, request: u64, result: Result<(), Refusal>) {
        self.stage_states();
        self.daemon.send(&FromKeeper::Reply { request, result });
    }

    fn define(&mut self, spec: &ServiceSpec) -> Result<(), Refusal> {
        if self.ending.is_under_way() {
            return Err(Refusal::ShuttingDown);
        }
        let failed = |words: String| Refusal::Failed(words);
        let encoded = stored::spec::encode(spec);
        let known = self.services.find(&spec.name);
        if let Some(service) = known.and_then(|slot| self.services.get_mut(slot))
            && service.spec.as_deref() == Some(&encoded)
        {
            service.removing = false;
            return Ok(());
        }
        failpoint::step(Point::DefineBegin)
            .map_err(|e| failed(format!("cannot store {}: {e}", spec.name)))?;
        let folder = Folder::of(&self.home, &spec.name);
        own_folder::make_service(&self.home, &folder.path)
            .map_err(|e| failed(format!("cannot make {}: {e}", folder.path.display())))?;
        records::write_encoded::<ServiceSpec>(&folder.spec(), &encoded)
            .map_err(|e| failed(e.to_string()))?;
        failpoint::moment(Point::DefineStored);
        let policies = self.services.policies(spec);
        let logs = Arc::clone(&policies.logs);
        // Long-lived data is allocated here, apart from data that is freed with the request.
        let encoded: Box<[u8]> = encoded.as_slice().into();
        let slot = match known.and_then(|slot| Some((slot, self.services.get_mut(slot)?))) {
            Some((slot, service)) => {
                service.redefine(encoded, policies);
                service.changed = true;
                service.removing = false;
                slot
            }
            None => {
                // The state is stored with the first change; until then this is a service that
                // never ran.
                let machine = Machine::new(clock::now());
                let name = spec.name.apart();
                self.services.add(Service::new(name, Some(encoded), policies, machine))
            }
        };
        if let Some(service) = self.services.get(slot) {
            let folder = self.log_folder(&service.name);
            self.pump.send(Command::Configure { slot, folder, spec: logs });
        }
        Ok(())
    }

    pub(crate) fn log_folder(&self, name: &ServiceName) -> ServiceFolder {
        ServiceFolder::new(&self.logs, name)
    }

    fn command(&mut self, name: &ServiceName, event: Event) -> Result<(), Refusal> {
        let slot = self.services.find(name).ok_or_else(|| Refusal::UnknownService(name.clone()))?;
        let stops = matches!(event, Event::SetWish(Wish::Down));
        if self.ending.is_under_way() && !stops {
            return Err(Refusal::ShuttingDown);
        }
        self.handle(slot, event);
        Ok(())
    }

    fn remove(&mut self, name: &ServiceName) -> Result<(), Refusal> {
        let Some(slot) = self.services.find(name) else { return Ok(()) };
        if let Some(service) = self.services.get_mut(slot) {
            service.removing = true;
        }
        self.handle(slot, Event::SetWish(Wish::Down));
        Ok(())
    }

    /// Forgets a service that is being removed, once nothing of it runs and its output is stored.
    pub(crate) fn finish_removal(&mut self, slot: u32) {
        let done = |s: &Service| s.removing && s.machine.run().is_none() && s.quiet_until.is_none();
        if !self.services.get(slot).is_some_and(done) {
            return;
        }
        let Some(service) = self.services.remove(slot) else { return };
        failpoint::moment(Point::RemoveBegin);
        self.pump.send(Command::Forget { slot });
        self.release_from_guard(&service.name, service.machine.last_run());
        if let Some(hierarchy) = &self.hierarchy {
            cgroup::remove(&hierarchy.group(service.name.as_str()));
        }
        Folder::of(&self.home, &service.name).remove();
        failpoint::moment(Point::RemoveDone);
        self.daemon.send(&FromKeeper::Removed { name: service.name });
    }

    fn signal(&mut self, name: &ServiceName, signal: i32, whom: Whom) -> Result<(), Refusal> {
        let slot = self.services.find(name).ok_or_else(|| Refusal::UnknownService(name.clone()))?;
        let not_running = || Refusal::NotRunning(name.clone());
        let service = self.services.get(slot).ok_or_else(not_running)?;
        let run = service.run.as_ref().ok_or_else(not_running)?;
        let sent = match (whom, &run.main) {
            (Whom::Main, MainProcess::Child) => process::signal_child(run.pid, signal),
            (Whom::Main, MainProcess::Adopted(process)) => process.signal(signal).map(drop),
            (Whom::Main, MainProcess::Gone { .. }) => return Err(not_running()),
            (Whom::Tree, _) => {
                let mark = self.mark(slot, run.id).ok_or_else(not_running)?;
                log!(
                    "signal {signal} to {} processes of {name}",
                    run.tree(mark).signal(signal, None, SearchScope::Everywhere)
                );
                Ok(())
            }
        };
        sent.map_err(|error| Refusal::Failed(format!("cannot signal {name}: {error}")))
    }
}
