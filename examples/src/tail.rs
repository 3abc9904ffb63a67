//! Following a destination on the terminal: what `canal-tail` does.

pub(crate) mod embedded;
mod line;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use lockkeeper_canal::{ClusterCanalConnector, Message};

use crate::note;
use crate::settings::Settings;
use crate::settings::canal::CanalSettings;
use crate::signals::Signals;

/// The environment variable with the Canal server's password: it is never an argument, which
/// everybody on the machine could read.
pub const PASSWORD_VARIABLE: &str = "CANAL_PASSWORD";

/// The first pause while nothing comes, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "canal-tail",
    about = "Prints the row changes of a Canal destination",
    after_help = "A destination has one reader's place: while canal-tail runs, another consumer of the same \
                  destination misses what canal-tail gets. With --peek it all comes again afterwards."
)]
pub struct Options {
    /// Settings, a TOML file (docs/tasks/settings.md); flags are above it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The Canal server, host:port; several with commas. Default: 127.0.0.1:11111
    #[arg(long)]
    address: Option<String>,
    /// Find the server through ZooKeeper at host:port, several with commas
    #[arg(long, value_name = "ENSEMBLE", conflicts_with = "address")]
    from_zookeeper: Option<String>,
    /// A server within this process that plays a short script: nothing has to be installed
    #[arg(long, conflicts_with_all = ["address", "from_zookeeper", "user"])]
    embedded: bool,
    /// The destination. Default: example
    #[arg(long)]
    destination: Option<String>,
    /// The client id, 1 to 32767. Default: 1001
    #[arg(long)]
    client_id: Option<u32>,
    /// Regular expressions over schema.table, with commas; replaces the destination's filter for
    /// every client. Without it the filter in force is kept
    #[arg(long)]
    filter: Option<String>,
    /// User at the Canal server; the password is read from CANAL_PASSWORD or --password-file
    #[arg(long)]
    user: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// How changes are printed
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Acknowledge nothing, so that everything comes again to the next reader (the default)
    #[arg(long, conflicts_with = "ack")]
    peek: bool,
    /// Acknowledge what was printed: it does not come again. A batch that --limit cuts does
    #[arg(long)]
    ack: bool,
    /// End after so many printed changes
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
}

/// How changes are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON object a line
    Json,
    /// Columns for people
    Table,
}

/// Prints changes until the limit, SIGTERM or Ctrl-C, or an error that trying again does not repair.
///
/// # Errors
/// What the connection says, with what was tried; what writing says, except a closed pipe.
pub async fn run(options: &Options, output: &mut impl Write) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let canal = settings(options)?;
    let embedded = options
        .embedded
        .then(|| embedded::start(&canal.destination));
    let embedded = embedded
        .transpose()
        .context("starting the embedded server")?;
    let address = embedded.as_ref().map(|server| server.address().to_string());
    let mut connector = tokio::select! {
        connected = connector(&canal, address) => connected?,
        () = signals.next() => return Ok(()),
    };
    let ended = tokio::select! {
        ended = follow(options, &mut connector, output) => ended,
        () = signals.next() => Ok(()),
    };
    connector.disconnect().await;
    ended
}

/// The flags are above the file and the environment.
fn settings(options: &Options) -> anyhow::Result<CanalSettings> {
    let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let flags = [
        ("canal.addresses", "--address", options.address.clone()),
        (
            "canal.zookeeper",
            "--from-zookeeper",
            options.from_zookeeper.clone(),
        ),
        (
            "canal.destination",
            "--destination",
            options.destination.clone(),
        ),
        (
            "canal.client_id",
            "--client-id",
            options.client_id.map(|id| id.to_string()),
        ),
        ("canal.filter", "--filter", options.filter.clone()),
        ("canal.user", "--user", options.user.clone()),
        (
            "canal.password_file",
            "--password-file",
            text(&options.password_file),
        ),
    ];
    let defaults = [
        // a person waits
        ("canal.retry_times", "8"),
        ("canal.retry_first", "50ms"),
        ("canal.retry_longest", "5s"),
    ];
    let mut canal = Settings::of_program(&defaults, options.config.as_deref(), flags)?.canal;
    canal.password_or(PASSWORD_VARIABLE);
    if options.address.is_some() {
        canal.zookeeper = None;
    }
    Ok(canal)
}

async fn connector(
    canal: &CanalSettings,
    embedded: Option<String>,
) -> anyhow::Result<ClusterCanalConnector> {
    let mut connector = canal.finding_builder(embedded).await?.build_cluster()?;
    connector
        .connect()
        .await
        .with_context(|| match &canal.zookeeper {
            Some(ensemble) => {
                format!("connecting to the server that ZooKeeper at {ensemble} names")
            }
            None => format!("connecting to {}", canal.addresses.join(", ")),
        })?;
    connector
        .subscribe(&canal.filter()?)
        .await
        .with_context(|| format!("subscribing to destination {}", canal.destination))?;
    note!("canal-tail: following {}", canal.destination);
    Ok(connector)
}

async fn follow(
    options: &Options,
    connector: &mut ClusterCanalConnector,
    output: &mut impl Write,
) -> anyhow::Result<()> {
    let (mut pause, mut rest) = (PAUSES.0, options.limit.unwrap_or(usize::MAX));
    let mut epoch = connector.epoch();
    while rest > 0 {
        let Some(message) = connector.get_without_ack(1000, None).await? else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            continue;
        };
        pause = PAUSES.0;
        if std::mem::replace(&mut epoch, message.id().epoch()) != epoch {
            note!("canal-tail: connected anew; what was not acknowledged comes again");
        }
        let whole = match print(options.format, &message, rest, output) {
            Ok((printed, whole)) => {
                rest -= printed;
                whole
            }
            // As of `head`: nobody reads any longer.
            Err(error) if is_closed_pipe(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        // A batch that the limit cuts comes again: what was not printed is not lost.
        if options.ack && whole {
            match connector.ack(message.id()).await {
                // It comes again, and is printed again.
                Err(error) if error.is_retryable() => note!("canal-tail: {error}"),
                other => other?,
            }
        }
    }
    if options.ack {
        connector.confirm_acks().await?;
    }
    Ok(())
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints at most `limit` changes of a batch; says how many it were, and whether it were all.
fn print(
    format: Format,
    message: &Message,
    limit: usize,
    output: &mut impl Write,
) -> anyhow::Result<(usize, bool)> {
    let (mut printed, mut whole) = (0, true);
    for entry in message.entries() {
        let Some(change) = entry?.row_change()? else {
            continue;
        };
        for line in line::lines(&change) {
            if printed == limit {
                whole = false;
                break;
            }
            match format {
                Format::Json => serde_json::to_writer(&mut *output, &line).map_err(|error| {
                    error.io_error_kind().map_or_else(|| error.into(), io_error)
                })?,
                Format::Table => write!(output, "{line}")?,
            }
            writeln!(output)?;
            printed += 1;
        }
    }
    output.flush()?;
    Ok((printed, whole))
}

fn io_error(kind: io::ErrorKind) -> anyhow::Error {
    io::Error::from(kind).into()
}
