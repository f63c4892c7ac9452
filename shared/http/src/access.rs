//! Stands in front of each route's handler: who calls, and may they? Before anything else of the request is looked at,
//! its body above all.

use std::sync::Arc;

use axum::extract::{FromRequestParts as _, Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use outlast_core::{Scope, Scopes, read_token};
use serde::Deserialize;

use crate::Api;
use crate::extract::RunPath;
use crate::identity::{Caller, NotIdentified};
use crate::problem::{Code, Problem};

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Scope(Scope),
    /// [`Scope::Read`], or a token for reading this one run in the query's `token`.
    ReadOrToken,
    /// That it is the deployment itself, which the route sees to.
    Nothing,
}

pub(crate) async fn admit(State((api, needs)): State<(Arc<Api>, Needs)>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match caller(&api, needs, &mut parts).await {
        Ok(Some(caller)) => {
            parts.extensions.insert(caller);
        }
        Ok(None) => {}
        Err(problem) => return problem.into_response(),
    }
    next.run(Request::from_parts(parts, body)).await
}

async fn caller(api: &Arc<Api>, needs: Needs, parts: &mut Parts) -> Result<Option<Caller>, Problem> {
    let scope = match needs {
        Needs::Nothing => return Ok(None),
        Needs::Scope(scope) => scope,
        Needs::ReadOrToken => Scope::Read,
    };
    // A token counts alone: a bad one isn't helped by a good key.
    let caller = match token(needs, parts)? {
        Some(token) => bearer_of(api, &token, parts).await?,
        None => api.identity.caller(&parts.headers).await?,
    };
    match caller.scopes.allow(scope) {
        true => Ok(Some(caller)),
        false => Err(Problem::new(
            Code::Forbidden,
            format!("this needs the scope `{scope}`, which the credential doesn't have"),
        )
        .with("scope", scope.as_str())),
    }
}

#[derive(Deserialize)]
struct TokenParameter {
    token: Option<String>,
}

fn token(needs: Needs, parts: &Parts) -> Result<Option<String>, Problem> {
    if needs != Needs::ReadOrToken {
        return Ok(None);
    }
    // Unreadable: two of them, for example.
    let query = Query::<TokenParameter>::try_from_uri(&parts.uri).map_err(|_| unauthorized())?;
    Ok(query.0.token)
}

async fn bearer_of(api: &Arc<Api>, token: &str, parts: &mut Parts) -> Result<Caller, Problem> {
    let RunPath(run) = RunPath::from_request_parts(parts, api)
        .await
        .map_err(|_| unauthorized())?;
    let keys = api.read_tokens.as_ref().ok_or_else(unauthorized)?;
    let owner = read_token::verify(keys, token, &run, api.engine.seams().now()).map_err(|error| {
        tracing::debug!(%error, "a read token was turned away");
        unauthorized()
    })?;
    Ok(Caller {
        owner,
        scopes: Scopes::only(Scope::Read),
    })
}

fn unauthorized() -> Problem {
    Problem::of(Code::Unauthorized)
}

impl From<NotIdentified> for Problem {
    fn from(error: NotIdentified) -> Self {
        match error {
            NotIdentified::NoGoodCredential => unauthorized(),
            NotIdentified::Store(error) => match Problem::from(error.clone()) {
                unavailable if unavailable.code() == Code::StoreUnavailable.as_str() => unavailable,
                // Codes that speak of a run would mislead.
                _ => {
                    tracing::error!(%error, "a credential can't be looked up");
                    Problem::of(Code::Internal)
                }
            },
        }
    }
}
