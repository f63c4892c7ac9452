//! `POST /api/v1/runs/{id}/answers/{key}`: settles a question that a run has asked.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use http::HeaderMap;
use http::request::Parts;
use outlast_core::outcome::ErrorInfo;
use outlast_core::{Payload, RunId};
use outlast_engine::answer::{Answer, answer};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::start::bad_body;
use crate::extract::{Body, Caller};
use crate::negotiate::{Sent, sent};
use crate::problem::{Code, Problem};
use crate::view::RunJson;
use crate::{Api, observe};

/// The longest type of an error.
const MAX_TYPE_BYTES: usize = 100;

/// The run and the question that the path names. A key's slashes may stand in it as they are.
pub(crate) struct QuestionPath {
    run: RunId,
    key: String,
}

impl FromRequestParts<Arc<Api>> for QuestionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, api).await.ok();
        let named = path.and_then(|Path((id, key))| Some((RunId::parse(&id)?, key)));
        let (run, key) = named.ok_or_else(|| Problem::of(Code::RunNotFound))?;
        observe::is_about(&run);
        Ok(QuestionPath { run, key })
    }
}

/// One of the two. A value may be null.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default, deserialize_with = "also_null")]
    value: Option<Box<RawValue>>,
    error: Option<GivenError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenError {
    r#type: String,
    message: String,
}

fn also_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// 200 with the run once the answer is its question's, for good.
pub(crate) async fn answer_question(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    path: QuestionPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<RunJson>, Problem> {
    let given = given(&body, &headers)?;
    let run = answer(&api.engine, &owner, &path.run, &path.key, given).await?;
    Ok(Json(RunJson::of(run)))
}

fn given(body: &Body, headers: &HeaderMap) -> Result<Answer, Problem> {
    let text = body.text()?;
    match sent(headers)? {
        Sent::Json => {}
        Sent::JsonLines => return Err(Problem::new(Code::UnsupportedMediaType, "this route takes JSON")),
    }
    let bad = |detail: &str| Err(Problem::new(Code::BadRequest, detail));
    let given: Given = serde_json::from_str(text).map_err(bad_body)?;
    match given {
        Given {
            value: Some(value),
            error: None,
        } => match Payload::parse(value.get()) {
            Ok(value) => Ok(Answer::Value(value)),
            Err(error) => Err(bad_body(error)),
        },
        Given {
            value: None,
            error: Some(error),
        } if !error.r#type.is_empty() && error.r#type.len() <= MAX_TYPE_BYTES => {
            Ok(Answer::Error(ErrorInfo::new(error.r#type, error.message)))
        }
        Given {
            value: None,
            error: Some(_),
        } => bad("`error.type` has to be one word that programs can match"),
        Given { .. } => bad(r#"the body has to be {"value": …} or {"error": {"type": …, "message": …}}"#),
    }
}
