//! `POST /api/v1/runs`: a request becomes a run.
//!
//! 202 with its id and where to go on (an inline run's is held until its first chunk has closed); 200 if the same request came before under the same idempotency key, with
//! `repeated: true` and the run that it became then. To a client that prefers `text/event-stream`, the run's stream.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{HeaderMap, LOCATION};
use http::{HeaderValue, StatusCode};
use outlast_core::{AgentName, Executor, Owner, Payload, RunId, Status, ThreadKey, Timestamp};
use outlast_engine::accept::{AcceptedRun, NotAccepted, RunRequest, accept};
use outlast_engine::carry::Invocation as ChunkInvocation;
use outlast_engine::show::show;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Links, inline, internal};
use crate::cursor::Seen;
use crate::extract::{Body, Caller, Parameters, Via};
use crate::negotiate::{Sent, sent, wants_events};
use crate::plan_lines::{Pace, PlanLines, plan};
use crate::problem::{Code, Problem};
use crate::{Api, Invocation, observe, view};

/// The agent of a request that names none.
const DEFAULT_AGENT: &str = "plan";
/// A client's name for its request: the same as `turnId` in the body.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Which run a stream is of.
pub const RUN_ID: &str = "outlast-run-id";
/// Where that run's work happens, `inline` or `background`: whether its client has to continue it.
pub const EXECUTOR: &str = "outlast-executor";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartBody {
    agent: Option<String>,
    /// Kept as the text that came.
    input: Box<RawValue>,
    thread_id: Option<String>,
    turn_id: Option<String>,
    ends_at: Option<String>,
}

/// What goes with a plan as JSON Lines, whose body has no room for it.
#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlanParameters {
    agent: Option<String>,
    thread_id: Option<String>,
    turn_id: Option<String>,
    ends_at: Option<String>,
    concurrency: Option<String>,
    rate: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    run_id: RunId,
    status: Status,
    thread_id: ThreadKey,
    /// The request had come before.
    repeated: bool,
    links: Links,
}

pub(crate) async fn start(
    State(api): State<Arc<Api>>,
    Caller(owner): Caller,
    Via(invocation): Via,
    Parameters(parameters): Parameters<PlanParameters>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let reply = Reply::to(&api, &headers, invocation)?;
    let (asked, lines) = match sent(&headers)? {
        Sent::Json => (from_json(body.text()?, parameters)?, None),
        Sent::JsonLines => {
            let (asked, lines) = from_lines(body.text()?, parameters)?;
            (asked, Some(lines))
        }
    };
    let request = asked.into_request(&api, owner.clone(), &headers)?;
    let accepted = accept(&api.engine, request).await;
    let accepted = accepted.map_err(|error| not_accepted(error, lines.as_ref(), &api))?;
    reply.with(&api, &owner, accepted).await
}

/// The answer to whoever makes a run: its stream, or where it is to be found. Made before anything is stored, so that what is
/// wrong with it is said by then.
pub(super) struct Reply {
    wants_events: bool,
    seen: Seen,
    invocation: Invocation,
    /// Its time counts from the request: storing the run may take long, and what stands in front of us waits no longer
    /// for that.
    chunk: ChunkInvocation,
}

impl Reply {
    pub(super) fn to(api: &Api, headers: &HeaderMap, invocation: Invocation) -> Result<Self, Problem> {
        Ok(Self {
            wants_events: wants_events(headers),
            seen: Seen::asked(None, headers)?,
            invocation,
            chunk: internal::chunk(api, invocation),
        })
    }

    pub(super) async fn with(self, api: &Api, owner: &Owner, accepted: AcceptedRun) -> Result<Response, Problem> {
        let mut run = accepted.run;
        observe::is_about(&run.id);
        // Of a run that is new nobody has seen anything, whatever a client remembers.
        let seen = if accepted.repeated { self.seen } else { Seen::default() };
        let executor = HeaderValue::from_static(run.executor.as_str());
        let links = Links::of(api, &run);
        let location = HeaderValue::try_from(&links.run).map_err(|_| Problem::of(Code::Internal))?;
        let run_id = HeaderValue::try_from(run.id.as_str()).map_err(|_| Problem::of(Code::Internal))?;
        let underway = match run.executor {
            Executor::Inline => {
                inline::in_the_log(api, owner, &run.id, seen).await?;
                inline::begin_first(api, &run, self.chunk)
            }
            Executor::Background | Executor::External => None,
        };
        let mut response = if self.wants_events {
            inline::stream(api, owner, &run.id, seen, self.invocation, underway).await?
        } else {
            // Held until the chunk has closed; what became of the run by then.
            if let Some(underway) = underway {
                inline::closed(underway).await;
                run = show(&api.engine, owner, &run.id).await?.run;
            }
            let status = match accepted.repeated {
                true => StatusCode::OK,
                false => StatusCode::ACCEPTED,
            };
            let started = Started {
                run_id: run.id,
                status: run.status,
                thread_id: run.thread,
                repeated: accepted.repeated,
                links,
            };
            (status, Json(started)).into_response()
        };
        response.headers_mut().insert(LOCATION, location);
        response.headers_mut().insert(RUN_ID, run_id);
        response.headers_mut().insert(EXECUTOR, executor);
        Ok(response)
    }
}

