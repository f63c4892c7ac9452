//! The path that every route begins with. Gateways put their stage in front of a path once, twice or not at all,
//! depending on how a request came: all three are the same route.

use std::sync::Arc;

use axum::extract::{Request, State};
use http::Uri;
use http::uri::PathAndQuery;
use outlast_core::paths;

/// What our own paths begin with.
const OURS: [&str; 3] = ["/api/v1/", paths::PROCESS_RUN, paths::SWEEP];

/// With a leading slash and without a trailing one; empty if there is none.
pub(crate) fn normalised(base_path: &str) -> String {
    match base_path.trim_matches('/') {
        "" => String::new(),
        path => format!("/{path}"),
    }
}

pub(crate) async fn strip(State(base_path): State<Arc<str>>, mut request: Request) -> Request {
    if let Some(uri) = stripped(request.uri(), &base_path) {
        *request.uri_mut() = uri;
    }
    request
}

/// The URI without this in front of its path, however often it stands there; `None` if it doesn't, or if it is one of ours
/// that begins so. A gateway's stage is one such, which a host knows and a router doesn't.
pub fn stripped(uri: &Uri, base_path: &str) -> Option<Uri> {
    let rest = without(uri.path(), base_path);
    if rest == uri.path() {
        return None;
    }
    let path_and_query = match uri.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Uri::from_parts(parts).ok()
}

fn without<'a>(path: &'a str, base_path: &str) -> &'a str {
    let mut rest = path;
    while !base_path.is_empty() && !OURS.iter().any(|ours| rest.starts_with(ours)) {
        match rest.strip_prefix(base_path) {
            Some("") => return "/",
            Some(inner) if inner.starts_with('/') => rest = inner,
            _ => break,
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e13_a_stage_in_front_once_twice_or_not_at_all_is_one_route() {
        let check = |path: &str, base: &str, expected: &str| assert_eq!(without(path, base), expected, "{path}");
        check("/api/v1/runs", "/prod", "/api/v1/runs");
        check("/prod/api/v1/runs", "/prod", "/api/v1/runs");
        check("/prod/prod/api/v1/runs", "/prod", "/api/v1/runs");
        check("/prod/_sweep", "/prod", "/_sweep");
        check("/production/api/v1/runs", "/prod", "/production/api/v1/runs");
        check("/prod", "/prod", "/");
        check("/x", "", "/x");
        // One that looks like our own beginning.
        check("/api/api/v1/runs", "/api", "/api/v1/runs");
        check("/api/v1/runs", "/api", "/api/v1/runs");
    }

    #[test]
    fn the_query_stays() {
        let uri: Uri = "/prod/api/v1/runs?limit=2&after=a%20b".parse().unwrap();
        assert_eq!(
            stripped(&uri, "/prod").unwrap().to_string(),
            "/api/v1/runs?limit=2&after=a%20b"
        );
    }

    #[test]
    fn however_it_is_configured() {
        for spelled in ["prod", "/prod", "/prod/", "prod/"] {
            assert_eq!(normalised(spelled), "/prod");
        }
        assert_eq!(normalised("/"), "");
    }
}
