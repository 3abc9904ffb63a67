//! Settings of every component, by serde from TOML, with the environment and flags above it.
//!
//! [`Layers`] merges what there is, and [`Settings::load`] reads it: an unknown key is an error that
//! names the nearest one and the line, a time is a text with its unit, a password comes by a file of
//! its own or by the environment, and each limit is checked before anything starts.
//!
//! | section | of |
//! |---|---|
//! | [`service`] | `RpcService` and its connections |
//! | [`election`] | the drivers that elect leaders |
//! | [`region`] | a region's coordinator and its workers |
//! | [`store`] | where checkpoints lie |
//! | [`canal`] | the Canal server, and the connector that is an actor |
//! | [`source`] | start operators |
//! | [`sink`] | end operators |
//! | [`snapshot`] | rows from before |
//! | [`kafka`] | Kafka, and what is written to it |
//! | [`queue`] | the connector that reads it back |

pub mod canal;
pub mod election;
pub mod kafka;
pub mod queue;
pub mod region;
pub mod service;
pub mod sink;
pub mod snapshot;
pub mod source;
pub mod store;

mod error;
mod layers;
mod reader;
mod rules;
mod secret;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use error::{Place, SettingsError};
pub use layers::{Layers, PREFIX};
pub use secret::Secret;

use rules::Rules;

/// Every section. A program looks at those that it has a use for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The process' service.
    pub service: service::ServiceSettings,
    /// Who elects.
    pub election: election::ElectionSettings,
    /// The region's coordinator.
    pub region: region::RegionSettings,
    /// Its workers.
    pub worker: region::WorkerSettings,
    /// Where checkpoints lie.
    pub store: store::StoreSettings,
    /// The Canal server.
    pub canal: canal::CanalSettings,
    /// The connector that is an actor.
    pub connector: canal::ConnectorSettings,
    /// Start operators.
    pub source: source::SourceSettings,
    /// End operators.
    pub sink: sink::SinkSettings,
    /// Rows from before.
    pub snapshot: snapshot::SnapshotSettings,
    /// The Kafka cluster.
    pub kafka: kafka::KafkaSettings,
    /// What is written to it.
    pub forwarder: kafka::ForwarderSettings,
    /// The connector that reads it back.
    pub queue_connector: queue::QueueConnectorSettings,
}

impl Settings {
    /// Reads and checks them.
    ///
    /// # Errors
    /// The first key that is unknown, of another kind, or beyond its limits.
    pub fn load(layers: &Layers) -> Result<Self, SettingsError> {
        let settings: Self = layers.read()?;
        let mut rules = Rules::new(layers);
        settings.service.check(&mut rules);
        settings.election.check(&mut rules);
        settings.region.check(&mut rules);
        settings.worker.check(&mut rules);
        settings.store.check(&mut rules);
        settings.canal.check(&mut rules);
        settings.connector.check(&mut rules);
        settings.source.check(&mut rules);
        settings.sink.check(&mut rules);
        settings.snapshot.check(&mut rules);
        settings.kafka.check(&mut rules);
        settings.forwarder.check(&mut rules);
        settings.queue_connector.check(&mut rules);
        rules.kept().map(|()| settings)
    }

    /// The same with the passwords that the environment has: for settings that came from another
    /// process, which never writes them.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        for (secret, variable) in [
            (&mut self.canal.password, "LOCKKEEPER__CANAL__PASSWORD"),
            (
                &mut self.election.password,
                "LOCKKEEPER__ELECTION__PASSWORD",
            ),
            (&mut self.kafka.password, "LOCKKEEPER__KAFKA__PASSWORD"),
            (
                &mut self.sink.sql.password,
                "LOCKKEEPER__SINK__SQL__PASSWORD",
            ),
            (
                &mut self.snapshot.password,
                "LOCKKEEPER__SNAPSHOT__PASSWORD",
            ),
            (&mut self.store.password, "LOCKKEEPER__STORE__PASSWORD"),
        ] {
            if secret.is_none() {
                *secret = std::env::var(variable).ok().map(Secret::from);
            }
        }
        self
    }

    /// What a program reads when it starts: its own defaults, the file if there is one, the
    /// environment, and the flags that were given.
    ///
    /// # Errors
    /// As [`load`](Self::load), and when the file can't be read.
    pub fn of_program<'a>(
        defaults: &[(&str, &str)],
        file: Option<&Path>,
        flags: impl IntoIterator<Item = (&'a str, &'a str, Option<String>)>,
    ) -> Result<Self, SettingsError> {
        let mut layers = Layers::new().defaults(defaults);
        if let Some(file) = file {
            layers = layers.file(file)?;
        }
        Self::load(&layers.environment(std::env::vars_os())?.flags(flags))
    }
}
