//! `outlast sweep`: does for a deployment under `http` dispatch what the schedule does for one on AWS.

use std::time::Duration;

use clap::Args;
use outlast_core::dispatch_token::{DispatchKeys, Purpose};
use outlast_core::env_vars as vars;
use outlast_core::limits::DISPATCH_TOKEN_LIFE;
use outlast_core::paths::SWEEP;
use outlast_engine::dispatch::TOKEN_HEADER;
use outlast_runtime::seams;
use reqwest::StatusCode;
use serde::Deserialize;

use crate::client::http_url;
use crate::dev::told_to_end;
use crate::exit::{Exit, Problem};
use crate::screen::say;

/// Look at every run that is due, once or regularly: the schedule of a deployment under `http` dispatch
///
/// The variable OUTLAST_DISPATCH_SECRET must hold what the functions have there.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// Again and again, so long after the last pass, until Ctrl-C; passes that find nothing due say nothing
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub every: Option<Duration>,
}

/// What a pass did.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Swept {
    looked_at: u64,
    lost: u64,
    dispatched: u64,
    ended: u64,
    carried: u64,
    failed: u64,
}

pub async fn sweep(url: &str, args: &SweepArgs) -> anyhow::Result<Exit> {
    let schedule = Schedule::new(url, std::env::var(vars::DISPATCH_SECRET.name).ok())?;
    let Some(every) = args.every else {
        say(&schedule.pass().await?.line());
        return Ok(Exit::Done);
    };
    tokio::select! {
        told = told_to_end() => told?,
        () = schedule.repeat(every) => {}
    }
    Ok(Exit::Done)
}

struct Schedule {
    http: reqwest::Client,
    url: String,
    keys: DispatchKeys,
}

impl Schedule {
    fn new(url: &str, secret: Option<String>) -> anyhow::Result<Self> {
        let name = vars::DISPATCH_SECRET.name;
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
            let text = format!("{name} is not set: give it the value that the functions have");
            return Err(Problem::new(Exit::Usage, text).into());
        };
        let keys = DispatchKeys::new(secret.into(), None);
        Ok(Self {
            // Functions that are being built answer late. A pass that begins later than its token is good for is refused.
            http: reqwest::Client::builder().timeout(DISPATCH_TOKEN_LIFE).build()?,
            url: format!("{}{SWEEP}", http_url(url)?),
            keys: keys.map_err(|error| Problem::new(Exit::Usage, format!("{name}: {error}")))?,
        })
    }

    /// One that fails says so and is no reason to end: the functions may just be built anew.
    async fn repeat(&self, every: Duration) {
        loop {
            match self.pass().await {
                Ok(swept) if swept.looked_at == 0 && swept.failed == 0 => {}
                Ok(swept) => say(&swept.line()),
                Err(problem) => eprintln!("outlast: {problem}"),
            }
            tokio::time::sleep(every).await;
        }
    }

    async fn pass(&self) -> Result<Swept, Problem> {
        let away = |error: reqwest::Error| Problem::new(Exit::ServerAway, format!("{}: {error:#}", self.url));
        let token = self.keys.sign(Purpose::Sweep, b"", seams::machine().now());
        let request = self.http.post(&self.url).header(TOKEN_HEADER, token);
        let answer = request.send().await.map_err(away)?;
        match answer.status() {
            StatusCode::OK => answer.json().await.map_err(away),
            StatusCode::NOT_FOUND => Err(Problem::new(
                Exit::Refused,
                format!(
                    "{} is not there for this caller. The functions must have the same {} and dispatch by \
                     `http`; one that was busy for more than 5 minutes has to be asked again.",
                    self.url,
                    vars::DISPATCH_SECRET.name
                ),
            )),
            status => {
                let exit = if status.is_client_error() {
                    Exit::Refused
                } else {
                    Exit::ServerAway
                };
                Err(Problem::new(exit, format!("{}: {status}", self.url)))
            }
        }
    }
}

impl Swept {
    fn line(&self) -> String {
        let Swept {
            looked_at,
            lost,
            dispatched,
            ended,
            carried,
            failed,
        } = self;
        format!(
            "sweep: {looked_at} looked at, {lost} lost, {dispatched} dispatched, {ended} ended, {carried} carried, {failed} failed"
        )
    }
}

/// `10`, `10s`, `1m`.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    match number.parse::<u32>() {
        Ok(number) if number > 0 => Ok(Duration::from_secs(u64::from(number) * unit)),
        _ => Err("expected a time such as 10s or 1m".into()),
    }
}

#[cfg(test)]
mod tests;
