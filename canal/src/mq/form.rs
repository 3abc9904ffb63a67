//! The two forms of messages: what batches become, and what becomes of messages.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::error::MqError;
use super::flat::{FlatMessage, Parts};
use super::protobuf;
use super::routing::MqRouting;
use crate::entry::{Entry, EntryType};
use crate::message::Message;
use crate::parsed::Parsed;

/// In which form batches are written to a queue. A reader takes both: it sees which one it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum MqForm {
    /// [`FlatMessage`]s: JSON, one message for the rows of a statement that go to one partition.
    /// Canal's `canal.mq.flatMessage = true`, its default.
    #[default]
    Flat,
    /// The packets of Canal's own protocol: one message for a batch's rows that go to one
    /// partition. Smaller, quicker to read, and with positions in the binlog.
    Protobuf,
}

/// Messages for one partition, in order.
pub(super) type ByPartition = BTreeMap<(String, u32), Vec<Bytes>>;

/// A batch that waits to be turned into messages.
pub(super) struct Outgoing {
    id: i64,
    parsed: Vec<(String, Parsed)>,
}

impl Outgoing {
    /// Reads a batch. Begins and ends of transactions are left out, as Canal does.
    pub(super) fn read(message: &Message, routing: &MqRouting) -> Result<Self, MqError> {
        let mut parsed = Vec::new();
        for entry in message.entries() {
            let Some(entry) = Parsed::of(&entry?)? else {
                continue;
            };
            let header = &entry.header;
            let topic = routing.topic_of(&header.schema_name, &header.table_name);
            parsed.push((topic, entry));
        }
        Ok(Self {
            id: message.id().id(),
            parsed,
        })
    }

    /// The topics that it needs.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.parsed.iter().map(|(topic, _)| topic.as_str())
    }

    /// The messages, none above `limit` bytes. `partitions` says how many each topic has.
    pub(super) fn messages(
        &self,
        form: MqForm,
        routing: &MqRouting,
        partitions: &BTreeMap<String, u32>,
        limit: usize,
        now: i64,
    ) -> Result<ByPartition, MqError> {
        let mut messages = ByPartition::new();
        let mut packed: BTreeMap<(String, u32), Packed> = BTreeMap::new();
        for (topic, parsed) in &self.parsed {
            let existing = partitions.get(topic).copied().unwrap_or(0);
            let flat = match form {
                MqForm::Flat => Some(Parts::new(parsed, self.id, now)?),
                MqForm::Protobuf => None,
            };
            for (partition, rows) in routing.split(parsed, topic, existing)? {
                let to = (topic.clone(), partition);
                let too_large = |bytes| too_large(topic, parsed, bytes, limit);
                if let Some(flat) = &flat {
                    let write =
                        |rows: &[usize]| Ok(flat.with_rows(rows.iter().copied())?.to_json().into());
                    let made = fitting(&rows, limit, &write, &too_large)?;
                    messages.entry(to).or_default().extend(made);
                } else {
                    let limit = limit.saturating_sub(protobuf::OVERHEAD + protobuf::ENTRY_OVERHEAD);
                    let write = |rows: &[usize]| Ok(parsed.with_rows(rows.iter().copied()).into());
                    let made = fitting(&rows, limit, &write, &too_large)?;
                    let packed = packed.entry(to).or_default();
                    made.into_iter().for_each(|entry| packed.add(entry, limit));
                }
            }
        }
        for (to, packed) in packed {
            messages.insert(to, packed.finish());
        }
        Ok(messages)
    }
}

/// Writes rows as one message, or as several with fewer rows each where one is above the limit.
fn fitting(
    rows: &[usize],
    limit: usize,
    write: &impl Fn(&[usize]) -> Result<Bytes, MqError>,
    too_large: &impl Fn(usize) -> MqError,
) -> Result<Vec<Bytes>, MqError> {
    let whole = write(rows)?;
    if whole.len() <= limit {
        return Ok(vec![whole]);
    }
    if rows.len() < 2 {
        return Err(too_large(whole.len()));
    }
    let (first, second) = rows.split_at(rows.len() / 2);
    let mut messages = fitting(first, limit, write, too_large)?;
    messages.extend(fitting(second, limit, write, too_large)?);
    Ok(messages)
}

fn too_large(topic: &str, parsed: &Parsed, bytes: usize, limit: usize) -> MqError {
    MqError::MessageTooLarge {
        topic: topic.to_owned(),
        what: parsed.place(),
        bytes,
        limit,
    }
}

/// Entries that are put into as few messages as the limit allows.
#[derive(Default)]
struct Packed {
    done: Vec<Bytes>,
    open: Vec<Bytes>,
    bytes: usize,
}

impl Packed {
    fn add(&mut self, entry: Bytes, limit: usize) {
        let bytes = entry.len() + protobuf::ENTRY_OVERHEAD;
        if self.bytes + bytes > limit && !self.open.is_empty() {
            self.close();
        }
        self.bytes += bytes;
        self.open.push(entry);
    }

    fn close(&mut self) {
        self.bytes = 0;
        self.done
            .push(protobuf::encode(std::mem::take(&mut self.open)));
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            self.close();
        }
        self.done
    }
}

/// The entries of a message in either form, each readable to its last row. `place` is the
/// message's own: topic with partition, and offset.
pub(super) fn entries(payload: Bytes, place: (&str, i64)) -> Result<Vec<Bytes>, String> {
    let start = payload.iter().find(|byte| !byte.is_ascii_whitespace());
    match start {
        None => Err("it is empty".to_owned()),
        Some(b'{') => Ok(vec![FlatMessage::parse(&payload)?.to_entry(place)?]),
        Some(_) => {
            let entries = protobuf::decode(payload)?;
            let source: Arc<str> = place.0.into();
            for raw in &entries {
                let entry =
                    Entry::decode(source.clone(), raw.clone()).map_err(|e| e.to_string())?;
                if entry.entry_type() == EntryType::RowData {
                    entry.row_change().map_err(|error| error.to_string())?;
                }
            }
            Ok(entries)
        }
    }
}
