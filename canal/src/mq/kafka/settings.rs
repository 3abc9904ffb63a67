//! Where Kafka is, and who asks.

use std::fmt;
use std::time::Duration;

use crate::identity::Password;

/// Settings of a Kafka client, for both directions.
///
/// Connections are opened when they are needed, and again after they broke: a broker need not run
/// when the settings are made. There is no TLS: keep brokers on a trusted network, or in a tunnel.
/// Written messages are not compressed; read ones may be, by gzip or snappy.
#[derive(Clone)]
pub struct KafkaSettings {
    pub(super) brokers: Vec<String>,
    pub(super) client_id: String,
    pub(super) credentials: Option<(String, Password)>,
    pub(super) timeout: Duration,
    pub(super) frame_limit: usize,
    pub(super) create_topics: Option<(u32, u16)>,
}

impl KafkaSettings {
    /// The brokers to begin with, each as `host:port`; they tell the others.
    pub fn new(brokers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            brokers: brokers.into_iter().map(Into::into).collect(),
            client_id: "lockkeeper".to_owned(),
            credentials: None,
            timeout: Duration::from_secs(10),
            frame_limit: 64 << 20,
            create_topics: None,
        }
    }

    /// How the client calls itself in the brokers' logs and quotas. Default `lockkeeper`.
    #[must_use]
    pub fn with_client_id(self, client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            ..self
        }
    }

    /// User and password, by SASL PLAIN: readable on the way. Default: none.
    #[must_use]
    pub fn with_credentials(self, user: impl Into<String>, password: impl Into<Password>) -> Self {
        Self {
            credentials: Some((user.into(), password.into())),
            ..self
        }
    }

    /// From a question to its answer, connecting included; a fetch may take its own wait longer.
    /// Default 10 s.
    #[must_use]
    pub fn with_timeout(self, limit: Duration) -> Self {
        Self {
            timeout: limit,
            ..self
        }
    }

    /// The largest answer of a broker in bytes. Default 64 MiB.
    #[must_use]
    pub fn with_frame_limit(self, bytes: usize) -> Self {
        Self {
            frame_limit: bytes,
            ..self
        }
    }

    /// Makes a topic that is not there when something is to be written to it, with so many
    /// partitions, and copies on so many brokers. Default: it is an error.
    #[must_use]
    pub fn with_create_topics(self, partitions: u32, copies: u16) -> Self {
        Self {
            create_topics: Some((partitions, copies)),
            ..self
        }
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("user", &self.credentials.as_ref().map(|(user, _)| user))
            .finish_non_exhaustive()
    }
}
