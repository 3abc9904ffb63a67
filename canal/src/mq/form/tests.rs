//! Batches to messages within limits, and hostile messages.

use proptest::prelude::*;

use super::*;
use crate::message::BatchId;
use crate::mq::golden;

const PLACE: (&str, i64) = ("changes[0]", 7);

fn batch(names: &[&str]) -> Message {
    let entries = names.iter().map(|name| golden::entry(name).raw().clone());
    Message::new(BatchId::new(1, 5), Arc::from("example"), entries.collect())
}

fn messages(form: MqForm, names: &[&str], limit: usize) -> Result<ByPartition, MqError> {
    let routing = MqRouting::to("t").with_partition_hash(r".*\..*:$pk$")?;
    let outgoing = Outgoing::read(&batch(names), &routing)?;
    let partitions = BTreeMap::from([("t".to_owned(), 4)]);
    outgoing.messages(form, &routing, &partitions, limit, 1)
}

/// Table, kind and first column of every row, by partition and in order.
fn rows(messages: &ByPartition) -> BTreeMap<u32, Vec<String>> {
    let mut rows: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for ((_, partition), messages) in messages {
        let raw = messages
            .iter()
            .flat_map(|message| entries(message.clone(), PLACE).unwrap());
        for entry in raw {
            let entry = Entry::decode(Arc::from("t"), entry).unwrap();
            let parsed = Parsed::of(&entry).unwrap().unwrap();
            let kind = format!("{} {:?}", entry.table_name(), parsed.event_type);
            let rows = rows.entry(*partition).or_default();
            if parsed.rows().is_empty() {
                rows.push(kind.clone());
            }
            for row in parsed.rows() {
                let id = String::from_utf8_lossy(&parsed.image(row)[0].value);
                rows.push(format!("{kind} {id}"));
            }
        }
    }
    rows
}

#[test]
fn both_forms_bring_the_same_rows_in_the_same_order_to_the_same_partitions() {
    let names = ["insert", "many", "update", "alter", "delete", "query"];
    let flat = rows(&messages(MqForm::Flat, &names, 1 << 20).unwrap());
    let protobuf = rows(&messages(MqForm::Protobuf, &names, 1 << 20).unwrap());
    assert_eq!(flat, protobuf);
    assert_eq!(
        flat.values().map(Vec::len).sum::<usize>(),
        2 + 12 + 2 + 1 + 1 + 1
    );
    // The same row's changes follow each other.
    let of_one: Vec<_> = flat
        .values()
        .flatten()
        .filter(|row| row.starts_with("orders") && row.ends_with(" 1"))
        .collect();
    assert_eq!(
        of_one,
        ["orders Insert 1", "orders Update 1", "orders Delete 1"]
    );
}

#[test]
fn rows_above_the_limit_come_in_several_messages_in_order() {
    for form in [MqForm::Flat, MqForm::Protobuf] {
        let whole = messages(form, &["many", "many"], 1 << 20).unwrap();
        let limit = 450;
        let split = messages(form, &["many", "many"], limit).unwrap();
        assert_eq!(rows(&split), rows(&whole), "{form:?}");
        let count = |messages: &ByPartition| messages.values().map(Vec::len).sum::<usize>();
        assert!(count(&split) > count(&whole), "{form:?}");
        assert!(
            split
                .values()
                .flatten()
                .all(|message| message.len() <= limit),
            "{form:?}"
        );
    }
}

#[test]
fn a_row_above_the_limit_is_an_error_that_names_it() {
    for form in [MqForm::Flat, MqForm::Protobuf] {
        match messages(form, &["many"], 100) {
            Err(error @ MqError::MessageTooLarge { limit, bytes, .. }) => {
                assert!(bytes > limit);
                assert!(
                    error.to_string().contains("Lager_🚀 at binlog.000003:4711"),
                    "{error}"
                );
                assert!(!error.is_retryable());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn begins_and_ends_of_transactions_are_left_out() {
    use crate::protocol::generated::entry as wire;
    use prost::Message as _;
    let end = wire::Entry {
        entry_type: Some(wire::EntryType::TransactionEnd.into()),
        ..wire::Entry::default()
    };
    let message = Message::new(
        BatchId::new(1, 5),
        Arc::from("example"),
        vec![end.encode_to_vec().into()],
    );
    let routing = MqRouting::to("t");
    let outgoing = Outgoing::read(&message, &routing).unwrap();
    assert_eq!(outgoing.topics().count(), 0);
    let nothing = outgoing
        .messages(MqForm::Flat, &routing, &BTreeMap::new(), 9999, 1)
        .unwrap();
    assert!(nothing.is_empty());
}

#[test]
fn what_is_no_message_of_canals_is_an_error() {
    // An acknowledgement's packet, a compressed one, entries that are none, content that is none.
    for hex in [
        &b"\x10\x01\x18\x03"[..],
        b"\x18\x07\x20\x03",
        b"\x18\x07\x2a\x03\x12\x01\x0a",
        b"\x18\x07\x2a\x06\x12\x04\x1a\x02\x0a\xff",
        b"\x00",
        b"\xff\xff",
        b"",
        b"  ",
        b"null",
    ] {
        assert!(entries(Bytes::from_static(hex), PLACE).is_err(), "{hex:?}");
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = entries(bytes.into(), PLACE);
    }

    #[test]
    fn a_damaged_packet_is_an_error_or_entries_that_can_be_read(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let whole = messages(MqForm::Protobuf, &["insert", "update"], 1 << 20).unwrap();
        for message in whole.values().flatten() {
            let mut bytes = message.to_vec();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            for raw in entries(bytes.into(), PLACE).unwrap_or_default() {
                Entry::decode(Arc::from("t"), raw).unwrap().row_change().unwrap();
            }
        }
    }
}
