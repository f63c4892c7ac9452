//! What a deployment is configured to do: a pure reading of environment variables. Whatever is wrong is said at once and
//! in full, with what to do; a function that is configured wrongly does not start.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use axum::http::Uri;
use outlast_core::dispatch_token::{DispatchKeys, MIN_SECRET_BYTES};
use outlast_core::env_vars::{self as vars, Variable};
use outlast_core::limits::Timing;
use outlast_core::time_budget::HostKind;
use outlast_store::schema::TableNames;
use secrecy::{ExposeSecret as _, SecretString};

use crate::local_dynamodb::is_loopback;
use crate::{orderings, telemetry};

/// The variables of the AWS SDK that say where the tables are, the first one first.
const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"];
/// Makes the SDK ignore them.
const IGNORE_ENDPOINTS: &str = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS";

/// All of it, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub tables: TableNames,
    pub dispatch: Dispatch,
    pub timing: Timing,
    pub identity: Identity,
    /// Sign what lets a browser read one run: the keys of the dispatch, or, where nothing is dispatched, the same secret if
    /// it is set all the same.
    pub read_tokens: Option<DispatchKeys>,
    pub base_path: String,
    pub log: Option<String>,
    foreground_soft_cap: Option<Duration>,
    background_soft_cap: Option<Duration>,
}

/// How work leaves the request.
#[derive(Clone, Debug)]
pub enum Dispatch {
    /// It doesn't: runs are inline.
    None,
    /// `Invoke` of the background function of this name. `None`: of this function itself, which chains its own chunks.
    Lambda {
        background: Option<String>,
        keys: DispatchKeys,
    },
    /// A POST to a function's URL.
    Http { url: Uri, to: HostKind, keys: DispatchKeys },
}

impl Dispatch {
    /// Who carries what this host dispatches.
    pub fn to(&self, host: HostKind) -> Option<HostKind> {
        match self {
            Dispatch::None => None,
            Dispatch::Lambda {
                background: Some(_), ..
            } => Some(HostKind::Background),
            Dispatch::Lambda { background: None, .. } => Some(host),
            Dispatch::Http { to, .. } => Some(*to),
        }
    }
}

/// Who callers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    None,
    /// Whoever brings a key of the deployment.
    ApiKey,
}

impl Settings {
    /// Of this process's environment.
    pub fn from_env() -> Result<Self, WrongSettings> {
        // What is not UTF-8 is no value of ours: such a variable counts as not set.
        let utf8 =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::read(&utf8.collect())
    }

    /// Of these variables. The error holds everything that is wrong, not the first thing only.
    pub fn read(environment: &BTreeMap<String, String>) -> Result<Self, WrongSettings> {
        let mut from = Reader {
            environment,
            problems: Vec::new(),
        };
        let settings = from.settings();
        match settings {
            Some(settings) if from.problems.is_empty() => Ok(settings),
            _ => Err(WrongSettings(from.problems)),
        }
    }

    /// As configured. A host lowers its own with it.
    pub fn soft_cap(&self, host: HostKind) -> Option<Duration> {
        match host {
            HostKind::Foreground => self.foreground_soft_cap,
            HostKind::Background => self.background_soft_cap,
        }
    }
}

/// All that is wrong, a line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WrongSettings(Vec<String>);

impl fmt::Display for WrongSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration is wrong:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

