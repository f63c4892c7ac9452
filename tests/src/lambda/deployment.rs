//! Outlast, deployed: both functions, a database, a public URL.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use outlast_core::Timestamp;
use outlast_core::dispatch_token::{DispatchKeys, Purpose};
use outlast_core::env_vars as vars;
use outlast_core::limits::Timing;
use outlast_engine::dispatch::TOKEN_HEADER;
use outlast_engine::seams::Seams;
use outlast_runtime::internal_event::internal_event;
use outlast_store::dynamodb::create_tables;
use outlast_store::schema::TableNames;
use serde_json::Value;

use super::{Deadline, Failure, Function, Lambda, RecursiveLoop, Settings};
use crate::dev::program;
use crate::embedded::Embedded;
use crate::table_proxy::TableProxy;
use crate::wait::wait_until;

/// How long a test waits for what should take a second or two: everything else may run beside it.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the background leaves of its wall.
const BACKGROUND_MARGIN: Duration = Duration::from_secs(120);
/// Signs dispatches.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Where the work of a deployment's runs happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    #[default]
    Background,
    /// There is no background function: chunks are chained through the foreground.
    Chained,
    /// Nor is anything dispatched: the clients' requests carry their runs.
    Inline,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub work: Work,
    /// The programs, by name.
    pub foreground: &'static str,
    pub background: &'static str,
    pub background_timeout: Duration,
    pub background_deadline: Deadline,
    /// Lambda's own is 30 s: too long to wait for.
    pub timing: Timing,
    /// Of both functions.
    pub recursive_loop: RecursiveLoop,
    /// Variables besides, for both.
    pub variables: Vec<(&'static str, String)>,
    /// And for the background alone; the last one of a name counts.
    pub background_variables: Vec<(&'static str, String)>,
    /// Each function has a [`TableProxy`] between itself and the database.
    pub proxied: bool,
}

impl Options {
    /// With chunks in the background that end after `cap`. No setting says less than a second; a wall does.
    pub fn with_short_chunks(self, cap: Duration) -> Self {
        Self {
            background_timeout: BACKGROUND_MARGIN + cap,
            background_deadline: Deadline::True,
            ..self
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            work: Work::default(),
            foreground: "foreground",
            background: "background",
            background_timeout: Duration::from_secs(900),
            background_deadline: Deadline::True,
            timing: Timing::LOCAL,
            recursive_loop: RecursiveLoop::default(),
            variables: Vec::new(),
            background_variables: Vec::new(),
            proxied: false,
        }
    }
}

pub struct Deployment {
    pub lambda: Arc<Lambda>,
    pub foreground: Arc<Function>,
    /// Nothing names it, and so nothing invokes it, unless the work is in the background.
    pub background: Arc<Function>,
    options: Options,
    pub database: Arc<Embedded>,
    /// Of the foreground and the background.
    proxies: Option<[Arc<TableProxy>; 2]>,
    /// The public URL of the foreground.
    pub url: String,
    client: reqwest::Client,
}

impl Deployment {
    pub async fn start(options: Options) -> Deployment {
        let database = Embedded::start();
        let seams: Seams = outlast_runtime::seams::machine();
        create_tables(&database.client(), &TableNames::default(), &seams)
            .await
            .expect("tables");
        Self::on(Arc::new(database), options).await
    }

    /// Anew, on the same database.
    pub async fn redeployed(&self, work: Work) -> Deployment {
        let options = Options {
            work,
            ..self.options.clone()
        };
        Self::on(self.database.clone(), options).await
    }

    async fn on(database: Arc<Embedded>, options: Options) -> Deployment {
        let lambda = Lambda::start().await;
        let mut proxies = None;
        if options.proxied {
            let start = || TableProxy::start(database.endpoint());
            proxies = Some([start().await, start().await]);
        }
        let endpoints = match &proxies {
            Some(proxies) => proxies.each_ref().map(|proxy| proxy.endpoint().to_owned()),
            None => [database.endpoint(), database.endpoint()],
        };
        let [foreground_table, background_table] = endpoints;
        let function = |name: &str, program_name: &str, table: String, timeout, deadline| {
            lambda.deploy(Settings {
                name: name.to_owned(),
                program: program(program_name),
                environment: environment(name, &options, table, &lambda),
                timeout,
                deadline,
                recursive_loop: options.recursive_loop,
            })
        };
        let minute = Duration::from_secs(60);
        let foreground = function(
            "foreground",
            options.foreground,
            foreground_table,
            minute,
            Deadline::True,
        );
        let background = function(
            "background",
            options.background,
            background_table,
            options.background_timeout,
            options.background_deadline,
        );
        let url = lambda.url(&foreground).await;
        Deployment {
            lambda,
            foreground,
            background,
            options,
            database,
            proxies,
            url,
            client: reqwest::Client::new(),
        }
    }

    /// Between the foreground and the database, where there is one.
    pub fn foreground_proxy(&self) -> &TableProxy {
        &self.proxies.as_ref().expect("a proxied deployment")[0]
    }

    /// Between the background and the database, where there is one.
    pub fn background_proxy(&self) -> &TableProxy {
        &self.proxies.as_ref().expect("a proxied deployment")[1]
    }

    /// A table of the user's, with a text as its key.
    pub async fn make_table(&self, name: &str, key: &str) {
        let text = AttributeDefinition::builder()
            .attribute_name(key)
            .attribute_type(ScalarAttributeType::S);
        let hash = KeySchemaElement::builder().attribute_name(key).key_type(KeyType::Hash);
        let client = self.database.client();
        let make = client
            .create_table()
            .table_name(name)
            .attribute_definitions(text.build().expect("an attribute"))
            .key_schema(hash.build().expect("a key"))
            .billing_mode(BillingMode::PayPerRequest);
        make.send().await.expect("a table");
    }

    /// Starts a run of a plan; its id.
    pub async fn start_run(&self, plan: &Value) -> String {
        let body = serde_json::json!({ "agent": "plan", "input": plan });
        let (status, answer) = self.post("/api/v1/runs", &body).await;
        assert_eq!(status, 202, "{answer}");
        answer["runId"].as_str().expect("a run's id").to_owned()
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.url)).json(body);
        answer(request).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        let request = self.client.get(format!("{}{path}", self.url));
        answer(request.header("accept", "application/json")).await
    }

    pub async fn show(&self, run: &str) -> Value {
        let (status, shown) = self.get(&format!("/api/v1/runs/{run}")).await;
        assert_eq!(status, 200, "{shown}");
        shown
    }

    /// The log from its beginning.
    pub async fn log(&self, run: &str) -> Vec<Value> {
        let mut log = Vec::new();
        let mut after = 0;
        loop {
            let (status, read) = self.get(&format!("/api/v1/runs/{run}/events?after={after}")).await;
            assert_eq!(status, 200, "{read}");
            log.extend(read["events"].as_array().expect("events").iter().cloned());
            after = read["next"].as_u64().expect("a cursor");
            if read["more"] != true {
                return log;
            }
        }
    }

    /// Delivers an accepted event as it would be if it were this late: its token was signed that long ago.
    pub async fn deliver_late(&self, index: usize, late: Duration) -> Result<Value, Failure> {
        let event = self.lambda.events()[index].payload.clone();
        let mut event: Value = serde_json::from_slice(&event).expect("JSON");
        let keys = DispatchKeys::new(SECRET.to_owned().into(), None).expect("a long secret");
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let signed_at = Timestamp::from_millis((since_1970 - late).as_millis() as i64);
        let body = event["body"].as_str().expect("a body").as_bytes();
        event["headers"][TOKEN_HEADER] = keys.sign(Purpose::Dispatch, body, signed_at).into();
        self.lambda.deliver_as(index, event.to_string().into()).await
    }

    /// One tick of the schedule: what it did.
    pub async fn sweep(&self) -> Value {
        let event = internal_event("/_sweep", None, "").to_string();
        let scheduled = match self.options.work {
            Work::Background => &self.background,
            Work::Chained | Work::Inline => &self.foreground,
        };
        let answer = scheduled.invoke(event.into()).await.expect("a sweep");
        assert_eq!(answer.status, 200);
        answer.json().await
    }

    /// Waits until the run's log satisfies this; the log.
    pub async fn logged(&self, run: &str, what: &str, mut holds: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let mut log = Vec::new();
        wait_until(what, PATIENCE, async || {
            log = self.log(run).await;
            holds(&log)
        })
        .await;
        log
    }

    /// The same, with the schedule at work.
    pub async fn logged_with_sweeps(
        &self,
        run: &str,
        what: &str,
        mut holds: impl FnMut(&[Value]) -> bool,
    ) -> Vec<Value> {
        let mut log = Vec::new();
        wait_until(what, PATIENCE, async || {
            self.sweep().await;
            log = self.log(run).await;
            holds(&log)
        })
        .await;
        log
    }
}

