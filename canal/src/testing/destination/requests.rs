//! The requests of clients, and why they are refused.

use std::time::{Duration, Instant};

use super::super::client::BatchError;
use super::{Destination, Filter, Outcome};
use crate::protocol::generated::packet::Get;
use crate::protocol::packet::NO_BATCH;

/// What a GET asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GetRequest {
    pub(crate) fetch_size: i32,
    pub(crate) wait: Wait,
}

/// How long a GET waits for a full batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Not,
    AtMost(Duration),
    ForEver,
}

impl GetRequest {
    /// Reads the fields as the real server does: an absent time-out is 0, "for ever", and an absent
    /// unit is nanoseconds.
    pub(crate) fn of(get: &Get) -> Self {
        let wait = match get.timeout.unwrap_or(0) {
            0 => Wait::ForEver,
            timeout => match u64::try_from(timeout) {
                Ok(timeout) => Wait::AtMost(duration(timeout, get.unit.unwrap_or(0))),
                Err(_) => Wait::Not,
            },
        };
        Self {
            fetch_size: get.fetch_size,
            wait,
        }
    }

    /// When the wait of a GET that got the lock at `since` is over; `None` is never.
    pub(crate) fn until(&self, since: Instant) -> Option<Instant> {
        match self.wait {
            Wait::Not => Some(since),
            Wait::AtMost(limit) => since.checked_add(limit),
            Wait::ForEver => None,
        }
    }
}

/// `amount` in a unit of Java's `TimeUnit`, by ordinal; an unknown one means milliseconds.
fn duration(amount: u64, unit: i32) -> Duration {
    match unit {
        0 => Duration::from_nanos(amount),
        1 => Duration::from_micros(amount),
        3 => Duration::from_secs(amount),
        4 => Duration::from_secs(amount.saturating_mul(60)),
        5 => Duration::from_secs(amount.saturating_mul(3_600)),
        6 => Duration::from_secs(amount.saturating_mul(86_400)),
        _ => Duration::from_millis(amount),
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The destination is not known here or not running: another node may have it.
    ShouldStartFirst(String),
    ShouldSubscribeFirst {
        destination: String,
        client: i16,
    },
    DestinationOrClientIdMissing,
    /// The client id is no Java short.
    NotANumber(String),
    /// An ack without a batch id.
    BatchIdMissing,
    UnknownBatch {
        failure: &'static str,
        client: i16,
        batch: i64,
    },
    NotTheFirst {
        batch: i64,
        first: i64,
    },
    NoMatch,
    NoEntryFits,
    SlotsFreed,
    /// The body is not the message that the packet's type says.
    Unparsable(String),
    UnsupportedType(&'static str),
}

impl Refusal {
    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::DestinationOrClientIdMissing => 401,
            Self::BatchIdMissing => 402,
            _ => 400,
        }
    }

    /// The real server's text, without its Java stack trace.
    pub(crate) fn text(&self) -> String {
        const SERVER: &str = "com.alibaba.otter.canal.server.exception.CanalServerException";
        const META: &str = "com.alibaba.otter.canal.meta.exception.CanalMetaManagerException";
        const STORE: &str = "com.alibaba.otter.canal.store.CanalStoreException";
        let exception = match self {
            Self::DestinationOrClientIdMissing => {
                return "destination or clientId is null".to_owned();
            }
            Self::BatchIdMissing => return "batchId should assign value".to_owned(),
            Self::UnsupportedType(name) => {
                return format!("packet type={name} is NOT supported!");
            }
            Self::ShouldStartFirst(destination) => {
                format!("{SERVER}: destination:{destination} should start first")
            }
            Self::ShouldSubscribeFirst {
                destination,
                client,
            } => format!(
                "{SERVER}: ClientIdentity:ClientIdentity[destination={destination},\
                 clientId={client},filter=<null>] should subscribe first"
            ),
            Self::NotANumber(text) if text.parse::<i64>().is_ok() => format!(
                "java.lang.NumberFormatException: Value out of range. Value:\"{text}\" Radix:10"
            ),
            Self::NotANumber(text) => {
                format!("java.lang.NumberFormatException: For input string: \"{text}\"")
            }
            Self::UnknownBatch {
                failure,
                client,
                batch,
            } => format!(
                "{SERVER}: {failure}, clientId:{client} batchId:{batch} is not exist , please check"
            ),
            Self::NotTheFirst { batch, first } => {
                format!("{META}: batchId:{batch} is not the firstly:{first}")
            }
            Self::NoMatch => format!("{STORE}: no match ack position"),
            Self::NoEntryFits => {
                "java.lang.IndexOutOfBoundsException: Index 0 out of bounds for length 0".to_owned()
            }
            Self::SlotsFreed => "java.lang.NullPointerException".to_owned(),
            Self::Unparsable(why) => {
                format!("com.google.protobuf.InvalidProtocolBufferException: {why}")
            }
        };
        format!("something goes wrong with channel:[lockkeeper], exception={exception}")
    }
}

