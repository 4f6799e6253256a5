//! Converts address, query and body of a request to the input of an operation, and its output to a response.

use super::connection::PeerInfo;
use super::query::Kind;
use super::response::{JSON, Refusal, answer};
use super::route::{Route, RouteKind, follows};
use super::{body, caller, query, stream};
use axum::RequestExt;
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Front, Method};
use proctor_ops::reply::Reply;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Header that reports that the requested state was not reached.
const VERDICT: HeaderName = HeaderName::from_static("proctor-verdict");

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Input field that asks for a response at once.
const BACKGROUND: &str = "background";

pub(super) async fn serve(route: &'static Route, request: Request<Body>) -> Response<Body> {
    match respond(route, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn respond(
    route: &'static Route,
    mut request: Request<Body>,
) -> Result<Response<Body>, Refusal> {
    let named = parameter(route, &mut request).await?;
    let (parts, body) = request.into_parts();
    let visitor = visitor(&parts)?;
    let caller = caller::caller(&visitor, &parts.headers, Front::Rest)?;
    let query = parts.uri.query().unwrap_or_default();
    let mut input = match route.method {
        Method::Get | Method::Delete => query::input(&route.fields, query)?,
        Method::Post => {
            let known = named.iter().map(|(field, value)| ((*field).to_owned(), value.clone()));
            visitor.may_ask(&caller, route.entry, &known.collect())?;
            // Escapes make the JSON longer than the text.
            let most = route.entry.meta.max_input * 2;
            let (shared, who) = (&visitor.shared, &caller.principal);
            let mut input = body::object(shared, who, &parts.headers, body, most).await?;
            ask_in_query(route, query, &mut input)?;
            input
        }
    };
    if let Some((field, value)) = named
        && input.insert(field.to_owned(), value).is_some()
    {
        return Err(Refusal::bad_input(format!("'{field}' is already given in the path")));
    }
    if route.how == RouteKind::Stream || (follows(&route.fields) && wants_stream(&parts.headers)) {
        return stream::begin(route, visitor, &parts.headers, input).await;
    }
    if route.fields.contains_key(BACKGROUND) && prefers_async(&parts.headers) {
        input.entry(BACKGROUND).or_insert(json!(true));
    }
    let reply = visitor.dispatch(caller, route.entry, Value::Object(input)).await?;
    Ok(answer_of(reply, &visitor, &parts.headers))
}

/// Returns the field that the path fills, and its value.
async fn parameter(
    route: &Route,
    request: &mut Request<Body>,
) -> Result<Option<(&'static str, Value)>, Refusal> {
    let Some(field) = route.fills else { return Ok(None) };
    let wrong = || Refusal::bad_input("the path is not UTF-8 text in percent encoding");
    let params: RawPathParams = request.extract_parts().await.map_err(|_| wrong())?;
    let value = params.iter().next().map(|(_, value)| value.to_owned()).ok_or_else(wrong)?;
    Ok(Some(match route.fields.get(field) {
        Some(Kind::List(_)) => (field, json!([value])),
        Some(Kind::Text | Kind::Bool | Kind::Number | Kind::Object) | None => (field, json!(value)),
    }))
}

pub(super) fn visitor(parts: &Parts) -> Result<Arc<PeerInfo>, Refusal> {
    let visitor = parts.extensions.get::<Arc<PeerInfo>>().cloned();
    visitor.ok_or_else(|| OpError::new(Code::Internal, "the request has no connection").into())
}

/// A POST has its input in the body; only the form of the response may be in the address.
fn ask_in_query(route: &Route, query: &str, input: &mut Map<String, Value>) -> Result<(), Refusal> {
    for (name, value) in query::input(&route.fields, query)? {
        if name != BACKGROUND {
            let message = format!("'{name}' must be in the body, not in the address");
            return Err(Refusal::bad_input(message));
        }
        if input.insert(name, value).is_some() {
            return Err(Refusal::bad_input(format!("'{BACKGROUND}' is already given in the body")));
        }
    }
    Ok(())
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.trim().starts_with("text/event-stream"))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut wishes = values.flat_map(|value| value.split(',')).map(str::trim);
    wishes.any(|wish| wish.eq_ignore_ascii_case("respond-async"))
}

fn answer_of(reply: Reply, visitor: &PeerInfo, headers: &HeaderMap) -> Response<Body> {
    let tag = reply.generation.and_then(|generation| tag(visitor, generation));
    let known = tag.as_ref().is_some_and(|tag| is_known(tag, headers));
    let verdict = reply.verdict.map(|code| HeaderValue::from_static(code.as_str()));
    let mut response = match known {
        true => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false if reply.background => answer(StatusCode::ACCEPTED, JSON, reply.text),
        false => answer(StatusCode::OK, JSON, reply.text),
    };
    let headers = response.headers_mut();
    if let Some(tag) = tag {
        headers.insert(ETAG, tag);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    if let Some(verdict) = verdict {
        headers.insert(VERDICT, verdict);
    }
    response
}

/// Entity tag that stays the same while nothing happens. It is weak: values that grow with time (uptime, CPU) do not affect it.
fn tag(visitor: &PeerInfo, generation: u64) -> Option<HeaderValue> {
    let era = visitor.shared.era;
    HeaderValue::try_from(format!("W/\"{era:x}-{generation:x}\"")).ok()
}

fn is_known(tag: &HeaderValue, headers: &HeaderMap) -> bool {
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(tag) = tag.to_str().map(plain) else { return false };
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).any(|one| one.trim() == "*" || plain(one) == tag)
}
