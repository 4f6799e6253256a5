//! Derives the URL of a service from the ports it listens on.

/// Port of a URL without one.
const HTTP: u16 = 80;

/// Returns `origin` of the health check if the service listens there, else its configured port, else its only port.
pub(super) fn url(origin: Option<&str>, port: Option<u16>, ports: &[u16]) -> Option<String> {
    let checked = origin.filter(|origin| ports.contains(&port_of(origin)));
    let own = port.filter(|port| ports.contains(port));
    let only = match ports {
        [only] => Some(*only),
        [] | [_, _, ..] => None,
    };
    let local = || own.or(only).map(|port| format!("http://localhost:{port}"));
    checked.map(ToOwned::to_owned).or_else(local)
}

fn port_of(origin: &str) -> u16 {
    origin.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(HTTP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_only_where_it_is_clear() {
        for (origin, port, ports, expected) in [
            (None, None, &[][..], None),
            (None, Some(3000), &[], None),
            (None, None, &[3000], Some("http://localhost:3000")),
            (None, Some(3000), &[3001], Some("http://localhost:3001")),
            (None, None, &[3000, 9229], None),
            (None, Some(3000), &[3000, 9229], Some("http://localhost:3000")),
            (Some("http://[::1]:9229"), Some(3000), &[3000, 9229], Some("http://[::1]:9229")),
            (Some("http://app.test"), None, &[80, 443], Some("http://app.test")),
            (Some("http://app.test:8080"), None, &[3000], Some("http://localhost:3000")),
            (Some("http://app.test:8080"), None, &[3000, 3001], None),
        ] {
            assert_eq!(
                url(origin, port, ports).as_deref(),
                expected,
                "{origin:?} {port:?} {ports:?}"
            );
        }
    }
}
