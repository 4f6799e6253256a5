//! The TCP ports that services actually listen on, read on request.
//!
//! One lookup reads the kernel's list of listening sockets once, and the descriptors of the services' own
//! processes. For a service in its own network namespace, the list of that namespace is read.

use crate::api::PortSeen;
use crate::usage::members;
use proctor_core::wire::RunView;
use proctor_sys::port::{self, Listening};
use proctor_sys::process_tree::ProcessCensus;
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// The ports that the processes of a run listen on.
pub(crate) fn of(run: &RunView, members: &[u32], listening: &Listening) -> Vec<u16> {
    let elsewhere = listening.elsewhere(run.pid);
    let there = elsewhere.as_ref().unwrap_or(listening);
    let ports: BTreeSet<u16> = members.iter().flat_map(|pid| there.ports(*pid)).collect();
    ports.into_iter().collect()
}

/// The state of one port of one run. A port without a listener is found without reading any processes.
pub(crate) fn look(run: &RunView, port: u16, listening: &Listening) -> PortSeen {
    let elsewhere = listening.elsewhere(run.pid);
    let there = elsewhere.as_ref().unwrap_or(listening);
    if !there.on(port) {
        return PortSeen::Closed;
    }
    let census: LazyCell<ProcessCensus> = LazyCell::new(ProcessCensus::take);
    if members(run, &census).into_iter().any(|pid| there.has(pid, port)) {
        return PortSeen::Open;
    }
    match elsewhere {
        // A process in another network namespace is not reported.
        Some(_) => PortSeen::Taken { by: None },
        None => PortSeen::Taken { by: port::holder(port).map(|holder| holder.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::name::RunId;
    use proctor_core::time::Wall;
    use std::net::TcpListener;

    fn run(pid: u32) -> RunView {
        RunView { id: RunId(1), pid, started: Wall(0), cgroup: None }
    }

    #[test]
    fn a_port_is_open_closed_or_somebody_elses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let me = std::process::id();
        let now = Listening::now();
        assert_eq!(look(&run(me), port, &now), PortSeen::Open);
        assert_eq!(look(&run(me), 0, &now), PortSeen::Closed);
        assert!(of(&run(me), &[me, u32::MAX], &now).contains(&port));
        assert_eq!(of(&run(me), &[u32::MAX], &now), [0; 0]);
        let by = match look(&run(u32::MAX), port, &now) {
            PortSeen::Taken { by } => by.unwrap(),
            seen @ (PortSeen::Open | PortSeen::Closed) => panic!("{seen:?}"),
        };
        assert!(by.ends_with(&format!("(pid {me})")), "{by}");
    }
}
