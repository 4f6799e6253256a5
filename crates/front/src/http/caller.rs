//! Caller of a request: a token in `Authorization`, or a caller without one.

use super::connection::PeerInfo;
use super::origin_check::single;
use super::response::Refusal;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Front};

pub(super) fn caller(
    visitor: &PeerInfo,
    headers: &HeaderMap,
    front: Front,
) -> Result<Caller, Refusal> {
    let token = presented(headers)
        .inspect_err(|refusal| visitor.turned_away("authenticate", front, &refusal.error))?;
    let principal = match token {
        None => visitor.nameless(),
        Some(token) => visitor.authenticate(token, front)?,
    };
    Ok(Caller::remote(principal, front, visitor.peer))
}

pub(super) fn presented(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = single(headers, &AUTHORIZATION)? else { return Ok(None) };
    let token = value.to_str().ok().and_then(bearer).ok_or_else(|| {
        OpError::new(Code::Unauthenticated, "the Authorization header contains no token")
            .help("send 'Authorization: Bearer TOKEN'")
    })?;
    Ok(Some(token))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn a_token_stands_behind_its_scheme() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for bad in ["", "abc", "Basic abc", "Bearer", "Bearer ", "Bearerabc"] {
            assert_eq!(bearer(bad), None, "{bad}");
        }
    }
}
