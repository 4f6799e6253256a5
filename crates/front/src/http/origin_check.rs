//! Checks before a request is read: its host, the origin of the page that sends it, and no secrets in the address, which is
//! logged.
//!
//! Any web page can make a local browser send requests to this machine. So the name in `Host` must be one of ours (a foreign
//! name that resolves to our address is not), and so must the page.

use super::connection::PeerInfo;
use super::query;
use super::response::Refusal;
use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
    ORIGIN, VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use proctor_core::config::listen::Http;
use proctor_ops::error::{Code, OpError};
use std::net::IpAddr;

/// Result for a request that is not refused.
pub(super) enum AllowedRequest {
    /// Continue; a page of this other origin may see the response.
    Yes(Option<HeaderValue>),
    /// Response to a preflight request of a browser.
    Asks(Response<Body>),
}

/// Query parameters in which people put tokens.
const SECRETS: [&str; 4] = ["token", "access_token", "api_key", "authorization"];

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, if-none-match, last-event-id, mcp-method, mcp-name, \
     mcp-protocol-version, mcp-session-id, prefer",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("etag, mcp-session-id, proctor-verdict");
/// Seconds until a browser repeats a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

pub(super) fn check<B>(
    request: &Request<B>,
    visitor: &PeerInfo,
    http: &Http,
) -> Result<AllowedRequest, Refusal> {
    let host = host(request)?;
    if !is_ours(host.host(), visitor, http) {
        return Err(OpError::new(
            Code::Forbidden,
            format!("'{}' is not a host name of this Proctor", host.host()),
        )
        .help("use its address, or add the name to 'supervisor.http.allowed_hosts'")
        .into());
    }
    let foreign = origin(request, &host, visitor, http)?;
    if foreign.is_none() {
        refuse_other_sites(request)?;
    }
    refuse_secrets(request)?;
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    Ok(match foreign {
        Some(origin) if asks => AllowedRequest::Asks(preflight(origin)),
        foreign => AllowedRequest::Yes(foreign),
    })
}

