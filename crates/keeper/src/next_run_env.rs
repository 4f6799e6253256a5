//! Variables given with a restart, valid for its run only.
//!
//! They are stored before the restart begins and removed after the run was created. A keeper that
//! takes over in between creates the run with them, and a later one does not use them again.

use crate::keeper::Keeper;
use crate::log;
use crate::records::{self, Folder};
use proctor_core::lifecycle::Event;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record_encoding::OnceVariables;
use proctor_core::wire::Refusal;
use proctor_sys::small_file;

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

    /// Removes the variables: their run was created, or is no longer wanted.
    pub(crate) fn forget_once(&mut self, slot: u32) {
        let Some(service) = self.services.get_mut(slot) else { return };
        if service.once.take().is_none() {
            return;
        }
        let path = Folder::of(&self.home, &service.name).once();
        if let Err(error) = small_file::remove(&path) {
            log!("cannot remove {}: {error}", path.display());
        }
    }

    /// Loads the variables that an earlier keeper stored.
    pub(crate) fn take_over_once(&mut self, slot: u32, folder: &Folder) {
        let stored = records::read::<OnceVariables>(&folder.once()).unwrap_or_else(|error| {
            log!("{error}; the next run of {} starts without these variables", folder.name);
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

    /// Removes the variables if the run that was found has already received them.
    pub(crate) fn had_once(&mut self, slot: u32, run: RunId) {
        let service = self.services.get(slot);
        if service.and_then(|s| s.once.as_ref()).is_some_and(|once| run > once.after) {
            self.forget_once(slot);
        }
    }
}
