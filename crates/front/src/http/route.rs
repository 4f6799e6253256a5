//! Table of routes: those from the table of operations, and the few without an operation.

use super::query::{self, Fields, Kind};
use super::response::Refusal;
use super::{legacy_dashboard, mcp, operation, pages};
use axum::Router;
use axum::body::Body;
use axum::http::{Method as HttpMethod, Request, Response, StatusCode};
use axum::routing::{MethodFilter, on};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Effect, Method};
use proctor_ops::table::{Entry, TABLE};
use std::sync::{Arc, LazyLock};

const API: &str = "/api/v1";

/// A route to an operation.
pub struct Route {
    pub method: Method,
    /// Path with a parameter as in `/api/v1/services/{name}`.
    pub path: String,
    pub entry: &'static Entry,
    pub how: RouteKind,
    /// Input field that the path parameter fills.
    pub fills: Option<&'static str>,
    pub(super) fields: Arc<Fields>,
}

impl Route {
    /// Returns the name of the path parameter.
    pub(super) fn parameter(&self) -> &str {
        let inner = self.path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        inner.map_or("", |(name, _)| name)
    }
}

/// Kind of a route's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// A single response.
    Once,
    /// A stream of responses.
    Stream,
}

/// Returns all routes of operations, in the order of the table.
pub fn routes() -> &'static [Route] {
    static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| TABLE.iter().flat_map(of).collect());
    &ROUTES
}

fn of(entry: &'static Entry) -> Vec<Route> {
    let meta = &entry.meta;
    let fields = Arc::new(query::fields(entry));
    let route = |method, path: String, how, fills| Route {
        method,
        path: format!("{API}{path}"),
        entry,
        how,
        fills,
        fields: Arc::clone(&fields),
    };
    let own = format!("/{}", meta.name.replace('.', "/"));
    let mut routes = Vec::new();
    if let Some(resource) = meta.resource {
        let fills = (!resource.fills.is_empty()).then_some(resource.fills);
        routes.push(route(resource.method, resource.path.into(), RouteKind::Once, fills));
        if follows(&fields) {
            let path = format!("{}/stream", resource.path);
            routes.push(route(Method::Get, path, RouteKind::Stream, fills));
        }
    }
    if meta.effect == Effect::Read {
        routes.push(route(Method::Get, own.clone(), RouteKind::Once, None));
    }
    routes.push(route(Method::Post, own, RouteKind::Once, None));
    routes
}

/// Returns true if the operation has a cursor and a wait, so it can be streamed.
pub(super) fn follows(fields: &Fields) -> bool {
    fields.get("cursor") == Some(&Kind::Text) && fields.get("wait") == Some(&Kind::Number)
}

pub(super) fn router() -> Router {
    let mut router = Router::new();
    for route in routes() {
        let serve = move |request: Request<Body>| operation::serve(route, request);
        router = router.route(&route.path, on(filter(route.method), serve));
    }
    legacy_dashboard::add(mcp::add(pages::add(router)))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_that_way)
}

pub(super) fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Delete => MethodFilter::DELETE,
    }
}

async fn nothing_here(request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    let error = OpError::new(Code::NotFound, format!("no route matches {path}"));
    Refusal::from(error.help("/openapi.json lists all paths")).into()
}

async fn not_that_way(method: HttpMethod, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path();
    let error = OpError::bad_input(format!("{path} does not support {method}"));
    Refusal::with(
        StatusCode::METHOD_NOT_ALLOWED,
        error.help("the header 'Allow' lists the supported methods"),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_a_route_and_no_route_is_two() {
        let mut seen = BTreeSet::new();
        for route in routes() {
            assert!(seen.insert((route.method.as_str(), &route.path)), "{} twice", route.path);
            if let Some(field) = route.fills {
                assert!(route.fields.contains_key(field), "{}: no field {field}", route.path);
                assert!(route.path.contains('{'), "{} has nothing to fill it with", route.path);
            }
            assert_eq!(route.path.contains('{'), route.fills.is_some(), "{}", route.path);
        }
        for entry in TABLE {
            let path = format!("{API}/{}", entry.meta.name.replace('.', "/"));
            assert!(seen.contains(&("POST", &path)), "{path}");
        }
        // A duplicate path panics here.
        drop(router());
    }

    #[test]
    fn nothing_is_changed_by_a_get() {
        for route in routes() {
            let reads = route.entry.meta.effect == Effect::Read;
            assert!(reads || route.method != Method::Get, "{} changes something", route.path);
        }
    }
}
