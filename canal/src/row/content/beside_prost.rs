//! The comparison with prost's decoder: what one takes the other takes, with the same values.

use bytes::Bytes;
use prost::Message as _;

use super::{Content, Image};
use crate::protocol::generated::entry as wire;

/// Reads a row change with both decoders.
///
/// # Panics
/// When they do not agree.
pub(crate) fn compare_with_prost(bytes: &Bytes) {
    let prosts = wire::RowChange::decode(bytes.clone()).map(without_the_rest);
    match (Content::decode(bytes.clone()), prosts) {
        (Ok(content), Ok(prosts)) => assert_eq!(as_prosts(&content), prosts),
        (Err(_), Err(_)) => {}
        (ours, prosts) => {
            let ours = ours.map(|content| as_prosts(&content));
            panic!("{ours:?} and prost's {prosts:?}");
        }
    }
}

/// What was read, as prost has it; the fields that nobody asks for left out.
fn as_prosts(content: &Content) -> wire::RowChange {
    let columns = |image: Image<'_>| {
        let columns = image.columns().map(|column| wire::Column {
            index: column.shape.index,
            sql_type: column.shape.sql_type,
            name: Bytes::copy_from_slice(column.name()),
            is_key: column.shape.is_key,
            updated: column.shape.updated,
            is_null: Some(column.shape.is_null),
            value: Bytes::copy_from_slice(column.value()),
            mysql_type: Bytes::copy_from_slice(column.mysql_type()),
            ..wire::Column::default()
        });
        columns.collect()
    };
    let rows = (0..content.len()).map(|index| {
        let (before, after) = content.row(index);
        wire::RowData {
            before_columns: columns(before),
            after_columns: columns(after),
            props: Vec::new(),
        }
    });
    let props = content.parts.props.iter().map(|(key, value)| wire::Pair {
        key: content.text(*key).to_owned(),
        value: content.text(*value).to_owned(),
    });
    wire::RowChange {
        table_id: 0,
        event_type: content.event_type(),
        is_ddl: Some(content.is_ddl()),
        sql: content.sql().to_owned(),
        row_datas: rows.collect(),
        props: props.collect(),
        ddl_schema_name: content.ddl_schema_name().to_owned(),
    }
}

fn without_the_rest(mut change: wire::RowChange) -> wire::RowChange {
    change.table_id = 0;
    change.is_ddl = Some(change.is_ddl.unwrap_or(false));
    for row in &mut change.row_datas {
        row.props.clear();
        for column in row.before_columns.iter_mut().chain(&mut row.after_columns) {
            column.is_null = Some(column.is_null.unwrap_or(false));
            column.props.clear();
            column.length = 0;
        }
    }
    change
}
