//! The body of a service's state file: its machine, and the run that was made last.

use super::machine::StoredMachine;
use super::{StoredError, owned, service_name};
use crate::name::RunId;
use crate::state_file::{RunHeader, StoredState};
use crate::time::Wall;
use minicbor::{Decode, Encode};

#[derive(Encode, Decode)]
#[cbor(map)]
struct State<'a> {
    #[b(0)]
    name: &'a str,
    #[b(1)]
    machine: StoredMachine<'a>,
    #[b(2)]
    run: Option<RunRecord<'a>>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct RunRecord<'a> {
    #[n(0)]
    run: u64,
    #[n(1)]
    started: i64,
    #[b(2)]
    cgroup: Option<&'a str>,
}

pub(crate) fn encode(state: &StoredState) -> Vec<u8> {
    super::encode(&State {
        name: state.name.as_str(),
        machine: (&state.machine).into(),
        run: state.run.as_ref().map(RunRecord::from),
    })
}

pub(crate) fn decode(bytes: &[u8]) -> Result<StoredState, StoredError> {
    let State { name, machine, run } = super::decode(bytes)?;
    Ok(StoredState {
        name: service_name(name)?,
        machine: machine.try_into()?,
        run: run.map(RunHeader::from),
    })
}

impl<'a> From<&'a RunHeader> for RunRecord<'a> {
    fn from(header: &'a RunHeader) -> RunRecord<'a> {
        let cgroup = header.cgroup.as_deref();
        RunRecord { run: header.run.0, started: header.started.0, cgroup }
    }
}

impl From<RunRecord<'_>> for RunHeader {
    fn from(stored: RunRecord<'_>) -> RunHeader {
        let cgroup = stored.cgroup.map(owned);
        RunHeader { run: RunId(stored.run), started: Wall(stored.started), cgroup }
    }
}
