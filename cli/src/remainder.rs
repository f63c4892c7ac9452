//! `outlast remainder`: what is left to do of a run.

use clap::Args;
use comfy_table::presets;

use crate::client::Client;
use crate::exit::Exit;
use crate::screen::say;

#[derive(Clone, Debug, Args)]
pub struct RemainderArgs {
    /// The run's id
    run: String,
    /// One JSON object a line, as it came
    #[arg(long)]
    json: bool,
}

/// All of it, page by page.
pub async fn remainder(client: &Client, args: &RemainderArgs) -> anyhow::Result<Exit> {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING).set_header(["KEY", "WHY", "ERROR"]);
    let mut after = None;
    loop {
        let page = client.remainder(&args.run, after.as_deref()).await;
        let page = page.map_err(|failure| failure.into_problem(client))?;
        for step in page["steps"].as_array().into_iter().flatten() {
            if args.json {
                say(&step.to_string());
                continue;
            }
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let why = text(&step["state"]).replace('_', " ");
            table.add_row([text(&step["key"]), why, text(&step["error"]["message"])]);
        }
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            let remaining = page["remaining"].as_u64().unwrap_or_default();
            if !args.json && remaining > 0 {
                say(&table.to_string());
            }
            if !args.json && remaining == 0 {
                say("nothing remains");
            }
            return Ok(Exit::Done);
        }
    }
}
