//! Values of every common column type, right or a typed error.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use rust_decimal::Decimal;
use serde::Deserialize;

use super::*;
use crate::entry::EntryType;
use crate::protocol::generated::entry as wire;

fn column(name: &str, mysql_type: &str, value: Option<&str>) -> wire::Column {
    wire::Column {
        name: Bytes::copy_from_slice(name.as_bytes()),
        mysql_type: Bytes::copy_from_slice(mysql_type.as_bytes()),
        value: Bytes::copy_from_slice(value.unwrap_or_default().as_bytes()),
        is_null: Some(value.is_none()),
        ..wire::Column::default()
    }
}

fn change(change: &wire::RowChange) -> RowChange {
    let entry = wire::Entry {
        header: Some(wire::Header {
            logfile_name: "binlog.000007".to_owned(),
            logfile_offset: 42,
            schema_name: "shop".to_owned(),
            table_name: "orders".to_owned(),
            ..wire::Header::default()
        }),
        entry_type: Some(EntryType::RowData.number()),
        store_value: Bytes::from(change.encode_to_vec()),
    };
    let entry = Entry::decode(Arc::from("example"), Bytes::from(entry.encode_to_vec())).unwrap();
    entry.row_change().unwrap().unwrap()
}

fn inserted(columns: Vec<wire::Column>) -> RowChange {
    change(&wire::RowChange {
        event_type: Some(wire::EventType::Insert.into()),
        row_datas: vec![wire::RowData {
            after_columns: columns,
            ..Default::default()
        }],
        ..wire::RowChange::default()
    })
}

/// The one value of a row with the one column `c`.
fn value<T: for<'de> Deserialize<'de>>(
    mysql_type: &str,
    text: Option<&str>,
) -> Result<T, RowError> {
    #[derive(Deserialize)]
    struct One<T> {
        c: T,
    }
    let change = inserted(vec![column("c", mysql_type, text)]);
    let row = change.rows::<One<T>>().next().unwrap()?;
    Ok(row.after.unwrap().c)
}

#[derive(Debug, PartialEq, Deserialize)]
struct Order {
    id: u64,
    customer: String,
    amount: Decimal,
    note: Option<String>,
}

fn order(id: &str, amount: &str) -> Vec<wire::Column> {
    vec![
        column("id", "bigint(20) unsigned", Some(id)),
        column("customer", "varchar(40)", Some("anna 🚀")),
        column("amount", "decimal(12,2)", Some(amount)),
        column("placed", "datetime", Some("0000-00-00 00:00:00")),
        column("note", "text", None),
    ]
}

#[test]
fn an_update_has_both_images_and_what_changed() {
    let mut after = order("18446744073709551615", "12.50");
    after[2].updated = true;
    let change = change(&wire::RowChange {
        event_type: Some(wire::EventType::Update.into()),
        row_datas: vec![wire::RowData {
            before_columns: order("18446744073709551615", "7.25"),
            after_columns: after,
            ..Default::default()
        }],
        ..wire::RowChange::default()
    });
    assert_eq!(change.kind(), ChangeKind::Rows);
    let row = change.rows::<Order>().next().unwrap().unwrap();
    assert_eq!(row.before.as_ref().unwrap().amount, Decimal::new(725, 2));
    let expected = Order {
        id: u64::MAX,
        customer: "anna 🚀".to_owned(),
        amount: Decimal::new(1250, 2),
        note: None,
    };
    assert_eq!(row.after.as_ref(), Some(&expected));
    let changed: Vec<_> = row
        .changed()
        .map(|column| column.name().into_owned())
        .collect();
    assert_eq!(changed, ["amount"]);
    assert_eq!(
        row.raw.after().get("placed").unwrap().text(),
        Some("0000-00-00 00:00:00")
    );
}

#[test]
fn an_error_names_the_place_the_column_and_the_text() {
    let change = inserted(order("-1", "1.00"));
    let error = change.rows::<Order>().next().unwrap().unwrap_err();
    assert_eq!(error.destination(), "example");
    assert_eq!(error.position().to_string(), "binlog.000007:42");
    assert_eq!(
        (error.schema_name(), error.table_name()),
        ("shop", "orders")
    );
    assert_eq!(
        (error.column(), error.text(), error.row()),
        (Some("id"), Some("-1"), 0)
    );
    let shown = error.to_string();
    for part in [
        "example",
        "binlog.000007:42",
        "shop.orders",
        "`id`",
        "bigint(20) unsigned",
        "-1",
        "u64",
    ] {
        assert!(shown.contains(part), "{part} is missing in: {shown}");
    }
}

#[test]
fn a_missing_column_is_an_error_unless_it_is_optional() {
    let mut columns = order("1", "1.00");
    columns.pop();
    assert!(
        inserted(columns.clone())
            .rows::<Order>()
            .next()
            .unwrap()
            .is_ok()
    );
    columns.remove(1);
    let change = inserted(columns);
    let error = change.rows::<Order>().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("customer"), "{error}");
}