/// A request as it was asked for, in whichever form.
struct Asked {
    agent: Option<String>,
    input: Payload,
    thread: Option<String>,
    turn: Option<String>,
    ends_at: Option<String>,
}

fn from_json(text: &str, parameters: PlanParameters) -> Result<Asked, Problem> {
    if parameters != PlanParameters::default() {
        return Err(Problem::new(
            Code::BadRequest,
            "parameters in the query go with a plan as JSON Lines; put them into the JSON body",
        ));
    }
    let body: StartBody = serde_json::from_str(text).map_err(bad_body)?;
    Ok(Asked {
        agent: body.agent,
        input: Payload::parse(body.input.get()).map_err(bad_body)?,
        thread: body.thread_id,
        turn: body.turn_id,
        ends_at: body.ends_at,
    })
}

fn from_lines(text: &str, parameters: PlanParameters) -> Result<(Asked, PlanLines), Problem> {
    let pace = Pace {
        concurrency: parameters.concurrency.as_deref(),
        rate: parameters.rate.as_deref(),
    };
    let lines = plan(text, pace)?;
    let asked = Asked {
        agent: parameters.agent,
        input: lines.input.clone(),
        thread: parameters.thread_id,
        turn: parameters.turn_id,
        ends_at: parameters.ends_at,
    };
    Ok((asked, lines))
}

/// A body that may be left out.
pub(super) fn optional<T: Default + DeserializeOwned>(body: &Body, headers: &HeaderMap) -> Result<T, Problem> {
    let text = body.text()?;
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    match sent(headers)? {
        Sent::Json => serde_json::from_str(text).map_err(bad_body),
        Sent::JsonLines => Err(Problem::new(Code::UnsupportedMediaType, "this route takes JSON")),
    }
}

/// The body's own fault, and where in it.
pub(super) fn bad_body(error: serde_json::Error) -> Problem {
    let code = match error.classify() {
        serde_json::error::Category::Data => Code::BadRequest,
        _ => Code::MalformedJson,
    };
    Problem::new(code, format!("the body can't be used: {error}"))
        .with("line", error.line())
        .with("column", error.column())
}

impl Asked {
    fn into_request(self, api: &Api, owner: Owner, headers: &HeaderMap) -> Result<RunRequest, Problem> {
        Ok(RunRequest {
            owner,
            agent: agent(api, self.agent)?,
            input: self.input,
            thread: self.thread,
            turn: one_key(self.turn, headers)?,
            ends_at: self.ends_at.as_deref().map(end).transpose()?,
            retry: None,
        })
    }
}

fn agent(api: &Api, asked: Option<String>) -> Result<AgentName, Problem> {
    if let Some(name) = asked {
        return Ok(AgentName::new(name));
    }
    let name = AgentName::new(DEFAULT_AGENT);
    match api.engine.agents().get(&name) {
        Some(_) => Ok(name),
        None => Err(Problem::new(
            Code::BadRequest,
            "`agent` is missing, and this deployment has no agent named `plan`",
        )
        .with("agents", agents(api))),
    }
}

fn agents(api: &Api) -> Vec<&str> {
    api.engine.agents().names().collect()
}

/// `Idempotency-Key` and `turnId` are one thing in two places.
pub(super) fn one_key(turn: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut header = None;
    for value in headers.get_all(IDEMPOTENCY_KEY) {
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| Problem::new(Code::BadKey, "`Idempotency-Key` is not UTF-8").with("field", IDEMPOTENCY_KEY))?;
        let key = unquoted(text).to_owned();
        if header.as_ref().is_some_and(|other| *other != key) {
            return Err(two_keys("two different `Idempotency-Key` headers"));
        }
        header = Some(key);
    }
    match (turn, header) {
        (Some(turn), Some(header)) if turn != header => Err(two_keys(
            "`turnId` and `Idempotency-Key` are two names of one thing, and differ",
        )),
        (turn, header) => Ok(turn.or(header)),
    }
}

fn two_keys(detail: &str) -> Problem {
    Problem::new(Code::IdempotencyKeyConflict, detail)
}

/// The header may be a structured field, whose strings stand in quotes.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(text)
}

fn end(text: &str) -> Result<Timestamp, Problem> {
    view::parse_rfc3339(text).map_err(|_| {
        let detail = format!("`endsAt` has to be a time such as `2030-01-31T12:00:00Z`, not `{text}`");
        Problem::new(Code::BadRequest, detail).with("field", "endsAt")
    })
}

fn not_accepted(error: NotAccepted, lines: Option<&PlanLines>, api: &Api) -> Problem {
    match &error {
        NotAccepted::BadInput(bad) => match lines.and_then(|lines| lines.line_of(bad)) {
            Some(line) => {
                let detail = format!("line {line}: {}", bad.message);
                Problem::from(error).about(detail).with("line", line)
            }
            None => error.into(),
        },
        NotAccepted::UnknownAgent(_) => Problem::from(error).with("agents", agents(api)),
        _ => error.into(),
    }
}
