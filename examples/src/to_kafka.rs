//! Row changes to Kafka, as Canal's own server writes them: what `canal-to-kafka` does.

mod printer;

use std::path::PathBuf;

use actix::prelude::*;
use anyhow::{Context as _, ensure};
use clap::Parser;
use lockkeeper_canal::mq::{KafkaProducer, MqForwarder, MqProducer};
use lockkeeper_canal::{CanalConnector, ConnectorEnd, Stop, WaitForEnd};

use crate::settings::Settings;
use crate::signals::Signals;
use crate::tail::{PASSWORD_VARIABLE, embedded};
use printer::Printer;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "canal-to-kafka",
    about = "Writes the row changes of a Canal destination to Kafka, as Canal's own server does",
    after_help = "A change is acknowledged to the Canal server when Kafka has it: while Kafka is away nothing \
                  is lost, and after a failure messages may come twice, in order. Ends at SIGTERM and Ctrl-C."
)]
pub struct Options {
    /// Settings, a TOML file (docs/tasks/settings.md); flags are above it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The Canal server, host:port; several with commas. Default: 127.0.0.1:11111
    #[arg(long)]
    address: Option<String>,
    /// A server within this process that plays a short script: no Canal server has to be there
    #[arg(long, conflicts_with_all = ["address", "user"])]
    embedded: bool,
    /// The destination. Default: example
    #[arg(long)]
    destination: Option<String>,
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
    /// The Kafka brokers to begin with, host:port; several with commas
    #[arg(long, required_unless_present_any = ["print", "config"])]
    kafka: Option<String>,
    /// Prints what would be written, a message a line: no broker has to be there
    #[arg(long, conflicts_with = "kafka")]
    print: bool,
    /// Ends after so many printed messages
    #[arg(long, value_name = "COUNT", requires = "print")]
    limit: Option<usize>,
    /// The topic of what no rule below sends elsewhere (Canal's canal.mq.topic). Default: canal
    #[arg(long)]
    topic: Option<String>,
    /// Topics by table (canal.mq.dynamicTopic): topic:schema.table,...
    #[arg(long, value_name = "RULES")]
    dynamic_topic: Option<String>,
    /// What partitions are chosen by (canal.mq.partitionHash): schema.table:column^column,... or :$pk$.
    /// Default: the primary key of every table
    #[arg(long, value_name = "RULES")]
    partition_hash: Option<String>,
    /// Makes topics that are not there, with so many partitions
    #[arg(long, value_name = "PARTITIONS")]
    create_topics: Option<u32>,
    /// On how many brokers made topics are kept. Default: 1
    #[arg(long, value_name = "COUNT", requires = "create_topics")]
    copies: Option<u16>,
    /// The form of messages: flat (JSON, a message for the rows of one statement; the default) or
    /// protobuf (Canal's packets, a message for a batch)
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
}

impl Options {
    /// The flags are above the file and the environment.
    fn settings(&self) -> anyhow::Result<Settings> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("canal.addresses", "--address", self.address.clone()),
            (
                "canal.destination",
                "--destination",
                self.destination.clone(),
            ),
            ("canal.filter", "--filter", self.filter.clone()),
            ("canal.user", "--user", self.user.clone()),
            (
                "canal.password_file",
                "--password-file",
                text(&self.password_file),
            ),
            ("kafka.brokers", "--kafka", self.kafka.clone()),
            (
                "kafka.create_partitions",
                "--create-topics",
                self.create_topics.map(|count| count.to_string()),
            ),
            (
                "kafka.create_copies",
                "--copies",
                self.copies.map(|count| count.to_string()),
            ),
            ("forwarder.topic", "--topic", self.topic.clone()),
            (
                "forwarder.dynamic_topic",
                "--dynamic-topic",
                self.dynamic_topic.clone(),
            ),
            (
                "forwarder.partition_hash",
                "--partition-hash",
                self.partition_hash.clone(),
            ),
            ("forwarder.form", "--form", self.form.clone()),
        ];
        let defaults = [
            ("kafka.client_id", "canal-to-kafka"),
            // a destination that is not served for a while is waited for
            ("connector.reconnect_limit", "none"),
            ("connector.longest_back_off", "10s"),
        ];
        let mut settings = Settings::of_program(&defaults, self.config.as_deref(), flags)?;
        settings.canal.password_or(PASSWORD_VARIABLE);
        Ok(settings)
    }
}

/// Writes changes until a signal, or an error that trying again does not repair. Within an actix
/// System.
///
/// # Errors
/// What a setting lacks; why the connection to the Canal server ended for good.
pub async fn run(options: &Options) -> anyhow::Result<()> {
    let settings = options.settings()?;
    if options.print {
        let (printer, printed) = Printer::new(options.limit.unwrap_or(usize::MAX));
        let done = async { printed.await?.context("standard output") };
        return forward(options, &settings, printer, done).await;
    }
    ensure!(
        !settings.kafka.brokers.is_empty(),
        "which brokers? Give --kafka, or kafka.brokers in the file"
    );
    let producer = KafkaProducer::new(settings.kafka.client()?)?;
    forward(options, &settings, producer, std::future::pending()).await
}

/// `done` resolves when it is to end by itself, and says whether that is as it should be.
async fn forward(
    options: &Options,
    settings: &Settings,
    producer: impl MqProducer,
    done: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let forwarder = MqForwarder::new(producer, settings.forwarder.forwarder()?)?.start();
    let server = options
        .embedded
        .then(|| embedded::start(&settings.canal.destination))
        .transpose()
        .context("starting the embedded server")?;
    let address = server.as_ref().map(|server| server.address().to_string());
    let connector = settings.canal.builder(address)?.build()?;
    let follow = settings.connector.connector(settings.canal.filter()?);
    let connector = CanalConnector::new(connector, follow, forwarder.recipient())?.start();
    let mut printed = Ok(());
    let end = tokio::select! {
        end = connector.send(WaitForEnd) => end,
        how = done => {
            printed = how;
            connector.send(Stop).await
        }
        () = signals.next() => connector.send(Stop).await,
    };
    match end? {
        ConnectorEnd::Failed(error) => Err(error.into()),
        _ => printed,
    }
}
