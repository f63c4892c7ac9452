//! `outlast tables`: makes both tables on a DynamoDB-compatible server on this machine.

use clap::Args;
use outlast_core::env_vars as vars;
use outlast_runtime::{local_dynamodb, seams};
use outlast_store::dynamodb::create_tables;
use outlast_store::schema::TableNames;

use crate::exit::{Exit, Problem};
use crate::screen::say;

/// Make the tables of runs and events on a DynamoDB-compatible server on this machine
///
/// Tables that are there already are left as they are. In an AWS account a deployment makes them.
#[derive(Clone, Debug, Args)]
pub struct TablesArgs {
    /// Where the server listens: a loopback address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    pub endpoint: String,
    #[arg(long, env = "OUTLAST_RUNS_TABLE", value_name = "NAME", default_value = default(vars::RUNS_TABLE))]
    pub runs_table: String,
    #[arg(long, env = "OUTLAST_EVENTS_TABLE", value_name = "NAME", default_value = default(vars::EVENTS_TABLE))]
    pub events_table: String,
}

fn default(variable: vars::Variable) -> &'static str {
    variable.default.unwrap_or_default()
}

pub async fn tables(args: &TablesArgs) -> anyhow::Result<Exit> {
    let TablesArgs { endpoint, .. } = args;
    if !local_dynamodb::is_loopback(endpoint) {
        let text = format!(
            "{endpoint} is not on this machine, and tables in an AWS account are its deployment's to make. \
             Example: --endpoint http://127.0.0.1:8000"
        );
        return Err(Problem::new(Exit::Usage, text).into());
    }
    let names = TableNames {
        runs: args.runs_table.clone(),
        events: args.events_table.clone(),
    };
    if names.runs == names.events {
        let text = format!("{} is the name of both tables: they are two", names.runs);
        return Err(Problem::new(Exit::Usage, text).into());
    }
    let made = create_tables(&local_dynamodb::client(endpoint), &names, &seams::machine()).await;
    made.map_err(|error| {
        let text = format!("{endpoint} did not make the tables: {error}");
        Problem::new(Exit::ServerAway, text)
    })?;
    say(&format!(
        "{endpoint} has the tables {} and {}",
        names.runs, names.events
    ));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::exit::exit_of;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TablesArgs,
    }

    async fn made(line: &[&str]) -> anyhow::Result<Exit> {
        tables(&Line::parse_from([&["tables"], line].concat()).args).await
    }

    #[tokio::test]
    async fn only_a_server_on_this_machine_is_asked() {
        for elsewhere in [
            "https://dynamodb.eu-west-1.amazonaws.com",
            "http://10.0.0.1:8000",
            "8000",
            "",
        ] {
            let error = made(&["--endpoint", elsewhere]).await.unwrap_err();
            assert_eq!(exit_of(&error), Exit::Usage, "{error}");
        }
    }

    #[tokio::test]
    async fn two_tables_need_two_names() {
        let error = made(&["--runs-table", "a", "--events-table", "a"]).await.unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage, "{error}");
    }
}