/// What a log's events are, in order.
pub fn kinds(log: &[Value]) -> Vec<&str> {
    log.iter()
        .map(|event| event["type"].as_str().expect("a type"))
        .collect()
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let text = response.text().await.expect("a whole answer");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn environment(name: &str, options: &Options, table: String, lambda: &Lambda) -> Vec<(String, String)> {
    let seconds = |duration: Duration| duration.as_secs_f64().to_string();
    let timing = options.timing;
    let mut variables = vec![
        ("AWS_LAMBDA_FUNCTION_NAME", name.to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256".into()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".into()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}")),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "test".into()),
        ("AWS_REGION", "us-east-1".into()),
        ("AWS_ACCESS_KEY_ID", "test".into()),
        ("AWS_SECRET_ACCESS_KEY", "test".into()),
        ("AWS_ENDPOINT_URL_DYNAMODB", table),
        ("AWS_ENDPOINT_URL_LAMBDA", lambda.endpoint().to_owned()),
        (vars::IDENTITY.name, "none".into()),
        (vars::LEASE.name, seconds(timing.lease)),
        (vars::BEAT.name, seconds(timing.beat)),
        (vars::REDISPATCH_AFTER.name, seconds(timing.redispatch_after)),
    ];
    let secret = (vars::DISPATCH_SECRET.name, SECRET.into());
    variables.extend(match options.work {
        // It goes on in itself, and isn't told its name: a template couldn't do that.
        Work::Background if name == "background" => vec![(vars::DISPATCH.name, "lambda".into()), secret],
        Work::Background => vec![(vars::BACKGROUND_FUNCTION.name, "background".into()), secret],
        Work::Chained => vec![(vars::DISPATCH.name, "lambda".into()), secret],
        Work::Inline => Vec::new(),
    });
    variables.extend(options.variables.iter().cloned());
    if name == "background" {
        variables.extend(options.background_variables.iter().cloned());
    }
    variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