/// Lets the page of another origin see the response.
pub(super) fn allow(foreign: Option<HeaderValue>, response: &mut Response<Body>) {
    let headers = response.headers_mut();
    if let Some(origin) = foreign {
        headers.append(VARY, HeaderValue::from_static("origin"));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

fn preflight(origin: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    allow(Some(origin), &mut response);
    response
}

/// Returns the only host of the request.
fn host<B>(request: &Request<B>) -> Result<Authority, Refusal> {
    let value = single(request.headers(), &HOST)?
        .ok_or_else(|| Refusal::bad_input("the request has no Host header"))?;
    let wrong = || Refusal::bad_input("the Host header is invalid");
    let host = Authority::try_from(value.as_bytes()).map_err(|_| wrong())?;
    if host.host().is_empty() || port(&host).is_none() {
        return Err(wrong());
    }
    match request.uri().authority() {
        Some(target) if target != &host => {
            Err(Refusal::bad_input("the Host header differs from the host in the address"))
        }
        Some(_) | None => Ok(host),
    }
}

fn is_ours(host: &str, visitor: &PeerInfo, http: &Http) -> bool {
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    match address {
        Some(address) => {
            is_address_of_ours(address, visitor.local.ip())
                || http.allowed_hosts.iter().any(|one| one == host)
        }
        None => {
            let same = |one: &String| one.eq_ignore_ascii_case(host);
            host.eq_ignore_ascii_case("localhost") || http.allowed_hosts.iter().any(same)
        }
    }
}

/// A listener on `::` also has IPv4 clients, with addresses such as `::ffff:…`.
fn is_address_of_ours(address: IpAddr, local: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address == local.to_canonical()
}

/// Returns the origin of the sending page, if it is foreign and allowed.
fn origin<B>(
    request: &Request<B>,
    host: &Authority,
    visitor: &PeerInfo,
    http: &Http,
) -> Result<Option<HeaderValue>, Refusal> {
    let Some(value) = single(request.headers(), &ORIGIN)? else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let scheme = if visitor.secure { "https" } else { "http" };
    let own = text.split_once("://").is_some_and(|(theirs, authority)| {
        theirs == scheme && same_place(authority, host, visitor.secure)
    });
    if own {
        return Ok(None);
    }
    if http.allowed_origins.iter().any(|one| one.eq_ignore_ascii_case(text)) {
        return Ok(Some(value.clone()));
    }
    let error =
        OpError::new(Code::Forbidden, "web pages of other origins may not use this Proctor")
            .help("add the origin to 'supervisor.http.allowed_origins' to allow it");
    Err(error.into())
}

fn same_place(authority: &str, host: &Authority, secure: bool) -> bool {
    let usual = if secure { 443 } else { 80 };
    let Ok(theirs) = Authority::try_from(authority) else { return false };
    let (Some(their_port), Some(port)) = (port(&theirs), port(host)) else { return false };
    theirs.host().eq_ignore_ascii_case(host.host())
        && their_port.unwrap_or(usual) == port.unwrap_or(usual)
}

/// Returns the port after the host, if there is one; `None` if there is other text. The address parser would accept
/// `127.0.0.1:80.example` as the host 127.0.0.1 without a port.
fn port(authority: &Authority) -> Option<Option<u16>> {
    let rest = authority.as_str().strip_prefix(authority.host())?;
    if rest.is_empty() {
        return Some(None);
    }
    let digits =
        rest.strip_prefix(':').filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(Some)
}

/// Browsers report a request from a page of another site even without an Origin header: an image, a script. A followed link is
/// allowed, because it only shows something to the user.
fn refuse_other_sites<B>(request: &Request<B>) -> Result<(), Refusal> {
    let said = |name: &'static str| {
        single(request.headers(), &HeaderName::from_static(name))
            .map(|value| value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned())
    };
    let elsewhere = matches!(said("sec-fetch-site")?.as_str(), "cross-site" | "same-site");
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let follows_link =
        reads && said("sec-fetch-mode")? == "navigate" && said("sec-fetch-dest")? == "document";
    if elsewhere && !follows_link {
        let message = "pages of other sites may not use this Proctor";
        return Err(OpError::new(Code::Forbidden, message).into());
    }
    Ok(())
}

/// Refuses secrets in an address, because addresses are stored in histories and logs.
fn refuse_secrets<B>(request: &Request<B>) -> Result<(), Refusal> {
    let names = query::names(request.uri().query().unwrap_or_default());
    let secret =
        names.into_iter().find(|name| SECRETS.contains(&name.to_ascii_lowercase().as_str()));
    match secret {
        None => Ok(()),
        Some(name) => Err(OpError::bad_input(format!("'{name}' must not be in the address"))
            .help(
                "send a token as 'Authorization: Bearer TOKEN'; if this is a real token, revoke it",
            )
            .into()),
    }
}

/// Returns the only value of a header. Programs disagree about duplicates.
pub(super) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Refusal::bad_input(format!("the header '{name}' is given twice"))),
    }
}

#[cfg(test)]
mod tests {
    use super::is_address_of_ours;

    #[test]
    fn an_address_is_ours_however_it_is_written() {
        let check = |host: &str, local: &str, expected: bool| {
            let ours = is_address_of_ours(host.parse().unwrap(), local.parse().unwrap());
            assert_eq!(ours, expected, "{host} at {local}");
        };
        check("10.0.0.7", "10.0.0.7", true);
        check("10.0.0.7", "::ffff:10.0.0.7", true);
        check("::ffff:10.0.0.7", "10.0.0.7", true);
        check("::ffff:127.0.0.1", "::1", true);
        check("10.0.0.7", "::ffff:10.0.0.8", false);
        check("fd00::7", "::ffff:10.0.0.7", false);
    }
}
