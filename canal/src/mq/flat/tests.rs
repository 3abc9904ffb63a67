//! Flat messages to entries and back, and what is none.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::entry::Entry;
use crate::mq::golden;
use crate::parsed::Parsed;
use crate::row::ChangeKind;

const PLACE: (&str, i64) = ("changes[3]", 42);

fn flat(parsed: &Parsed) -> FlatMessage {
    let parts = Parts::new(parsed, 5, 1).unwrap();
    parts.with_rows(0..parsed.rows().len()).unwrap()
}

fn entry(message: &FlatMessage) -> Entry {
    Entry::decode(Arc::from(PLACE.0), message.to_entry(PLACE).unwrap()).unwrap()
}

#[test]
fn an_entry_comes_out_of_a_flat_message_as_it_went_in_but_for_its_place() {
    for name in ["insert", "update", "delete", "alter", "query", "many"] {
        let before = golden::parsed(name);
        let after = entry(&flat(&before));
        assert_eq!(after.position().to_string(), "changes[3]:42");
        let after = Parsed::of(&after).unwrap().unwrap();
        assert_eq!(after.header.execute_time, before.header.execute_time);
        assert_eq!(after.header.schema_name, before.header.schema_name);
        assert_eq!(after.header.table_name, before.header.table_name);
        let mut wanted = before.change.clone();
        wanted.table_id = 0;
        assert_eq!(after.change, wanted, "{name}");
    }
}

#[test]
fn rows_of_a_flat_message_become_structs() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Order {
        id: u64,
        customer: Option<String>,
        bytes: Option<Vec<u8>>,
    }
    let change = entry(&flat(&golden::parsed("insert")))
        .row_change()
        .unwrap()
        .unwrap();
    let rows: Vec<_> = change
        .rows::<Order>()
        .map(|row| row.unwrap().after.unwrap())
        .collect();
    assert_eq!(rows[0].bytes.as_deref(), Some(&[0, 0xff, 0x80, b'x'][..]));
    assert_eq!((rows[1].id, &rows[1].customer), (u64::MAX, &None));
    let change = entry(&flat(&golden::parsed("update")))
        .row_change()
        .unwrap()
        .unwrap();
    let row = change.rows::<Order>().next().unwrap().unwrap();
    assert_eq!(
        row.before.as_ref().unwrap().customer.as_deref(),
        Some("Ada")
    );
    assert_eq!(row.after.as_ref().unwrap().customer.as_deref(), Some("Bob"));
    let changed: Vec<_> = row
        .changed()
        .map(|column| column.name().into_owned())
        .collect();
    assert_eq!(changed, ["customer"]);
    let change = entry(&flat(&golden::parsed("alter")))
        .row_change()
        .unwrap()
        .unwrap();
    assert_eq!(change.kind(), ChangeKind::SchemaChange);
}

#[test]
fn what_other_producers_of_the_form_write_is_read_too() {
    let json = br#" {"type":"UPDATE","database":"shop","table":"t","isDdl":null,"pkNames":["id"],"unknown":{"a":[1]},
        "data":[{"id":7,"ok":true,"note":null}],"old":[{"ok":false}]}"#;
    let message = FlatMessage::parse(json).unwrap();
    assert_eq!(
        (
            message.database(),
            message.table(),
            message.event_type(),
            message.rows()
        ),
        ("shop", "t", "UPDATE", 1)
    );
    let change = entry(&message).row_change().unwrap().unwrap();
    let row = change.raw_rows().next().unwrap();
    assert_eq!(row.before().get("ok").unwrap().text(), Some("0"));
    assert_eq!(row.after().get("ok").unwrap().text(), Some("1"));
    assert_eq!(row.after().get("id").unwrap().text(), Some("7"));
    assert!(row.after().get("id").unwrap().is_key());
    assert!(row.after().get("note").unwrap().is_null());
}

#[test]
fn rows_whose_old_values_nobody_can_tell_are_an_error() {
    let json = br#"{"type":"UPDATE","data":[{"id":"1"},{"id":"2"}],"old":[{"id":"0"}]}"#;
    let wrong = FlatMessage::parse(json)
        .unwrap()
        .to_entry(PLACE)
        .unwrap_err();
    assert!(wrong.contains("`old` has 1 rows and `data` 2"), "{wrong}");
}

#[test]
fn what_is_no_flat_message_is_an_error() {
    let deep = "[".repeat(100_000);
    for json in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"INSERT","data":{}}"#,
        r#"{"type":"INSERT","data":[[1]]}"#,
        r#"{"type":"INSERT","data":[{"a":{}}]}"#,
        r#"{"type":"INSERT"} x"#,
        r#"{"type":"INSERT","es":"soon"}"#,
        &format!(r#"{{"type":"INSERT","data":{deep}"#),
        "\u{feff}{}",
    ] {
        assert!(
            FlatMessage::parse(json.as_bytes()).is_err(),
            "{}",
            &json[..json.len().min(60)]
        );
    }
    let wrong = FlatMessage::parse(br#"{"type":"MERGE"}"#)
        .unwrap()
        .to_entry(PLACE)
        .unwrap_err();
    assert!(wrong.contains("MERGE"), "{wrong}");
}

fn text() -> impl Strategy<Value = Text> {
    proptest::option::of(".{0,8}").prop_map(Text)
}

fn message() -> impl Strategy<Value = FlatMessage> {
    let names = proptest::collection::btree_set("[a-zé\"]{1,4}", 1..5);
    let kinds = proptest::sample::select(vec!["INSERT", "UPDATE", "DELETE"]);
    (names, kinds, 1..4_usize).prop_flat_map(|(names, kind, rows)| {
        let names: Vec<_> = names.into_iter().collect();
        let width = names.len();
        let rows = || proptest::collection::vec(proptest::collection::vec(text(), width), rows);
        (rows(), rows(), any::<i64>(), ".{0,6}").prop_map(move |(data, old, es, table)| {
            let row = |texts: Vec<Text>| Ordered(names.iter().cloned().zip(texts).collect());
            let all = |rows: Vec<Vec<Text>>| rows.into_iter().map(row).collect::<Vec<_>>();
            let types = names
                .iter()
                .map(|name| (name.clone(), "varchar(9)".to_owned()));
            let numbers = names.iter().map(|name| (name.clone(), 12));
            FlatMessage {
                data: Some(all(data)),
                database: "shop".to_owned(),
                es,
                id: 5,
                mysql_type: Some(Ordered(types.collect())),
                old: (kind == "UPDATE").then(|| all(old)),
                pk_names: Some(vec![names[0].clone()]),
                sql_type: Some(Ordered(numbers.collect())),
                table,
                ts: 1,
                event_type: kind.to_owned(),
                ..FlatMessage::default()
            }
        })
    })
}

proptest! {
    #[test]
    fn any_message_survives_json_and_an_entry(message in message()) {
        let read = FlatMessage::parse(&message.to_json()).unwrap();
        prop_assert_eq!(&read, &message);
        let parsed = Parsed::of(&entry(&message)).unwrap().unwrap();
        prop_assert_eq!(flat(&parsed), message);
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = FlatMessage::parse(&bytes) {
            let _ = message.to_entry(PLACE);
        }
    }

    #[test]
    fn a_message_that_was_damaged_never_panics(
        message in message(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut json = message.to_json();
        let at = at.index(json.len());
        if cut { json.truncate(at) } else { json[at] = byte }
        if let Ok(message) = FlatMessage::parse(&json) {
            let _ = message.to_entry(PLACE);
        }
    }
}
