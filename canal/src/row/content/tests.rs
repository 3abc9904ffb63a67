//! Beside prost's decoder: what one takes the other takes, with the same values.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::protocol::generated::entry as wire;

/// Both decoders' word on these bytes.
fn compare(bytes: Vec<u8>) {
    compare_with_prost(&bytes.into());
}

fn pairs() -> impl Strategy<Value = Vec<wire::Pair>> {
    vec(
        (".{0,5}", ".{0,5}").prop_map(|(key, value)| wire::Pair { key, value }),
        0..3,
    )
}

fn text() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn column() -> impl Strategy<Value = wire::Column> {
    let numbers = (any::<i32>(), any::<i32>(), any::<i32>());
    let flags = (any::<bool>(), any::<bool>(), any::<Option<bool>>());
    (numbers, flags, (text(), text(), text()), pairs()).prop_map(
        |(
            (index, sql_type, length),
            (is_key, updated, is_null),
            (name, value, mysql_type),
            props,
        )| {
            wire::Column {
                index,
                sql_type,
                name,
                is_key,
                updated,
                is_null,
                props,
                value,
                length,
                mysql_type,
            }
        },
    )
}

/// As servers write: rows of the same columns, with other values, some of them NULL, and flags and
/// types that change in between.
fn table() -> impl Strategy<Value = wire::RowChange> {
    let row = vec((text(), any::<bool>(), 0..12_u8), 5);
    (vec(column(), 1..5), vec(row, 0..8)).prop_map(|(columns, rows)| {
        let rows = rows.into_iter().map(|values| {
            let cells = columns
                .iter()
                .zip(values)
                .map(|(column, (value, null, dice))| {
                    let mut column = column.clone();
                    column.value = if null { Bytes::new() } else { value };
                    column.is_null = Some(null);
                    column.updated ^= dice == 0;
                    column.sql_type ^= i32::from(dice == 1);
                    column
                });
            let after_columns: Vec<_> = cells.collect();
            wire::RowData {
                before_columns: after_columns.clone(),
                after_columns,
                props: Vec::new(),
            }
        });
        wire::RowChange {
            row_datas: rows.collect(),
            ..wire::RowChange::default()
        }
    })
}

fn change() -> impl Strategy<Value = wire::RowChange> {
    let row = (vec(column(), 0..4), vec(column(), 0..4), pairs()).prop_map(
        |(before_columns, after_columns, props)| wire::RowData {
            before_columns,
            after_columns,
            props,
        },
    );
    let head = (any::<i64>(), any::<Option<i32>>(), any::<Option<bool>>());
    (head, ".{0,20}", vec(row, 0..4), pairs(), ".{0,5}").prop_map(
        |((table_id, event_type, is_ddl), sql, row_datas, props, ddl_schema_name)| {
            wire::RowChange {
                table_id,
                event_type,
                is_ddl,
                sql,
                row_datas,
                props,
                ddl_schema_name,
            }
        },
    )
}

/// Any fields of any kind, one in another: numbers below 16 as they are in these messages, and
/// lengths that mostly fit.
fn fields(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let number = (0..16_u8, any::<u64>()).prop_map(|(tag, value)| {
        let mut bytes = vec![tag << 3];
        prost::encoding::encode_varint(value, &mut bytes);
        bytes
    });
    let fixed = (0..16_u8, any::<bool>(), any::<u64>()).prop_map(|(tag, long, value)| {
        let mut bytes = vec![tag << 3 | if long { 1 } else { 5 }];
        bytes.extend(&value.to_le_bytes()[..if long { 8 } else { 4 }]);
        bytes
    });
    let group = (0..16_u8, 0..16_u8).prop_map(|(begin, end)| vec![begin << 3 | 3, end << 3 | 4]);
    let garbage = vec(any::<u8>(), 0..4);
    let inner = match depth {
        0 => vec(any::<u8>(), 0..8).boxed(),
        _ => fields(depth - 1),
    };
    let nested = (0..16_u8, inner, -1_i64..2).prop_map(|(tag, inner, wrong)| {
        let mut bytes = vec![tag << 3 | 2];
        let length = i64::try_from(inner.len()).unwrap();
        // One field in ten says another length than it has.
        let length = length + if length % 10 == 9 { wrong } else { 0 };
        prost::encoding::encode_varint(u64::try_from(length).unwrap(), &mut bytes);
        bytes.extend(inner);
        bytes
    });
    let field = prop_oneof![4 => nested, 4 => number, 1 => fixed, 1 => group, 1 => garbage];
    vec(field, 0..6).prop_map(|fields| fields.concat()).boxed()
}

