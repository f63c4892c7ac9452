//! Errors over HTTP: problem details (RFC 9457) with a stable code, each with its page in `docs/errors`.

mod convert;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Where the codes are explained; the code follows.
pub const DOCS: &str = "/docs/errors/";

macro_rules! codes {
    ($($name:ident = $code:literal, $status:ident, $title:literal;)*) => {
        /// What went wrong, in one word that programs can rely on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $code,)*
                }
            }

            pub const fn status(self) -> StatusCode {
                match self {
                    $(Code::$name => StatusCode::$status,)*
                }
            }

            pub const fn title(self) -> &'static str {
                match self {
                    $(Code::$name => $title,)*
                }
            }
        }
    };
}

codes! {
    BadRequest = "bad_request", BAD_REQUEST, "The request is not what this route takes";
    MalformedJson = "malformed_json", BAD_REQUEST, "The body is not JSON";
    BadCursor = "bad_cursor", BAD_REQUEST, "The cursor is none of this log or list";
    BadKey = "bad_key", BAD_REQUEST, "A key can't be used";
    IdempotencyKeyConflict = "idempotency_key_conflict", BAD_REQUEST, "Two different idempotency keys";
    BadDispatch = "bad_dispatch", BAD_REQUEST, "The dispatch is not one for this host";
    BadDispatchToken = "bad_dispatch_token", UNAUTHORIZED, "The dispatch's token is not good";
    Unauthorized = "unauthorized", UNAUTHORIZED, "No credential, or a bad one";
    Forbidden = "forbidden", FORBIDDEN, "The credential lacks a scope";
    RunNotFound = "run_not_found", NOT_FOUND, "There is no such run";
    QuestionNotFound = "question_not_found", NOT_FOUND, "The run has not asked this";
    RouteNotFound = "route_not_found", NOT_FOUND, "There is nothing at this path";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "This path doesn't take this method";
    ThreadBusy = "thread_busy", CONFLICT, "The thread has a live run";
    NothingToRetry = "nothing_to_retry", CONFLICT, "Nothing remains that could be run again";
    NotRetryable = "not_retryable", CONFLICT, "The agent's runs can't be retried";
    NotInline = "not_inline", CONFLICT, "The run is not carried in its client's requests";
    AlreadyAnswered = "already_answered", CONFLICT, "The question is settled";
    RunConflict = "run_conflict", CONFLICT, "The run's state doesn't allow this";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    InputTooLarge = "input_too_large", PAYLOAD_TOO_LARGE, "The input is too large";
    AnswerTooLarge = "answer_too_large", PAYLOAD_TOO_LARGE, "The answer is too large";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is of a type that isn't taken";
    UnknownAgent = "unknown_agent", UNPROCESSABLE_ENTITY, "There is no such agent";
    AnswerRefused = "answer_refused", UNPROCESSABLE_ENTITY, "The question doesn't take this answer";
    BadEndTime = "bad_end_time", UNPROCESSABLE_ENTITY, "The end time can't be used";
    IdempotencyMismatch = "idempotency_mismatch", UNPROCESSABLE_ENTITY, "The idempotency key belongs to another request";
    CorruptRun = "corrupt_run", INTERNAL_SERVER_ERROR, "The run's stored data is damaged";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong here";
    NoReadTokens = "no_read_tokens", NOT_IMPLEMENTED, "This deployment gives out no read tokens";
    StoreUnavailable = "store_unavailable", SERVICE_UNAVAILABLE, "The store can't be reached";
    NewerSchema = "newer_schema", SERVICE_UNAVAILABLE, "The run was written by a later version";
}

impl Code {
    /// What is said where there is nothing particular to say.
    const fn usual_detail(self) -> &'static str {
        match self {
            Code::Unauthorized => "send a credential that is good for this deployment",
            Code::RunNotFound => "no run of yours has this id, or it was kept for its time and is gone",
            Code::RouteNotFound => "there is nothing at this path; the API begins at /api/v1/runs",
            Code::StoreUnavailable => "the store did not answer in time; try again shortly",
            Code::CorruptRun => "what is stored of this run can't be right; it is left as it is",
            Code::NewerSchema => "a later version of this software wrote this run; this version leaves it alone",
            Code::Internal => "the request could not be served; the cause is in this deployment's logs",
            _ => self.title(),
        }
    }

    /// Seconds after which the same request may go well.
    const fn retry_after(self) -> Option<u16> {
        match self {
            Code::StoreUnavailable => Some(2),
            Code::NewerSchema => Some(30),
            _ => None,
        }
    }
}

/// An error as clients get it. Says nothing of what only this deployment's logs may know.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    details: Map<String, Value>,
    retry_after: Option<u16>,
}

impl Problem {
    /// With the detail that this code usually has.
    pub fn of(code: Code) -> Self {
        Self::new(code, code.usual_detail())
    }

    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            status: code.status(),
            code: code.as_str(),
            title: code.title(),
            detail: detail.into(),
            details: Map::new(),
            retry_after: code.retry_after(),
        }
    }

    /// One of an agent's own: of an input that it refuses.
    pub fn of_input(malformed: bool, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status: match malformed {
                true => StatusCode::BAD_REQUEST,
                false => StatusCode::UNPROCESSABLE_ENTITY,
            },
            code,
            title: "The agent can't run this input",
            detail: detail.into(),
            details: Map::new(),
            retry_after: None,
        }
    }

    /// With a fact that programs can read: a member of the problem, and of `error.details`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn about(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    error: Value,
    #[serde(flatten)]
    members: &'a Map<String, Value>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body {
            r#type: format!("{DOCS}{}", self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            error: json!({"code": self.code, "message": self.detail, "details": self.details}),
            members: &self.details,
        };
        // Strings and numbers: it serialises.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let length = body.len();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
