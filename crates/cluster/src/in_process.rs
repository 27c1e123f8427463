//! Launch process, master and agent in one: rank 0 of `mpirun -n N haul cp …`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::launch::{Place, Processes, Start, Started};
use crate::link::{Link, inside};
use crate::wire::{ToLaunch, ToMaster};

/// The job this process is rank 0 of: it runs already, and only once.
pub struct InProcess {
    link: Mutex<Option<Link<ToMaster, ToLaunch>>>,
}

impl InProcess {
    /// Makes both ends of the link: the launch process's, and the one for the master.
    #[must_use]
    pub fn new() -> (Self, Link<ToLaunch, ToMaster>) {
        let (launch, master) = inside();
        (Self { link: Mutex::new(Some(launch)) }, master)
    }
}

impl Start for InProcess {
    fn start(&self, _: u32, _: &[Place]) -> Result<Started, String> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        let link = link.ok_or_else(|| "the processes that were here are gone".to_owned())?;
        Ok(Started { link, processes: Box::new(Themselves) })
    }

    fn starts_again(&self) -> bool {
        false
    }

    fn release(&self) {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut link) = link {
            // A master that is gone needs no telling.
            link.send(ToMaster::Stop).unwrap_or_default();
        }
    }
}

/// The processes of a job that their launcher looks after.
struct Themselves;

impl Processes for Themselves {
    fn printed(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn leave(&mut self, _: Duration) -> bool {
        true
    }

    fn end(&mut self) {}
}
