//! Variables that somebody gave with a restart: for the run that it makes and for no other.
//!
//! They are stored before the restart begins and removed when the run has been made, so a keeper that takes over in
//! between makes the run with them, and one that comes later does not make another with them.

use crate::keeper::Keeper;
use crate::log;
use crate::records::{self, Folder};
use proctor_core::lifecycle::Event;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record::OnceVariables;
use proctor_core::wire::Refusal;
use proctor_sys::file;

impl Keeper {
    pub(crate) fn restart_with(
        &mut self,
        name: &ServiceName,
        env: Vec<(String, String)>,
    ) -> Result<(), Refusal> {
        let slot = self.services.find(name).ok_or_else(|| Refusal::UnknownService(name.clone()))?;
        if self.ending.is_under_way() {
            return Err(Refusal::ShuttingDown);
        }
        if let Some(service) = self.services.get_mut(slot) {
            let once = OnceVariables { after: service.machine.last_run(), env };
            records::write(&Folder::of(&self.home, name).once(), &once)
                .map_err(|error| Refusal::Failed(error.to_string()))?;
            service.once = Some(Box::new(once));
        }
        self.handle(slot, Event::Restart);
        Ok(())
    }

    /// A run was made, or nobody wants the one that was to come: they are for no later one.
    pub(crate) fn forget_once(&mut self, slot: u32) {
        let Some(service) = self.services.get_mut(slot) else { return };
        if service.once.take().is_none() {
            return;
        }
        let path = Folder::of(&self.home, &service.name).once();
        if let Err(error) = file::remove(&path) {
            log!("cannot remove {}: {error}", path.display());
        }
    }

    /// Take up what an earlier keeper stored.
    pub(crate) fn take_over_once(&mut self, slot: u32, folder: &Folder) {
        let stored = records::read::<OnceVariables>(&folder.once()).unwrap_or_else(|error| {
            log!("{error}; the next run of {} does without it", folder.name);
            None
        });
        let Some(service) = self.services.get_mut(slot) else { return };
        let had = |once: &OnceVariables| {
            service.machine.run().is_none() && service.machine.last_run() > once.after
        };
        let is_over = stored.as_ref().is_some_and(had);
        service.once = stored.map(Box::new);
        if is_over {
            self.forget_once(slot);
        }
    }

    /// A run was found to have been made.
    pub(crate) fn had_once(&mut self, slot: u32, run: RunId) {
        let service = self.services.get(slot);
        if service.and_then(|s| s.once.as_ref()).is_some_and(|once| run > once.after) {
            self.forget_once(slot);
        }
    }
}