#[test]
fn values_of_the_integer_types() {
    assert_eq!(
        value::<u64>("bigint unsigned", Some("18446744073709551615")).unwrap(),
        u64::MAX
    );
    assert_eq!(
        value::<i64>("bigint", Some("-9223372036854775808")).unwrap(),
        i64::MIN
    );
    assert_eq!(
        value::<u8>("tinyint(3) unsigned", Some("255")).unwrap(),
        255
    );
    assert_eq!(value::<u8>("bit(8)", Some("255")).unwrap(), 255);
    assert_eq!(value::<u16>("year", Some("2024")).unwrap(), 2024);
    assert!(value::<i8>("tinyint", Some("128")).is_err());
    assert!(value::<u32>("int", Some("-1")).is_err());
    assert!(value::<i32>("int", Some("")).is_err());
    assert!(value::<i32>("int", None).is_err());
    assert_eq!(value::<Option<i32>>("int", None).unwrap(), None);
    assert_eq!(value::<Option<i32>>("int", Some("7")).unwrap(), Some(7));
}

#[test]
fn values_of_the_other_types() {
    assert!(value::<bool>("tinyint(1)", Some("1")).unwrap());
    assert!(!value::<bool>("bit(1)", Some("0")).unwrap());
    assert!(value::<bool>("tinyint(1)", Some("2")).is_err());
    assert_eq!(value::<f64>("double", Some("1.0E10")).unwrap(), 1e10);
    assert_eq!(
        value::<String>("decimal(65,30)", Some("1.10")).unwrap(),
        "1.10"
    );
    assert_eq!(
        value::<String>("time", Some("-838:59:59")).unwrap(),
        "-838:59:59"
    );
    assert_eq!(
        value::<String>("json", Some("{\"a\":1}")).unwrap(),
        "{\"a\":1}"
    );
    assert_eq!(value::<char>("char(1)", Some("ß")).unwrap(), 'ß');
    assert_eq!(value::<String>("varchar(2)", Some("")).unwrap(), "");
}

#[test]
fn every_byte_of_a_blob_survives() {
    let bytes: Vec<u8> = (0..=255).collect();
    let text: String = bytes.iter().copied().map(char::from).collect();
    assert_eq!(value::<Vec<u8>>("blob", Some(&text)).unwrap(), bytes);
    assert_eq!(
        value::<Vec<u8>>("varbinary(300)", Some(&text)).unwrap(),
        bytes
    );
    assert!(value::<Vec<u8>>("blob", Some("Ā")).is_err());
    // a text's bytes are its UTF-8
    assert_eq!(value::<Vec<u8>>("text", Some("é")).unwrap(), "é".as_bytes());
    // UTF-8 that was stored in a blob
    let stored: String = "é".bytes().map(char::from).collect();
    assert_eq!(value::<String>("blob", Some(&stored)).unwrap(), "é");
}

#[test]
fn the_zeros_that_the_binlog_leaves_out_are_there() {
    assert_eq!(
        value::<Vec<u8>>("binary(4)", Some("ÿ")).unwrap(),
        [255, 0, 0, 0]
    );
    assert_eq!(value::<Vec<u8>>("binary(2)", Some("")).unwrap(), [0, 0]);
    assert_eq!(value::<Vec<u8>>("varbinary(4)", Some("ÿ")).unwrap(), [255]);
    assert_eq!(value::<Option<Vec<u8>>>("binary(2)", None).unwrap(), None);
}

#[test]
fn bytes_that_the_server_took_for_text_are_whole_or_an_error() {
    let whole = value::<Vec<u8>>("uuid", Some("abcdefghijklmné")).unwrap();
    assert_eq!(whole, b"abcdefghijklmn\xc3\xa9");
    for (mysql_type, text) in [
        ("uuid", "abcdefghijklmn\u{FFFD}"),
        ("uuid", "abcdefghijklm\u{FFFD}"),
        ("inet4", "\u{FFFD}\u{2}"),
        ("inet4", ""),
    ] {
        let error = value::<Vec<u8>>(mysql_type, Some(text)).unwrap_err();
        assert!(error.to_string().contains("BINARY("), "{error}");
    }
}

#[test]
fn a_name_whose_characters_the_server_has_lost_is_an_error() {
    let states = "enum('new','a?')";
    assert_eq!(value::<String>(states, Some("1")).unwrap(), "new");
    assert!(value::<String>(states, Some("2")).is_err());
    assert_eq!(value::<u8>(states, Some("2")).unwrap(), 2);
}

#[test]
fn enums_and_sets_have_numbers_and_names() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum State {
        New,
        Paid,
    }
    let states = "enum('new','paid')";
    assert_eq!(value::<u8>(states, Some("2")).unwrap(), 2);
    assert_eq!(value::<String>(states, Some("2")).unwrap(), "paid");
    assert_eq!(value::<String>(states, Some("0")).unwrap(), "");
    assert_eq!(value::<State>(states, Some("1")).unwrap(), State::New);
    assert_eq!(
        value::<State>("varchar(4)", Some("paid")).unwrap(),
        State::Paid
    );
    assert!(value::<State>(states, Some("3")).is_err());
    let set = "set('a','b','c')";
    assert_eq!(value::<u64>(set, Some("5")).unwrap(), 5);
    assert_eq!(value::<String>(set, Some("5")).unwrap(), "a,c");
    assert_eq!(value::<String>(set, Some("0")).unwrap(), "");
    assert_eq!(value::<String>(set, Some("8")).unwrap(), "8");
}

