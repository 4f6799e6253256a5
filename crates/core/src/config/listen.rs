//! Where Proctor listens on the network. Addresses only: names would have to be looked up, and what they say can change.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where one listener listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Off,
    /// Port 0: any free one.
    At(SocketAddr),
}

impl Place {
    /// Reachable from this machine only, or not at all.
    pub fn is_local(self) -> bool {
        match self {
            Place::Off => true,
            Place::At(address) => address.ip().is_loopback(),
        }
    }
}

/// An address as it is written: a number, or the one name that always means the same.
pub fn host(text: &str) -> Option<IpAddr> {
    match text {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => text.trim_start_matches('[').trim_end_matches(']').parse().ok(),
    }
}