struct Reader<'a> {
    environment: &'a BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// `None` only if a problem was noted. Each is looked for, whatever was found before it.
    fn settings(&mut self) -> Option<Settings> {
        let tables = TableNames {
            runs: self.text_or_default(&vars::RUNS_TABLE),
            events: self.text_or_default(&vars::EVENTS_TABLE),
        };
        if tables.runs == tables.events {
            let (runs, events) = (vars::RUNS_TABLE.name, vars::EVENTS_TABLE.name);
            self.problem(format!(
                "{runs} and {events} are both `{}`: they name two tables.",
                tables.runs
            ));
        }
        let dispatch = self.dispatch();
        let read_tokens = self.read_tokens(dispatch.as_ref());
        let identity = self.identity();
        let settings = Settings {
            foreground_soft_cap: self.seconds(&vars::FOREGROUND_SOFT_CAP, 1.0, f64::from(u32::MAX)),
            background_soft_cap: self.seconds(&vars::BACKGROUND_SOFT_CAP, 1.0, f64::from(u32::MAX)),
            timing: self.timing(),
            base_path: self.base_path(),
            log: self.log(),
            tables,
            dispatch: dispatch?,
            identity: identity?,
            read_tokens,
        };
        self.problems.extend(orderings::broken(&settings));
        Some(settings)
    }

    fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Set to nothing is not set.
    fn raw(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn text_or_default(&self, variable: &Variable) -> String {
        self.raw(variable.name)
            .or(variable.default)
            .unwrap_or_default()
            .to_owned()
    }

    fn dispatch(&mut self) -> Option<Dispatch> {
        let name = vars::DISPATCH.name;
        let background = self.raw(vars::BACKGROUND_FUNCTION.name).map(str::to_owned);
        match self.raw(name).map(str::to_owned).as_deref() {
            // A deployment that has a background function says so; one that has none need not say that.
            None if background.is_none() => {
                self.no_url();
                Some(Dispatch::None)
            }
            None | Some("lambda") => Some(Dispatch::Lambda {
                keys: self.dispatch_keys()?,
                background,
            }),
            Some("none") => {
                if background.is_some() {
                    self.problem(format!(
                        "{name} is `none`, and {} names a background function, which would never be used: leave one of \
                         them out.",
                        vars::BACKGROUND_FUNCTION.name
                    ));
                }
                self.no_url();
                Some(Dispatch::None)
            }
            Some("http") => {
                let keys = self.dispatch_keys();
                let (url, to) = self.dispatch_url()?;
                Some(Dispatch::Http { url, to, keys: keys? })
            }
            Some(other) => {
                self.problem(format!(
                    "{name} is `{other}`: set it to `none`, `lambda` or `http`, or leave it out."
                ));
                None
            }
        }
    }

    fn read_tokens(&mut self, dispatch: Option<&Dispatch>) -> Option<DispatchKeys> {
        match dispatch? {
            Dispatch::Lambda { keys, .. } | Dispatch::Http { keys, .. } => Some(keys.clone()),
            Dispatch::None => {
                self.raw(vars::DISPATCH_SECRET.name)?;
                self.dispatch_keys()
            }
        }
    }

    /// Where runs are inline a URL would never be used: whoever set it wanted something else.
    fn no_url(&mut self) {
        for url in [vars::BACKGROUND_URL.name, vars::FOREGROUND_URL.name] {
            if self.raw(url).is_some() {
                let dispatch = vars::DISPATCH.name;
                self.problem(format!(
                    "{url} is set, and nothing would be posted to it: set {dispatch} to `http`, or leave {url} out."
                ));
            }
        }
    }

    fn dispatch_url(&mut self) -> Option<(Uri, HostKind)> {
        let urls = [
            (&vars::BACKGROUND_URL, HostKind::Background),
            (&vars::FOREGROUND_URL, HostKind::Foreground),
        ];
        if urls.iter().all(|(variable, _)| self.raw(variable.name).is_some()) {
            self.problem(format!(
                "{} and {} are both set: chunks go to the background function, or are chained through the foreground \
                 function. Leave one of them out.",
                vars::BACKGROUND_URL.name,
                vars::FOREGROUND_URL.name
            ));
        }
        let set = urls
            .into_iter()
            .find_map(|(variable, to)| Some((variable, self.raw(variable.name)?.to_owned(), to)));
        let Some((variable, text, to)) = set else {
            self.problem(format!(
                "{} is `http`, and neither {} nor {} is set: give the first the URL of the background function; or the \
                 second that of this function, which then chains its own chunks.",
                vars::DISPATCH.name,
                vars::BACKGROUND_URL.name,
                vars::FOREGROUND_URL.name
            ));
            return None;
        };
        let url = text.trim_end_matches('/').parse::<Uri>().ok().filter(|url| {
            let is_http = matches!(url.scheme_str(), Some("http" | "https"));
            is_http && url.host().is_some_and(|host| !host.is_empty()) && url.query().is_none()
        });
        if url.is_none() {
            self.problem(format!(
                "{} is `{text}`: write it like `https://host/path`, without a query.",
                variable.name
            ));
        }
        Some((url?, to))
    }

    fn dispatch_keys(&mut self) -> Option<DispatchKeys> {
        let current = self.secret(&vars::DISPATCH_SECRET);
        let previous = self.secret(&vars::DISPATCH_SECRET_PREVIOUS);
        let Some(current) = current else {
            self.problem(format!(
                "{} is not set: give all functions of the deployment the same {MIN_SECRET_BYTES} random bytes or more, \
                 such as `openssl rand -hex 32` prints.",
                vars::DISPATCH_SECRET.name
            ));
            return None;
        };
        DispatchKeys::new(current, previous).ok()
    }

    /// One that is too short is noted by its length.
    fn secret(&mut self, variable: &Variable) -> Option<SecretString> {
        let secret = SecretString::from(self.raw(variable.name)?);
        let bytes = secret.expose_secret().len();
        if bytes < MIN_SECRET_BYTES {
            self.problem(format!(
                "{} has {bytes} bytes: a secret needs at least {MIN_SECRET_BYTES}. Make one, for example with \
                 `openssl rand -hex 32`.",
                variable.name
            ));
        }
        Some(secret)
    }

    fn timing(&mut self) -> Timing {
        let default = Timing::LAMBDA;
        Timing {
            lease: self.seconds(&vars::LEASE, 1.0, 60.0).unwrap_or(default.lease),
            beat: self.seconds(&vars::BEAT, 0.05, 20.0).unwrap_or(default.beat),
            redispatch_after: self
                .seconds(&vars::REDISPATCH_AFTER, 0.05, 60.0)
                .unwrap_or(default.redispatch_after),
        }
    }

    fn seconds(&mut self, variable: &Variable, least: f64, most: f64) -> Option<Duration> {
        let raw = self.raw(variable.name)?.to_owned();
        let seconds = raw
            .parse::<f64>()
            .ok()
            .filter(|seconds| (least..=most).contains(seconds));
        if seconds.is_none() {
            let unit = variable.unit.unwrap_or("seconds");
            self.problem(format!(
                "{} is `{raw}`: give it a number of {unit}, or leave it out.",
                variable.name
            ));
        }
        seconds.map(Duration::from_secs_f64)
    }

    fn identity(&mut self) -> Option<Identity> {
        let name = vars::IDENTITY.name;
        match self.raw(name).map(str::to_owned).as_deref() {
            Some("api_key") => Some(Identity::ApiKey),
            Some("none") => {
                if let Some(problem) = self.tables_not_on_loopback() {
                    self.problem(format!(
                        "{name} is `none`, which lets everyone in: it is for tables on loopback only, and {problem}. Set \
                         it to `api_key`."
                    ));
                }
                Some(Identity::None)
            }
            set => {
                let found = set.map_or("is not set".to_owned(), |set| format!("is `{set}`"));
                self.problem(format!(
                    "{name} {found}: nobody would know whose runs are whose. Set it to `api_key`, and make keys with \
                     `outlast keys add`; or to `none`, for tables on loopback."
                ));
                None
            }
        }
    }

    fn tables_not_on_loopback(&self) -> Option<String> {
        let is_true = |value: &str| value.eq_ignore_ascii_case("true");
        if self.raw(IGNORE_ENDPOINTS).is_some_and(is_true) {
            return Some(format!("{IGNORE_ENDPOINTS} makes the SDK look for them in AWS"));
        }
        let set = ENDPOINTS.iter().find_map(|name| Some((name, self.raw(name)?)));
        match set {
            None => Some(format!("without {} they are in AWS", ENDPOINTS[0])),
            Some((_, endpoint)) if is_loopback(endpoint) => None,
            Some((name, _)) => Some(format!("{name} is not a loopback address")),
        }
    }

    fn base_path(&mut self) -> String {
        let path = self.text_or_default(&vars::BASE_PATH);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~/".contains(c);
        let is_base = path.is_empty()
            || path.starts_with('/') && !path.ends_with('/') && !path.contains("//") && path.chars().all(plain);
        if !is_base {
            self.problem(format!(
                "{} is `{path}`: write it like `/agents`, from a slash on, with none at its end; letters, digits and \
                 `-_.~` between them.",
                vars::BASE_PATH.name
            ));
        }
        path
    }

    fn log(&mut self) -> Option<String> {
        let filter = self.raw(vars::LOG.name)?.to_owned();
        if let Err(error) = telemetry::check_filter(&filter) {
            self.problem(format!(
                "{} is `{filter}`: {error}. Write it like `info` or `info,outlast_engine=debug`.",
                vars::LOG.name
            ));
        }
        Some(filter)
    }
}

#[cfg(test)]
mod tests;
