//! The command line.

use clap::{Args, Parser, Subcommand};
use secrecy::SecretString;

use crate::answer::AnswerArgs;
use crate::client::Client;
use crate::control::{PauseArgs, ResumeArgs, RetryArgs};
use crate::dev::DevOptions;
use crate::exit::{self, Exit};
use crate::keys::KeysArgs;
use crate::ls::LsArgs;
use crate::remainder::RemainderArgs;
use crate::run::RunArgs;
use crate::show::ShowArgs;
use crate::stop::StopArgs;
use crate::sweep::SweepArgs;
use crate::tables::TablesArgs;
use crate::tail::TailArgs;

/// Durable agent runs on AWS Lambda and DynamoDB: start runs, follow them, and run everything on this machine.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub server: Server,
}

#[derive(Debug, Args)]
pub struct Server {
    /// The server that the commands ask
    #[arg(
        long,
        env = "OUTLAST_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8787",
        global = true
    )]
    pub url: String,
    /// The key that the server asks for, as `outlast keys add` printed it. Other users of this machine can see arguments:
    /// the variable is the better place
    // Any text is taken here: clap would repeat one that it refuses.
    #[arg(long, env = "OUTLAST_KEY", value_name = "KEY", hide_env_values = true, global = true)]
    pub key: Option<SecretString>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Import a real table while its server is killed and started again; about 15 seconds, nothing is left behind
    Demo,
    Dev(DevOptions),
    /// Start a run and follow it to its end
    Run(RunArgs),
    /// Follow a run to its end
    Tail(TailArgs),
    /// List your runs, newest first
    Ls(LsArgs),
    /// Show one run
    Show(ShowArgs),
    /// End a run
    Stop(StopArgs),
    /// Let nobody begin another chunk of a run until it is resumed
    Pause(PauseArgs),
    /// Let a paused run go on
    Resume(ResumeArgs),
    /// Do the rest of an ended run in a new one, and follow that to its end
    Retry(RetryArgs),
    /// List what is left to do of a run, and why
    Remainder(RemainderArgs),
    Keys(KeysArgs),
    Sweep(SweepArgs),
    Tables(TablesArgs),
    /// Answer what a run asks
    Answer(AnswerArgs),
}

impl Cli {
    pub async fn execute(self) -> anyhow::Result<Exit> {
        let client = || Client::new(&self.server.url)?.with_key(self.server.key.as_ref());
        match self.command {
            Command::Demo => crate::demo::demo().await,
            Command::Dev(options) => {
                crate::dev::run(assistant::app(), options).await?;
                Ok(Exit::Done)
            }
            Command::Run(args) => crate::run::run(&client()?, &args).await,
            Command::Tail(args) => crate::tail::tail(&client()?, &args).await,
            Command::Ls(args) => crate::ls::ls(&client()?, &args).await,
            Command::Show(args) => crate::show::show(&client()?, &args).await,
            Command::Stop(args) => crate::stop::stop(&client()?, &args).await,
            Command::Pause(args) => crate::control::pause(&client()?, &args).await,
            Command::Resume(args) => crate::control::resume(&client()?, &args).await,
            Command::Retry(args) => crate::control::retry(&client()?, &args).await,
            Command::Remainder(args) => crate::remainder::remainder(&client()?, &args).await,
            Command::Keys(args) => crate::keys::keys(&args).await,
            Command::Sweep(args) => crate::sweep::sweep(&self.server.url, &args).await,
            Command::Tables(args) => crate::tables::tables(&args).await,
            Command::Answer(args) => crate::answer::answer(&client()?, &args).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_key_is_never_shown() {
        let line = ["outlast", "--key", "ol_secret", "ls"];
        let shown = format!("{:?}", Cli::parse_from(line));
        assert!(!shown.contains("ol_secret"), "{shown}");
        let misspelled = Cli::try_parse_from(["outlast", "--key", "ol_secret", "list"]).unwrap_err();
        assert!(!misspelled.to_string().contains("ol_secret"), "{misspelled}");
    }

    #[test]
    fn every_command_is_told_apart_from_the_options_of_all() {
        for line in [
            &["keys", "rm", "ol_AbCdEfGh"][..],
            &["keys", "ls", "--table", "t"],
            &["keys", "--table", "t", "add", "--owner", "o"],
            &["dev", "--table", "t:k"],
            &["tail", "r"],
            &["stop", "r", "--force"],
        ] {
            let cli = Cli::parse_from([&["outlast"], line, &["--url", "http://u", "--key", "k"]].concat());
            assert_eq!(
                (cli.server.url.as_str(), cli.server.key.is_some()),
                ("http://u", true),
                "{line:?}"
            );
        }
    }

    #[test]
    fn the_default_url_is_where_dev_listens() {
        let cli = Cli::command();
        let url = cli.get_arguments().find(|argument| argument.get_id() == "url").unwrap();
        let default = url.get_default_values()[0].to_str().unwrap();
        assert_eq!(default, format!("http://{}", crate::dev::options::DEFAULT_LISTEN));
    }
}
