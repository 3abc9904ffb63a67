//! What both directions share: connections on demand, deadlines, and what errors mean.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rskafka::BackoffConfig;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use tokio::sync::Mutex;

use super::KafkaSettings;
use crate::mq::error::MqError;

/// How long making a topic may take at the broker.
const CREATE_TIMEOUT_MS: i32 = 5_000;
/// How often a topic that was made is looked for.
const SHOWN_POLL: Duration = Duration::from_millis(10);

/// A cluster, connected when it is needed.
pub(super) struct Kafka {
    pub(super) settings: KafkaSettings,
    open: Mutex<Option<Open>>,
}

struct Open {
    client: Arc<Client>,
    partitions: HashMap<(String, u32), Arc<PartitionClient>>,
}

impl Kafka {
    pub(super) fn new(settings: KafkaSettings) -> Result<Self, MqError> {
        if settings.brokers.is_empty() {
            return Err(MqError::InvalidArgument(
                "no Kafka broker is given".to_owned(),
            ));
        }
        Ok(Self {
            settings,
            open: Mutex::new(None),
        })
    }

    /// How many partitions a topic has. `create`: it may be made.
    pub(super) async fn count(&self, topic: &str, create: bool) -> Result<u32, MqError> {
        let limit = self.settings.timeout;
        self.within(limit, async {
            let client = self.client().await?;
            match count(&client, topic).await? {
                Some(count) => Ok(count),
                None => match self.settings.create_topics.filter(|_| create) {
                    Some(form) => self.create(&client, topic, form).await,
                    None => Err(MqError::UnknownTopic(topic.to_owned())),
                },
            }
        })
        .await
    }

    async fn create(
        &self,
        client: &Client,
        topic: &str,
        (partitions, copies): (u32, u16),
    ) -> Result<u32, MqError> {
        let wrong = |_| MqError::InvalidArgument("too many partitions or copies".to_owned());
        let count = i32::try_from(partitions).map_err(wrong)?;
        let copies = i16::try_from(copies).map_err(wrong)?;
        let controller = client
            .controller_client()
            .map_err(|error| meaning(&error))?;
        let made = controller.create_topic(topic, count, copies, CREATE_TIMEOUT_MS);
        match made.await {
            Ok(())
            | Err(Error::ServerError {
                protocol_error: ProtocolError::TopicAlreadyExists,
                ..
            }) => until_it_is_shown(client, topic).await,
            Err(error) => Err(meaning(&error)),
        }
    }

    /// The connection to a partition's leader. Topics and partitions that are not there are
    /// found out beforehand: the broker would make them.
    pub(super) async fn partition(
        &self,
        topic: &str,
        partition: u32,
    ) -> Result<Arc<PartitionClient>, MqError> {
        let key = (topic.to_owned(), partition);
        let known = self.open.lock().await;
        if let Some(found) = known.as_ref().and_then(|open| open.partitions.get(&key)) {
            return Ok(found.clone());
        }
        drop(known);
        let client = self.client().await?;
        let count = count(&client, topic).await?;
        let count = count.ok_or_else(|| MqError::UnknownTopic(topic.to_owned()))?;
        let number = i32::try_from(partition).ok().filter(|_| partition < count);
        let number = number.ok_or_else(|| MqError::UnknownPartition {
            topic: topic.to_owned(),
            partition,
            partitions: count,
        })?;
        let made = client.partition_client(topic, number, UnknownTopicHandling::Error);
        let made = Arc::new(made.await.map_err(|error| meaning(&error))?);
        if let Some(open) = self.open.lock().await.as_mut() {
            open.partitions.insert(key, made.clone());
        }
        Ok(made)
    }

    async fn client(&self) -> Result<Arc<Client>, MqError> {
        let mut open = self.open.lock().await;
        if let Some(open) = &*open {
            return Ok(open.client.clone());
        }
        let KafkaSettings {
            brokers,
            client_id,
            credentials,
            timeout,
            frame_limit,
            ..
        } = &self.settings;
        let mut builder = ClientBuilder::new(brokers.clone())
            .client_id(client_id.as_str())
            .max_message_size(*frame_limit)
            .backoff_config(BackoffConfig {
                init_backoff: Duration::from_millis(50),
                max_backoff: Duration::from_secs(1),
                base: 2.0,
                deadline: Some(*timeout),
            });
        if let Some((user, password)) = credentials {
            let password = String::from_utf8_lossy(password.bytes()).into_owned();
            let credentials = Credentials::new(user.clone(), password);
            builder = builder.sasl_config(SaslConfig::Plain(credentials));
        }
        let client = Arc::new(builder.build().await.map_err(|error| meaning(&error))?);
        *open = Some(Open {
            client: client.clone(),
            partitions: HashMap::new(),
        });
        Ok(client)
    }

    /// Does something within a time, and drops the connections when the cluster does not answer:
    /// nobody knows in which state they are.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, MqError>>,
    ) -> Result<T, MqError> {
        let done = tokio::time::timeout(limit, work).await;
        let done = done.unwrap_or_else(|_| {
            let brokers = self.settings.brokers.join(", ");
            Err(MqError::Unavailable(format!(
                "no answer from Kafka at {brokers} within {limit:?}"
            )))
        });
        if let Err(MqError::Unavailable(_) | MqError::UnknownTopic(_)) = &done {
            *self.open.lock().await = None;
        }
        done
    }
}

/// A broker shows a topic a while after its controller has made it. The caller has a limit.
async fn until_it_is_shown(client: &Client, topic: &str) -> Result<u32, MqError> {
    loop {
        match count(client, topic).await? {
            Some(count) => return Ok(count),
            None => tokio::time::sleep(SHOWN_POLL).await,
        }
    }
}

async fn count(client: &Client, topic: &str) -> Result<Option<u32>, MqError> {
    let topics = client
        .list_topics()
        .await
        .map_err(|error| meaning(&error))?;
    let found = topics.into_iter().find(|found| found.name == topic);
    Ok(found.map(|found| u32::try_from(found.partitions.len()).unwrap_or(u32::MAX)))
}

/// What an error means to who called.
pub(super) fn meaning(error: &Error) -> MqError {
    let text = error.to_string();
    match error {
        Error::ServerError { protocol_error, .. } => match protocol_error {
            ProtocolError::UnknownTopicOrPartition
            | ProtocolError::LeaderNotAvailable
            | ProtocolError::NotLeaderOrFollower
            | ProtocolError::RequestTimedOut
            | ProtocolError::NetworkException
            | ProtocolError::CoordinatorLoadInProgress
            | ProtocolError::NotEnoughReplicas
            | ProtocolError::NotEnoughReplicasAfterAppend
            | ProtocolError::NotController
            | ProtocolError::KafkaStorageError
            | ProtocolError::UnknownLeaderEpoch
            | ProtocolError::FencedLeaderEpoch
            | ProtocolError::OffsetNotAvailable
            | ProtocolError::ReplicaNotAvailable => MqError::Unavailable(text),
            _ => MqError::Refused(text),
        },
        Error::Connection(rskafka::ConnectionError::SaslFailed(_)) => MqError::Refused(text),
        _ => MqError::Unavailable(text),
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}
