//! The network listeners of Proctor. Only addresses are valid: a name needs a lookup, and its
//! result can change.

use super::own_settings;
use super::problem::{Problem, TextPosition as Spot};
use super::read::{Layer, Reader};
use super::scalar;
use super::value::Value;
use super::{ConfigContext, finish};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// All network listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// TCP control.
    pub tcp: ListenAddress,
    pub http: Http,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub place: ListenAddress,
    /// If set, HTTPS only.
    pub tls: Option<Tls>,
    /// Names allowed for this machine, besides the built-in ones.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may send requests.
    pub allowed_origins: Vec<String>,
}

/// Absolute paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub cert: String,
    pub key: String,
}

/// The address of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddress {
    Off,
    /// Port 0 means any free port.
    At(SocketAddr),
}

impl ListenAddress {
    /// Replaces the port.
    pub fn with_port(self, port: Port) -> ListenAddress {
        let host = match self {
            ListenAddress::Off => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ListenAddress::At(address) => address.ip(),
        };
        match port {
            Port::Off => ListenAddress::Off,
            Port::Number(port) => ListenAddress::At(SocketAddr::new(host, port)),
        }
    }

    /// Whether the listener is off or reachable from this machine only.
    pub fn is_local(self) -> bool {
        match self {
            ListenAddress::Off => true,
            ListenAddress::At(address) => address.ip().is_loopback(),
        }
    }
}

/// A requested port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Off,
    /// 0 means any free port.
    Number(u16),
}

impl FromStr for Port {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Port, &'static str> {
        match text {
            "off" => Ok(Port::Off),
            _ => text.parse().map(Port::Number).map_err(|_| "a port from 0 to 65535, or 'off'"),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Port::Off => f.write_str("off"),
            Port::Number(port) => write!(f, "{port}"),
        }
    }
}

impl Listeners {
    pub const OFF: Listeners = Listeners {
        tcp: ListenAddress::Off,
        http: Http {
            place: ListenAddress::Off,
            tls: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        },
    };

    /// The listeners without a configuration; variables decide.
    pub fn without_file(var: &dyn Fn(&str) -> Option<String>) -> Result<Listeners, Vec<Problem>> {
        let around = ConfigContext { base_dir: "/", var, read: &|_| Err("there is none".into()) };
        let mut reader = Reader::new("environment", &around);
        let own = own_settings::take(&mut reader, &mut Layer::new());
        let listeners = read(&mut reader, &own, Spot::START);
        finish(reader, Vec::new(), Some(listeners), ("", ""))
    }
}

/// Parses an address: an IP address, or `localhost`.
pub fn host(text: &str) -> Option<IpAddr> {
    match text {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => text.parse().ok(),
    }
}

/// Parses host and port of an origin: `https://host[:port]` and nothing after it.
pub fn origin(text: &str) -> Option<(&str, Option<u16>)> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    scalar::split_authority(authority)
}

pub(super) fn read(reader: &mut Reader<'_>, own: &Layer, start: Spot) -> Listeners {
    let text = |key: &str| match own.get(key).map(|found| &found.value) {
        Some(Value::Text(word)) => Some(word.text.clone()),
        _ => None,
    };
    let words = |key: &str| match own.get(key).map(|found| &found.value) {
        Some(Value::Words(words)) => words.iter().map(|word| word.text.clone()).collect(),
        _ => Vec::new(),
    };
    let spot = |key: &str| own.get(key).and_then(|found| found.place).unwrap_or(start);
    let (tcp, http) = (place(own, "host", "port"), place(own, "http.host", "http.port"));
    let tls = match (text("http.tls.cert"), text("http.tls.key")) {
        (Some(cert), Some(key)) => Some(Tls { cert, key }),
        (None, None) => None,
        (cert, _) => {
            let (there, missing) = if cert.is_some() { ("cert", "key") } else { ("key", "cert") };
            let message = format!("supervisor.http.tls: '{there}' without '{missing}'");
            reader.problem(spot(&format!("http.tls.{there}")), message, None);
            None
        }
    };
    if !tcp.is_local() {
        let message = "supervisor.host: TCP control has no TLS and needs a local address";
        let help = "use 127.0.0.1; for other machines use 'http' with 'tls'";
        reader.problem(spot("host"), message.into(), Some(help.into()));
    }
    if !http.is_local() && tls.is_none() {
        let message =
            "supervisor.http.host: other machines can reach this address, so it needs TLS";
        let help = "set 'tls' with 'cert' and 'key', or use 127.0.0.1";
        reader.problem(spot("http.host"), message.into(), Some(help.into()));
    }
    Listeners {
        tcp,
        http: Http {
            place: http,
            tls,
            allowed_hosts: words("http.allowed_hosts"),
            allowed_origins: words("http.allowed_origins"),
        },
    }
}

fn place(own: &Layer, host_key: &str, port_key: &str) -> ListenAddress {
    let address = match own.get(host_key).map(|found| &found.value) {
        Some(Value::Text(word)) => host(&word.text),
        _ => None,
    };
    let port = match own.get(port_key).map(|found| &found.value) {
        Some(Value::Number(port)) => u16::try_from(*port).ok(),
        _ => None,
    };
    match (address, port) {
        (Some(address), Some(port)) => ListenAddress::At(SocketAddr::new(address, port)),
        (Some(_) | None, _) => ListenAddress::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_is_at_the_same_address() {
        let at = |text: &str| ListenAddress::At(text.parse().unwrap());
        for (place, port, expected) in [
            (at("[::1]:8081"), "9000", at("[::1]:9000")),
            (ListenAddress::Off, "9000", at("127.0.0.1:9000")),
            (at("127.0.0.1:8081"), "off", ListenAddress::Off),
            (at("127.0.0.1:8081"), "0", at("127.0.0.1:0")),
        ] {
            let port: Port = port.parse().unwrap();
            assert_eq!(place.with_port(port), expected);
            assert_eq!(port.to_string().parse(), Ok(port));
        }
        for bad in ["", "65536", "-1", "on", "80 "] {
            assert!(bad.parse::<Port>().is_err(), "{bad}");
        }
    }
}
