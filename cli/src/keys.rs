//! `outlast keys`: the API keys of a deployment, straight in its table. No server is asked: who may write to the table with
//! AWS credentials may make keys.

mod render;

use std::time::Duration;

use clap::{Args, Subcommand};
use outlast_core::env_vars::RUNS_TABLE;
use outlast_core::key::key_part;
use outlast_core::limits::READ_TOKEN_LIFE;
use outlast_core::{Owner, Scope};
use outlast_runtime::keys::{Keys, NewKey, NoAccess};
use outlast_store::{KeyRecord, StoreError};

use crate::exit::{Exit, Problem};
use crate::screen::say;

const LONGEST_LABEL: usize = 100;

/// Make, list and remove the API keys of a deployment, straight in its table
///
/// With the AWS credentials and the region that the AWS CLI would use; AWS_ENDPOINT_URL_DYNAMODB names another server.
#[derive(Clone, Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: Command,
    /// The deployment's table of runs
    #[arg(
        long,
        env = "OUTLAST_RUNS_TABLE",
        value_name = "NAME",
        default_value = RUNS_TABLE.default.unwrap_or_default(),
        global = true
    )]
    table: String,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    Add(AddArgs),
    /// List the keys: their first characters, whose they are, what they allow, until when
    Ls,
    Rm(RmArgs),
}

/// Make a key, and print it to stdout, this once
#[derive(Clone, Debug, Args)]
struct AddArgs {
    /// Whose runs the key's holder starts and sees. Keys of one owner see the same runs
    #[arg(long, value_parser = owner)]
    owner: Owner,
    /// What the key allows: run, read, control, work, admin
    #[arg(long, value_delimiter = ',', default_value = "run,read,control")]
    scopes: Vec<Scope>,
    /// A note for people, shown by `ls`
    #[arg(long, value_parser = label)]
    label: Option<String>,
    /// When it stops being good: 90d, 12h, 30m. Without it the key is good until it is removed
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires_in: Option<Duration>,
}

/// Remove a key: the next request that brings it is refused
#[derive(Clone, Debug, Args)]
struct RmArgs {
    /// Its first characters, as `ls` shows them
    // Not `key`: clap knows an argument by that name already, the one that every command takes.
    #[arg(value_name = "KEY")]
    begins: String,
}

pub async fn keys(args: &KeysArgs) -> anyhow::Result<Exit> {
    let keys = Keys::of_table(&args.table).await.map_err(no_access)?;
    let done = match &args.command {
        Command::Add(add) => self::add(&keys, add).await,
        Command::Ls => ls(&keys).await,
        Command::Rm(rm) => return self::rm(&keys, rm, &args.table).await,
    };
    done.map_err(|error| failed(&error, &args.table).into())
}

async fn add(keys: &Keys, args: &AddArgs) -> Result<Exit, StoreError> {
    let (key, record) = keys
        .add(NewKey {
            owner: args.owner.clone(),
            scopes: args.scopes.iter().copied().collect(),
            label: args.label.clone(),
            good_for: args.expires_in,
        })
        .await?;
    // The key alone on stdout, for a script to keep.
    say(key.expose());
    eprintln!(
        "A key of {}, for {}, {}. It is shown this once: keep it where secrets are kept.\n\
         Use it as OUTLAST_KEY, or as the header `Authorization: Bearer …`; remove it with `outlast keys rm {}`.",
        record.owner,
        record.scopes,
        render::until(&record, keys.now()),
        record.begins,
    );
    Ok(Exit::Done)
}

async fn ls(keys: &Keys) -> Result<Exit, StoreError> {
    let all = keys.list().await?;
    match all.is_empty() {
        true => say("There are no keys. `outlast keys add --owner OWNER` makes one."),
        false => say(&render::table(&all, keys.now())),
    }
    Ok(Exit::Done)
}

async fn rm(keys: &Keys, args: &RmArgs, table: &str) -> anyhow::Result<Exit> {
    let all = keys.list().await.map_err(|error| failed(&error, table))?;
    let record = named(&all, &args.begins)?;
    let removed = keys.remove(record).await.map_err(|error| failed(&error, table))?;
    say(&match removed {
        true => format!("{} of {} is removed.", record.begins, record.owner),
        false => format!("{} of {} was removed already.", record.begins, record.owner),
    });
    eprintln!(
        "The next request that brings it is refused. A stream that is open ends by itself within a minute, and a read token \
         that it asked for is good for up to {} minutes.",
        READ_TOKEN_LIFE.as_secs() / 60
    );
    Ok(Exit::Done)
}

/// By its first characters; whoever pastes a whole key means that one.
fn named<'a>(all: &'a [KeyRecord], text: &str) -> Result<&'a KeyRecord, Problem> {
    let mut fitting = all
        .iter()
        .filter(|record| !record.begins.is_empty() && text.starts_with(&record.begins));
    match (fitting.next(), fitting.next()) {
        (Some(record), None) => Ok(record),
        (None, _) => Err(Problem::new(
            Exit::Usage,
            "there is no such key: give the first characters as `outlast keys ls` shows them, all eleven. A key that was made \
             a moment ago may not be listed yet.",
        )),
        (Some(_), Some(_)) => Err(Problem::new(
            Exit::Usage,
            "two keys begin like this: make another for one of the owners, and remove both in the table, where their items \
             begin with key#",
        )),
    }
}

fn no_access(error: NoAccess) -> Problem {
    let text = match error {
        NoAccess::Region => format!("{error}: set AWS_REGION, or name a profile with AWS_PROFILE."),
        NoAccess::Credentials(_) => {
            format!("{error}\nSign in as for the AWS CLI, or name a profile with AWS_PROFILE.")
        }
    };
    Problem::new(Exit::Usage, text)
}

fn failed(error: &StoreError, table: &str) -> Problem {
    match error {
        StoreError::Unavailable(why) => {
            let text =
                format!("DynamoDB can't be reached: {why}\nIs it the right region, or AWS_ENDPOINT_URL_DYNAMODB?");
            Problem::new(Exit::ServerAway, text)
        }
        _ => {
            let text = format!(
                "the table {table} refuses: {error}\nName the deployment's table of runs with --table; the credentials need \
                 dynamodb:GetItem, PutItem, UpdateItem and Query on it and its indexes."
            );
            Problem::new(Exit::Refused, text)
        }
    }
}

fn owner(text: &str) -> Result<Owner, String> {
    key_part(text).map_err(|error| error.to_string())?;
    printable(text).map(Owner::new)
}

fn label(text: &str) -> Result<String, String> {
    match text.len() > LONGEST_LABEL {
        true => Err(format!("at most {LONGEST_LABEL} bytes are allowed")),
        false => printable(text),
    }
}

/// What `ls` prints must be one line of a table, and move no cursor.
fn printable(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err("it holds a control character".into()),
        false => Ok(text.to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let unit = |unit| match unit {
        'm' => Some(60),
        'h' => Some(60 * 60),
        'd' => Some(24 * 60 * 60),
        _ => None,
    };
    let parsed = text.char_indices().next_back().and_then(|(at, last)| {
        let number: u32 = text[..at].parse().ok().filter(|number| *number > 0)?;
        Some(Duration::from_secs(u64::from(number) * unit(last)?))
    });
    // A hundred years: what is longer is mistyped, and no date for people.
    let parsed = parsed.filter(|time| time.as_secs() <= 36_525 * 24 * 60 * 60);
    parsed.ok_or_else(|| "expected a time such as 90d, 12h or 30m".into())
}

#[cfg(test)]
mod tests;
