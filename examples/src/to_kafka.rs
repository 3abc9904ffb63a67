//! Row changes to Kafka, as Canal's own server writes them: what `canal-to-kafka` does.

mod printer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use lockkeeper_canal::mq::{
    KafkaProducer, KafkaSettings, MqForm, MqForwarder, MqForwarderSettings, MqProducer, MqRouting,
};
use lockkeeper_canal::{
    CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, ConnectorEnd,
    Filter, Stop, WaitForEnd,
};
use tokio::sync::Notify;

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
    /// The Canal server, host:port; several with commas
    #[arg(long, default_value = "127.0.0.1:11111", value_delimiter = ',')]
    address: Vec<String>,
    /// A server within this process that plays a short script: no Canal server has to be there
    #[arg(long, conflicts_with_all = ["address", "user"])]
    embedded: bool,
    /// The destination
    #[arg(long, default_value = "example")]
    destination: String,
    /// Regular expressions over schema.table, with commas; replaces the destination's filter for
    /// every client. Without it the filter in force is kept
    #[arg(long)]
    filter: Option<Filter>,
    /// User at the Canal server; the password is read from CANAL_PASSWORD or --password-file
    #[arg(long)]
    user: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// The Kafka brokers to begin with, host:port; several with commas
    #[arg(long, required_unless_present = "print", value_delimiter = ',')]
    kafka: Vec<String>,
    /// Prints what would be written, a message a line: no broker has to be there
    #[arg(long, conflicts_with = "kafka")]
    print: bool,
    /// Ends after so many printed messages
    #[arg(long, value_name = "COUNT", requires = "print")]
    limit: Option<usize>,
    /// The topic of what no rule below sends elsewhere (Canal's canal.mq.topic)
    #[arg(long, default_value = "canal")]
    topic: String,
    /// Topics by table (canal.mq.dynamicTopic): topic:schema.table,...
    #[arg(long, value_name = "RULES")]
    dynamic_topic: Option<String>,
    /// What partitions are chosen by (canal.mq.partitionHash): schema.table:column^column,... or :$pk$
    #[arg(long, value_name = "RULES", default_value = r".*\..*:$pk$")]
    partition_hash: String,
    /// Makes topics that are not there, with so many partitions
    #[arg(long, value_name = "PARTITIONS")]
    create_topics: Option<u32>,
    /// On how many brokers made topics are kept
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        requires = "create_topics"
    )]
    copies: u16,
    /// The form of messages
    #[arg(long, value_enum, default_value_t = Form::Flat)]
    form: Form,
}

/// The form of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// JSON, a message for the rows of one statement
    Flat,
    /// Canal's packets, a message for a batch
    Protobuf,
}

/// Writes changes until a signal, or an error that trying again does not repair. Within an actix
/// System.
///
/// # Errors
/// What a setting lacks; why the connection to the Canal server ended for good.
pub async fn run(options: &Options) -> anyhow::Result<()> {
    if options.print {
        let printed = Arc::new(Notify::new());
        let printer = Printer::new(options.limit.unwrap_or(usize::MAX), printed.clone());
        return forward(options, printer, printed.notified()).await;
    }
    let mut kafka = KafkaSettings::new(&options.kafka).with_client_id("canal-to-kafka");
    if let Some(partitions) = options.create_topics {
        kafka = kafka.with_create_topics(partitions, options.copies);
    }
    forward(options, KafkaProducer::new(kafka)?, std::future::pending()).await
}

/// `done` resolves when it is to end by itself.
async fn forward(
    options: &Options,
    producer: impl MqProducer,
    done: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let mut routing = MqRouting::to(&options.topic).with_partition_hash(&options.partition_hash)?;
    if let Some(rules) = &options.dynamic_topic {
        routing = routing.with_dynamic_topic(rules)?;
    }
    let form = match options.form {
        Form::Flat => MqForm::Flat,
        Form::Protobuf => MqForm::Protobuf,
    };
    let settings = MqForwarderSettings::new(routing).with_form(form);
    let forwarder = MqForwarder::new(producer, settings)?.start();
    let server = options
        .embedded
        .then(|| embedded::start(&options.destination))
        .transpose()
        .context("starting the embedded server")?;
    let mut builder = CanalConnectorBuilder::new(ClientIdentity::new(&options.destination));
    builder = match &server {
        Some(server) => builder.address(server.address().to_string()),
        None => builder.addresses(&options.address),
    };
    if let Some(user) = &options.user {
        builder = builder.credentials(user, password(options)?);
    }
    let settings = CanalConnectorSettings::default()
        .with_filter(options.filter.clone().unwrap_or_else(Filter::keep))
        // A destination that is not served for a while is waited for.
        .with_reconnect_limit(None)
        .with_back_off(Duration::from_millis(100), Duration::from_secs(10));
    let connector = CanalConnector::new(builder.build()?, settings, forwarder.recipient())?.start();
    let end = tokio::select! {
        end = connector.send(WaitForEnd) => end,
        () = done => connector.send(Stop).await,
        () = signals.next() => connector.send(Stop).await,
    };
    match end? {
        ConnectorEnd::Failed(error) => Err(error.into()),
        _ => Ok(()),
    }
}

fn password(options: &Options) -> anyhow::Result<String> {
    let Some(file) = &options.password_file else {
        return Ok(std::env::var(PASSWORD_VARIABLE).unwrap_or_default());
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("reading the password file {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