impl Destination {
    /// SUBSCRIPTION: a filter that is not empty takes the place of the one in force.
    pub(crate) fn subscribe(&mut self, client: i16, filter: &str) -> Result<(), Refusal> {
        self.check_running()?;
        let start = self.store.unacknowledged_start();
        let client = self.clients.entry(client).or_default();
        client.subscribed = true;
        if client.cursor.is_none() {
            client.cursor = Some(start);
            client.persisted = Some(start);
        }
        if !filter.is_empty() {
            self.filter = Filter::new(filter);
        }
        self.counts.subscriptions += 1;
        Ok(())
    }

    /// UNSUBSCRIPTION: succeeds for a client that never subscribed, too.
    pub(crate) fn unsubscribe(&mut self, client: i16) -> Result<(), Refusal> {
        self.check_running()?;
        self.clients.entry(client).or_default().unsubscribe();
        self.counts.unsubscriptions += 1;
        Ok(())
    }

    /// CLIENTACK; does not take the lock.
    pub(crate) fn ack(&mut self, client: i16, batch: i64) -> Result<(), Refusal> {
        if batch == 0 {
            return Err(Refusal::BatchIdMissing);
        }
        if batch == NO_BATCH {
            self.counts.empty_acks += 1;
            return Ok(());
        }
        self.check_subscribed(client)?;
        let range = self.remove("ack error ", client, batch)?;
        if let Some(boundary) = range.boundary {
            self.clients.entry(client).or_default().cursor = Some(boundary);
        }
        self.store.ack(range).map_err(|_| Refusal::NoMatch)?;
        self.count_acked(range);
        Ok(())
    }

    /// Checks what the real server checks before a GET waits for the lock.
    pub(crate) fn check_subscribed(&self, client: i16) -> Result<(), Refusal> {
        self.check_running()?;
        if self.is_subscribed(client) {
            return Ok(());
        }
        Err(Refusal::ShouldSubscribeFirst {
            destination: self.name.clone(),
            client,
        })
    }

    pub(crate) fn is_subscribed(&self, client: i16) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|client| client.subscribed)
    }

    pub(crate) fn check_running(&self) -> Result<(), Refusal> {
        if self.running {
            return Ok(());
        }
        Err(Refusal::ShouldStartFirst(self.name.clone()))
    }

    /// CLIENTROLLBACK, within the lock.
    pub(super) fn rollback(&mut self, client: i16, batch: Option<i64>) -> Outcome {
        match batch {
            None => self.clients.entry(client).or_default().clear(),
            Some(batch) => {
                if let Err(refusal) = self.remove("rollback error", client, batch) {
                    return Outcome::Refused(refusal);
                }
            }
        }
        self.store.rollback();
        self.counts.rollbacks += 1;
        Outcome::Silent
    }

    fn remove(
        &mut self,
        failure: &'static str,
        client: i16,
        batch: i64,
    ) -> Result<super::Range, Refusal> {
        let batches = self.clients.entry(client).or_default();
        batches.remove(batch).map_err(|error| match error {
            BatchError::Unknown => Refusal::UnknownBatch {
                failure,
                client,
                batch,
            },
            BatchError::NotTheFirst(first) => Refusal::NotTheFirst { batch, first },
        })
    }
}
