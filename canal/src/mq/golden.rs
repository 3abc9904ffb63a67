//! What Canal's own library made of entries, beside what is made here: `golden.txt`.

use std::sync::Arc;

use bytes::Bytes;

use super::flat::{FlatMessage, Parts};
use super::routing::MqRouting;
use super::{form, protobuf};
use crate::entry::Entry;
use crate::parsed::Parsed;

/// The lines of one kind, without the kind.
fn lines(kind: &str) -> impl Iterator<Item = &'static str> {
    let all = include_str!("golden.txt").lines();
    all.filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(' '))
}

fn bytes(hex: &str) -> Bytes {
    let digits = hex.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16));
    bytes.collect::<Result<Vec<_>, _>>().unwrap().into()
}

pub(super) fn entry(wanted: &str) -> Entry {
    let mut found = lines("entry").filter_map(|line| line.split_once(' '));
    let (_, hex) = found.find(|(name, _)| *name == wanted).unwrap();
    Entry::decode(Arc::from("example"), bytes(hex)).unwrap()
}

pub(super) fn parsed(wanted: &str) -> Parsed {
    Parsed::of(&entry(wanted)).unwrap().unwrap()
}

fn flat(wanted: &str) -> FlatMessage {
    let parsed = parsed(wanted);
    let parts = Parts::new(&parsed, 5, 1_700_000_000_123).unwrap();
    parts.with_rows(0..parsed.rows().len()).unwrap()
}

#[test]
fn flat_messages_are_what_canals_own_server_writes() {
    let mut count = 0;
    for (name, json) in lines("flat").filter_map(|line| line.split_once(' ')) {
        let ours = flat(name);
        let theirs = FlatMessage::parse(json.as_bytes()).unwrap();
        assert_eq!(ours, theirs, "{name}");
        // Byte for byte, but for the control characters that either may escape its own way.
        let text = String::from_utf8(ours.to_json()).unwrap();
        let plain = |text: &str| text.replace("\\u0080", "\u{80}");
        assert_eq!(plain(&text), plain(json), "{name}");
        count += 1;
    }
    assert_eq!(count, 6);
}

#[test]
fn packets_are_what_canals_own_server_writes() {
    for (name, hex) in lines("packet").filter_map(|line| line.split_once(' ')) {
        let raw = entry(name).raw().clone();
        assert_eq!(protobuf::encode(vec![raw.clone()]), bytes(hex), "{name}");
        assert_eq!(
            form::entries(bytes(hex), ("topic[0]", 9)).unwrap(),
            [raw],
            "{name}"
        );
    }
}

/// Rules, partitions, database hash and what goes where, of a line.
fn routed(line: &str) -> (Parsed, MqRouting, u32, Vec<(u32, String)>) {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap();
    let (name, rules, count, database) = (word(), word(), word(), word());
    let mut routing = MqRouting::to("changes").with_partition_hash(rules).unwrap();
    if database == "false" {
        routing = routing.without_database_hash();
    }
    let wanted = words.map(|part| {
        let (partition, rows) = part.split_once(':').unwrap();
        (partition.parse().unwrap(), rows.to_owned())
    });
    let wanted = wanted.collect();
    (parsed(name), routing, count.parse().unwrap(), wanted)
}

#[test]
fn rows_go_to_the_partitions_where_canals_own_server_sends_them() {
    let mut count = 0;
    for line in lines("hash") {
        // Under another case than the column's, Canal hashes nothing in flat messages.
        if line.contains(":Amount") {
            continue;
        }
        let (parsed, routing, partitions, wanted) = routed(line);
        let mut split = routing.split(&parsed, "changes", partitions).unwrap();
        split.sort();
        let texts = split.into_iter().map(|(partition, rows)| {
            let rows: Vec<_> = rows.iter().map(usize::to_string).collect();
            (partition, rows.join(","))
        });
        assert_eq!(texts.collect::<Vec<_>>(), wanted, "{line}");
        count += 1;
    }
    for line in lines("raw").filter(|line| line.contains(":Amount")) {
        let (parsed, routing, partitions, wanted) = routed(line);
        let mut split = routing.split(&parsed, "changes", partitions).unwrap();
        split.sort();
        let counts = split
            .into_iter()
            .map(|(partition, rows)| (partition, rows.len().max(1).to_string()));
        assert_eq!(counts.collect::<Vec<_>>(), wanted, "{line}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn topics_are_those_that_canals_own_server_chooses() {
    let mut count = 0;
    for line in lines("topic") {
        let words: Vec<_> = line.split(' ').collect();
        let (rules, name, topic) = (words[0], words[1], words[2]);
        let (schema, table) = name.split_once('.').unwrap();
        let routing = MqRouting::to("default.topic")
            .with_dynamic_topic(rules)
            .unwrap();
        assert_eq!(routing.topic_of(schema, table), topic, "{line}");
        count += 1;
    }
    assert_eq!(count, 8);
}