#[test]
fn rows_become_maps_and_tuples_too() {
    let change = inserted(vec![
        column("a", "int", Some("1")),
        column("b", "int", Some("2")),
    ]);
    let row = change
        .rows::<BTreeMap<String, i32>>()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        row.after.unwrap(),
        BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)])
    );
    let row = change.rows::<(i32, i32)>().next().unwrap().unwrap();
    assert_eq!(row.after.unwrap(), (1, 2));
    let change = inserted(order("1", "1.50"));
    let row = change.rows::<serde_json::Value>().next().unwrap();
    // JSON has no bytes and this row has none
    assert_eq!(row.unwrap().after.unwrap()["amount"], "1.50");
}

#[test]
fn rows_become_enums_by_a_column_or_by_what_fits() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Event {
        Paid { id: u64, amount: Decimal },
        Sent { id: u64, to: Option<String> },
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Order { id: u64, amount: Decimal },
        Person { id: u64, name: String },
    }
    let row = |kind: &str| {
        inserted(vec![
            column("id", "bigint(20) unsigned", Some("7")),
            column("kind", "enum('paid','sent')", Some(kind)),
            column("amount", "decimal(12,2)", Some("1.50")),
            column("to", "varchar(9)", Some("Ada")),
        ])
    };
    let event = |kind| {
        let change = row(kind);
        let row = change.rows::<Event>().next().unwrap();
        row.map(|row| row.after.unwrap())
    };
    let amount = Decimal::new(150, 2);
    assert_eq!(event("1").unwrap(), Event::Paid { id: 7, amount });
    let to = Some("Ada".to_owned());
    assert_eq!(event("2").unwrap(), Event::Sent { id: 7, to });
    let error = event("3").unwrap_err();
    assert!(error.to_string().contains("shop.orders"), "{error}");
    let person = inserted(vec![
        column("id", "int(11)", Some("8")),
        column("name", "varchar(9)", Some("Ada")),
    ]);
    let (person, order) = (person, row("1"));
    let either = |change: &RowChange| {
        let row = change.rows::<Either>().next().unwrap();
        row.unwrap().after.unwrap()
    };
    assert_eq!(either(&order), Either::Order { id: 7, amount });
    let name = "Ada".to_owned();
    assert_eq!(either(&person), Either::Person { id: 8, name });
}

#[test]
fn statements_never_reach_row_handlers() {
    let statement = |event_type: wire::EventType, is_ddl: bool| {
        change(&wire::RowChange {
            event_type: Some(event_type.into()),
            is_ddl: Some(is_ddl),
            sql: "insert into orders values (1)".to_owned(),
            row_datas: vec![wire::RowData::default()],
            ..wire::RowChange::default()
        })
    };
    // servers 1.1.5 and 1.1.6 do not mark an ALTER
    for (event_type, is_ddl, kind) in [
        (wire::EventType::Alter, false, ChangeKind::SchemaChange),
        (wire::EventType::Query, true, ChangeKind::SchemaChange),
        (wire::EventType::Query, false, ChangeKind::Statement),
        (wire::EventType::Truncate, true, ChangeKind::SchemaChange),
    ] {
        let change = statement(event_type, is_ddl);
        assert_eq!(change.kind(), kind);
        assert_eq!(change.rows::<Order>().len(), 0);
        assert!(change.is_empty());
    }
    let other = change(&wire::RowChange {
        event_type: Some(wire::EventType::XaCommit.into()),
        ..wire::RowChange::default()
    });
    assert_eq!(other.kind(), ChangeKind::Other);
}

proptest! {
    #[test]
    fn any_text_becomes_a_value_or_an_error(
        mysql_type in "(int|bigint unsigned|blob|enum\\('a'\\)|set\\('a','b'\\)|double|bit|.{0,12})",
        text in ".{0,24}",
    ) {
        let text = Some(text.as_str());
        let _ = value::<i64>(&mysql_type, text);
        let _ = value::<f32>(&mysql_type, text);
        let _ = value::<bool>(&mysql_type, text);
        let _ = value::<char>(&mysql_type, text);
        let _ = value::<String>(&mysql_type, text);
        let _ = value::<Vec<u8>>(&mysql_type, text);
        let _ = value::<serde_json::Value>(&mysql_type, text);
    }

    #[test]
    fn any_columns_are_a_row_or_an_error(name in any::<Vec<u8>>(), value in any::<Vec<u8>>()) {
        let mut raw = column("", "int", None);
        raw.is_null = None;
        raw.name = Bytes::from(name);
        raw.value = Bytes::from(value);
        let change = inserted(vec![raw]);
        let _ = change.rows::<BTreeMap<String, String>>().next();
        let _ = format!("{:?}", change.raw_rows().next());
    }
}