proptest! {
    #[test]
    fn row_changes_are_what_prost_reads(change in change()) {
        compare(change.encode_to_vec());
    }

    #[test]
    fn rows_of_one_table_are_what_prost_reads(
        table in table(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
    ) {
        let mut bytes = table.encode_to_vec();
        prop_assume!(!bytes.is_empty());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        compare(bytes);
    }

    #[test]
    fn damaged_row_changes_are_taken_or_refused_as_by_prost(
        change in change(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = change.encode_to_vec();
        prop_assume!(!bytes.is_empty());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        compare(bytes);
    }

    #[test]
    fn any_fields_are_taken_or_refused_as_by_prost(bytes in fields(3)) {
        compare(bytes);
    }

    #[test]
    fn rows_are_counted_without_reading_them(change in change(), kind in any::<Option<bool>>()) {
        let entry = wire::Entry {
            header: Some(wire::Header::default()),
            entry_type: kind.map(|rows| match rows {
                true => wire::EntryType::RowData.into(),
                false => wire::EntryType::TransactionEnd.into(),
            }),
            store_value: change.encode_to_vec().into(),
        };
        let wanted = if kind == Some(false) { 0 } else { change.row_datas.len() };
        prop_assert_eq!(rows_in(&entry.encode_to_vec()), wanted);
    }

    #[test]
    fn any_bytes_are_taken_or_refused_as_by_prost(bytes in vec(any::<u8>(), 0..100)) {
        compare(bytes);
    }
}

#[test]
fn rows_are_counted_in_the_content_that_counts() {
    let change = wire::RowChange {
        row_datas: vec![wire::RowData::default(); 3],
        ..wire::RowChange::default()
    };
    // A content that is none, and the one that takes its place.
    let mut raw = vec![0x1a, 2, 0x62, 0x79];
    let entry = wire::Entry {
        store_value: change.encode_to_vec().into(),
        ..wire::Entry::default()
    };
    raw.extend(entry.encode_to_vec());
    assert_eq!(rows_in(&raw), 3);
}

#[test]
fn images_whose_columns_come_in_turns_are_put_together() {
    // What no server writes: before, after, before.
    let column = |name: &str| {
        let mut bytes = vec![0x1a, u8::try_from(name.len()).unwrap()];
        bytes.extend(name.as_bytes());
        bytes
    };
    let mut row = Vec::new();
    for (tag, name) in [(0x0a, "a"), (0x12, "b"), (0x0a, "c")] {
        let column = column(name);
        row.extend([tag, u8::try_from(column.len()).unwrap()]);
        row.extend(column);
    }
    let mut bytes = vec![0x62, u8::try_from(row.len()).unwrap()];
    bytes.extend(row);
    compare(bytes.clone());
    let content = Content::decode(bytes.into()).unwrap();
    let (before, after) = content.row(0);
    let names = |image: Image<'_>| -> Vec<Vec<u8>> {
        let columns = image.columns();
        columns.map(|column| column.name().to_vec()).collect()
    };
    assert_eq!(names(before), [b"a", b"c"]);
    assert_eq!(names(after), [b"b"]);
}

#[test]
fn hostile_bytes_take_no_more_than_a_few_times_their_own_memory() {
    // A column of nothing is two bytes, and so is a row.
    let columns: Vec<u8> = [0x0a, 0].repeat(60);
    let mut row = vec![0x62, u8::try_from(columns.len()).unwrap()];
    row.extend(columns);
    let content = Content::decode(row.into()).unwrap();
    assert_eq!(content.row(0).0.len(), 60);
    // Less than what prost's decoder makes of one.
    let bytes = size_of::<Cell>() + size_of::<Shape>();
    assert!(bytes < size_of::<wire::Column>());
    assert!(bytes <= 96, "{bytes}");
    assert!(size_of::<RowEnds>() <= 8);
}
