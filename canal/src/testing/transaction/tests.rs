//! Scripted transactions and the entries they become.

use prost::Message;

use super::*;
use crate::protocol::generated::entry::{Entry, RowChange, TransactionBegin, TransactionEnd};
use crate::testing::entry::EntryEncoder;
use crate::testing::filter::Filter;
use crate::testing::store::StoredKind;

const NOON: u64 = 1_700_000_000_123;

fn encode(transaction: Transaction) -> Vec<Entry> {
    EntryEncoder::default()
        .encode(transaction, NOON, &Filter::default())
        .unwrap()
        .into_iter()
        .map(|stored| Entry::decode(stored.bytes).unwrap())
        .collect()
}

fn change(entry: &Entry) -> RowChange {
    RowChange::decode(entry.store_value.clone()).unwrap()
}

fn number(text: &[u8]) -> usize {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn orders() -> Table {
    Table::new("shop", "orders")
        .key("id", "bigint(20)")
        .column("customer", "varchar(32)")
        .column("amount", "decimal(20,2)")
}

#[test]
fn a_transaction_is_rows_and_an_end_with_its_id() {
    let entries = encode(Transaction::new(57).insert(&orders(), ["1", "anna", "9.50"]));
    assert_eq!(entries.len(), 2);
    let header = entries[0].header.clone().unwrap();
    assert_eq!(header.version, Some(1));
    assert_eq!(header.logfile_name, "binlog.000001");
    assert_eq!(header.logfile_offset, 4);
    assert_eq!(header.server_id, 1);
    assert_eq!(header.serveren_code, "UTF-8");
    assert_eq!(header.execute_time, 1_700_000_000_000, "whole seconds");
    assert_eq!(header.schema_name, "shop");
    assert_eq!(header.table_name, "orders");
    assert_eq!(header.event_type, Some(1));
    assert_eq!(header.props[0].key, "rowsCount");
    assert_eq!(header.props[0].value, "1");
    assert_eq!(entries[0].entry_type, Some(2));
    assert_eq!(entries[1].entry_type, Some(3));
    let end = entries[1].header.clone().unwrap();
    assert_eq!(end.event_type, None);
    assert!(end.logfile_offset > header.logfile_offset);
    let end = TransactionEnd::decode(entries[1].store_value.clone()).unwrap();
    assert_eq!(end.transaction_id, "57");
}

#[test]
fn an_end_is_byte_for_byte_the_real_servers() {
    let transaction = Transaction::new(57)
        .at_position("binlog.000001", 1_866)
        .at(1_796_007_794_000);
    let stored = EntryEncoder::default()
        .encode(transaction, NOON, &Filter::default())
        .unwrap();
    assert_eq!(stored[0].kind, StoredKind::End);
    let expected = [
        b"\x0a\x2c\x08\x01\x12\x0dbinlog.000001\x18\xca\x0e\x20\x01\x2a\x05UTF-8\x30".as_slice(),
        b"\xd0\xaa\xa0\xd3\xa2\x34\x38\x02\x42\x00\x4a\x00\x50\x1f\x10\x03\x1a\x04\x12\x0257",
    ]
    .concat();
    assert_eq!(stored[0].bytes, expected);
}

#[test]
fn images_have_what_each_event_type_has() {
    let table = orders();
    let entries = encode(
        Transaction::new(1)
            .insert(&table, ["1", "anna", "9.50"])
            .update(&table, ["1", "anna", "9.50"], ["1", "anna", "10.00"])
            .delete(&table, [Value::from(1), Value::Null, Value::Absent]),
    );
    let insert = change(&entries[0]).row_datas.remove(0);
    assert!(insert.before_columns.is_empty());
    assert!(insert.after_columns.iter().all(|column| column.updated));
    let key = &insert.after_columns[0];
    assert!(key.is_key);
    assert_eq!((key.index, key.sql_type), (0, -5));
    assert_eq!(key.mysql_type, "bigint(20)");
    assert_eq!(key.is_null, Some(false));
    let update = change(&entries[1]).row_datas.remove(0);
    assert!(update.before_columns.iter().all(|column| !column.updated));
    let updated: Vec<bool> = update
        .after_columns
        .iter()
        .map(|column| column.updated)
        .collect();
    assert_eq!(updated, [false, false, true]);
    let delete = change(&entries[2]).row_datas.remove(0);
    assert!(delete.after_columns.is_empty());
    assert_eq!(
        delete.before_columns.len(),
        2,
        "an absent column is left out"
    );
    assert_eq!(delete.before_columns[0].value, "1");
    assert_eq!(delete.before_columns[1].is_null, Some(true));
    assert_eq!(delete.before_columns[1].value, "");
}

#[test]
fn unsigned_values_beyond_the_signed_range_have_a_wider_type() {
    let table = Table::new("s", "t")
        .column("a", "tinyint(3) unsigned")
        .column("b", "bigint(20) unsigned");
    let entries = encode(Transaction::new(1).insert_rows(&table, [[127, 1], [255_u64, u64::MAX]]));
    let types: Vec<Vec<i32>> = change(&entries[0])
        .row_datas
        .iter()
        .map(|row| {
            row.after_columns
                .iter()
                .map(|column| column.sql_type)
                .collect()
        })
        .collect();
    assert_eq!(types, [[-6, -5], [5, 3]]);
}

#[test]
fn bytes_go_as_latin_1_text() {
    let table = Table::new("s", "t").column("b", "blob");
    let all: Vec<u8> = (0..=255).collect();
    let entries = encode(Transaction::new(1).insert(&table, [Value::bytes(&all)]));
    let column = change(&entries[0])
        .row_datas
        .remove(0)
        .after_columns
        .remove(0);
    let text = std::str::from_utf8(&column.value).unwrap();
    let back: Vec<u32> = text.chars().map(u32::from).collect();
    assert_eq!(back, (0..=255).collect::<Vec<u32>>());
    assert_eq!(column.sql_type, 2004);
}

#[test]
fn a_long_statement_is_split_at_8_kib_of_binlog() {
    let rows = (0..1_000_i64).map(|id| {
        [
            Value::from(id),
            Value::from("a customer"),
            Value::from("1.00"),
        ]
    });
    let entries = encode(Transaction::new(1).insert_rows(&orders(), rows));
    assert!((3..=6).contains(&entries.len()), "{}", entries.len());
    let mut ids = Vec::new();
    for entry in &entries[..entries.len() - 1] {
        let change = change(entry);
        let count = &entry.header.as_ref().unwrap().props[0].value;
        assert_eq!(*count, change.row_datas.len().to_string());
        ids.extend(
            change
                .row_datas
                .iter()
                .map(|row| number(&row.after_columns[0].value)),
        );
    }
    assert!(ids.into_iter().eq(0..1_000));
}

#[test]
fn a_ddl_has_its_type_and_no_end() {
    for (sql, event_type) in [
        ("create table t (a int)", 4),
        ("ALTER TABLE t ADD b INT", 5),
        ("DROP TABLE t", 6),
        ("CREATE DATABASE d", 7),
        ("TRUNCATE t", 8),
        ("RENAME TABLE t TO u", 9),
        ("CREATE UNIQUE INDEX i ON t (a)", 10),
        ("DROP INDEX i ON t", 11),
    ] {
        let entries = encode(Transaction::ddl("shop", "t", sql));
        assert_eq!(entries.len(), 1);
        let change = change(&entries[0]);
        assert_eq!(change.event_type, Some(event_type), "{sql}");
        assert_eq!(change.is_ddl, Some(true));
        assert_eq!(change.sql, sql);
        assert_eq!(change.ddl_schema_name, "shop");
    }
}

#[test]
fn a_begin_comes_on_demand() {
    let entries = encode(Transaction::new(1).with_begin(42).query("shop", "select 1"));
    let types: Vec<_> = entries
        .iter()
        .map(|entry| entry.entry_type.unwrap())
        .collect();
    assert_eq!(types, [1, 2, 3]);
    let begin = TransactionBegin::decode(entries[0].store_value.clone()).unwrap();
    assert_eq!(begin.thread_id, 42);
}

#[test]
fn a_row_with_too_many_values_is_an_error_that_names_the_table() {
    let transaction = Transaction::new(1).insert(&orders(), ["1", "2", "3", "4", "5"]);
    let error = EntryEncoder::default()
        .encode(transaction, NOON, &Filter::default())
        .unwrap_err();
    assert_eq!(error.table, "shop.orders");
    assert_eq!((error.columns, error.values), (3, 5));
}

#[test]
fn a_filter_leaves_out_rows_and_positions_go_on() {
    let other = Table::new("shop", "other").column("a", "int(11)");
    let transaction = Transaction::new(1)
        .insert(&other, [1])
        .insert(&orders(), ["1"]);
    let stored = EntryEncoder::default()
        .encode(transaction, NOON, &Filter::new(r"shop\.orders"))
        .unwrap();
    assert_eq!(stored.len(), 2);
    let first = Entry::decode(stored[0].bytes.clone())
        .unwrap()
        .header
        .unwrap();
    assert_eq!(first.table_name, "orders");
    assert!(first.logfile_offset > 4);
}
