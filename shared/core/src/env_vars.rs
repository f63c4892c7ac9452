//! Every environment variable that functions read, and the only place that spells their names: `runtime` reads them, and
//! `deploy-builder` says which a function needs.

/// A variable, as a person who sets it must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    /// What is assumed without it. `None`: it must be set, or nothing is assumed; `meaning` says which.
    pub default: Option<&'static str>,
    pub unit: Option<&'static str>,
    pub meaning: &'static str,
    /// Its value is never printed.
    pub secret: bool,
}

/// What is logged without a filter: our own progress, and of libraries only what is wrong.
pub const DEFAULT_LOG: &str = "info,aws_config=warn,aws_smithy_runtime=warn,hyper=warn,lambda_runtime=warn";

const PLAIN: Variable = Variable {
    name: "",
    default: None,
    unit: None,
    meaning: "",
    secret: false,
};

pub const RUNS_TABLE: Variable = Variable {
    name: "OUTLAST_RUNS_TABLE",
    default: Some("outlast-runs"),
    meaning: "The DynamoDB table of runs, threads, idempotency keys and API keys.",
    ..PLAIN
};

pub const EVENTS_TABLE: Variable = Variable {
    name: "OUTLAST_EVENTS_TABLE",
    default: Some("outlast-events"),
    meaning: "The DynamoDB table of event logs.",
    ..PLAIN
};

pub const DISPATCH: Variable = Variable {
    name: "OUTLAST_DISPATCH",
    meaning: "How work leaves the request: `none` carries a run inline, in the requests of its client; `lambda` invokes \
              a function asynchronously; `http` posts to a URL. Without it: `lambda` where a background function is \
              named, `none` where not.",
    ..PLAIN
};

pub const BACKGROUND_FUNCTION: Variable = Variable {
    name: "OUTLAST_BACKGROUND_FUNCTION",
    meaning: "Under `lambda` dispatch: the name of the background function, with its alias if it has one. Without it a \
              function invokes itself: the background goes on in the background, and a foreground that has none chains \
              its chunks.",
    ..PLAIN
};

pub const BACKGROUND_URL: Variable = Variable {
    name: "OUTLAST_BACKGROUND_URL",
    meaning: "Under `http` dispatch: where the background function is reached, without the base path.",
    ..PLAIN
};

pub const FOREGROUND_URL: Variable = Variable {
    name: "OUTLAST_FOREGROUND_URL",
    meaning: "Under `http` dispatch without a background function: where the foreground function reaches itself, without \
              the base path; chunks are chained through it.",
    ..PLAIN
};

pub const DISPATCH_SECRET: Variable = Variable {
    name: "OUTLAST_DISPATCH_SECRET",
    unit: Some("at least 32 bytes"),
    meaning: "Signs dispatches, and the tokens with which a browser reads one run. The same for all functions of a \
              deployment. Must be set, except where nothing is dispatched; there it is for those tokens alone.",
    secret: true,
    ..PLAIN
};

pub const DISPATCH_SECRET_PREVIOUS: Variable = Variable {
    name: "OUTLAST_DISPATCH_SECRET_PREVIOUS",
    unit: Some("at least 32 bytes"),
    meaning: "While secrets are rotated: the one before, which is still accepted and no longer signs.",
    secret: true,
    ..PLAIN
};

pub const FOREGROUND_SOFT_CAP: Variable = Variable {
    name: "OUTLAST_FOREGROUND_SOFT_CAP",
    default: Some("40"),
    unit: Some("seconds, from 1"),
    meaning: "How long a foreground invocation works or streams before it hands off. It lowers the default and never \
              raises it.",
    ..PLAIN
};

pub const BACKGROUND_SOFT_CAP: Variable = Variable {
    name: "OUTLAST_BACKGROUND_SOFT_CAP",
    default: Some("780"),
    unit: Some("seconds, from 1"),
    meaning: "How long a background invocation works before it hands off. It lowers the default and never raises it.",
    ..PLAIN
};

pub const IDENTITY: Variable = Variable {
    name: "OUTLAST_IDENTITY",
    meaning: "Who callers are: `api_key` asks for a key that `outlast keys add` has made; `none` takes everyone for the \
              owner `local`, and is refused unless the tables are on loopback. Must be set.",
    ..PLAIN
};

pub const BASE_PATH: Variable = Variable {
    name: "OUTLAST_BASE_PATH",
    default: Some(""),
    meaning: "What every route begins with, such as `/agents`; without a slash at its end.",
    ..PLAIN
};

pub const LOG: Variable = Variable {
    name: "OUTLAST_LOG",
    default: Some(DEFAULT_LOG),
    meaning: "What is logged, as `level` or `crate=level`, separated by commas.",
    ..PLAIN
};

pub const LEASE: Variable = Variable {
    name: "OUTLAST_LEASE",
    default: Some("30"),
    unit: Some("seconds, from 1 to 60"),
    meaning: "For tests and emulators: how long a holder's lease lasts without a heartbeat.",
    ..PLAIN
};

pub const BEAT: Variable = Variable {
    name: "OUTLAST_BEAT",
    default: Some("5"),
    unit: Some("seconds, from 0.05 to 20"),
    meaning: "For tests and emulators: the time between heartbeats. Three of it must be less than a lease.",
    ..PLAIN
};

pub const REDISPATCH_AFTER: Variable = Variable {
    name: "OUTLAST_REDISPATCH_AFTER",
    default: Some("60"),
    unit: Some("seconds, from 0.05 to 60"),
    meaning: "For tests and emulators: how long a dispatch, or an inline run, may go without a claim before the sweep looks \
              after it.",
    ..PLAIN
};

/// All of them, in the order in which the documentation lists them.
pub const ALL: [Variable; 16] = [
    RUNS_TABLE,
    EVENTS_TABLE,
    DISPATCH,
    BACKGROUND_FUNCTION,
    BACKGROUND_URL,
    FOREGROUND_URL,
    DISPATCH_SECRET,
    DISPATCH_SECRET_PREVIOUS,
    FOREGROUND_SOFT_CAP,
    BACKGROUND_SOFT_CAP,
    IDENTITY,
    BASE_PATH,
    LOG,
    LEASE,
    BEAT,
    REDISPATCH_AFTER,
];

#[cfg(test)]
mod tests;
