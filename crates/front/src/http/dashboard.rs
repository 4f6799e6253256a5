//! `/dashboard/api/…`.

use axum::Router;

pub(super) fn add(router: Router) -> Router {
    router
}
