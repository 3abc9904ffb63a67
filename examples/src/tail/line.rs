//! One change as a line.

use std::fmt;

use lockkeeper_canal::{ChangeKind, Columns, RowChange};
use serde::Serialize;
use serde_json::{Map, Value};

/// A change of one row, or a statement.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    destination: String,
    schema: String,
    table: String,
    /// INSERT, UPDATE, DELETE, ALTER and so on.
    #[serde(rename = "type")]
    kind: String,
    /// Where it stands in the binlog, for display.
    position: String,
    /// When it was executed, in milliseconds since 1970.
    execute_time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Map<String, Value>>,
    /// What an update has set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql: Option<String>,
}

/// The lines of an entry: a row each, or the statement.
pub(super) fn lines(change: &RowChange) -> Vec<Line> {
    match change.kind() {
        ChangeKind::Rows => change
            .raw_rows()
            .map(|row| {
                let (before, after) = (columns(row.before()), columns(row.after()));
                let update = before.is_some() && after.is_some();
                let changed = row
                    .after()
                    .iter()
                    .filter(|column| update && column.updated());
                Line {
                    changed: changed.map(|column| column.name().into_owned()).collect(),
                    before,
                    after,
                    ..line(change)
                }
            })
            .collect(),
        _ if change.sql().is_empty() => Vec::new(),
        _ => vec![Line {
            sql: Some(change.sql().to_owned()),
            ..line(change)
        }],
    }
}

fn line(change: &RowChange) -> Line {
    let entry = change.entry();
    Line {
        destination: entry.destination().to_owned(),
        schema: entry.schema_name().to_owned(),
        table: entry.table_name().to_owned(),
        kind: format!("{:?}", change.event_type()).to_uppercase(),
        position: entry.position().to_string(),
        execute_time: entry.execute_time(),
        before: None,
        after: None,
        changed: Vec::new(),
        sql: None,
    }
}

/// The values as the server writes them: text, whatever the type, so that no digit is lost.
fn columns(columns: Columns<'_>) -> Option<Map<String, Value>> {
    let named = columns.iter().map(|column| {
        let value = column.text().map_or(Value::Null, Value::from);
        (column.name().into_owned(), value)
    });
    (!columns.is_empty()).then(|| named.collect())
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}.{}", self.schema, self.table);
        write!(f, "{:<8} {name:<24} {:<24}", self.kind, self.position)?;
        if let Some(sql) = &self.sql {
            return write!(
                f,
                " {}",
                sql.split_whitespace().collect::<Vec<_>>().join(" ")
            );
        }
        let row = self.after.as_ref().or(self.before.as_ref());
        for (column, value) in row.into_iter().flatten() {
            let before = self.before.as_ref().and_then(|before| before.get(column));
            match before.filter(|_| self.changed.contains(column)) {
                Some(before) => write!(f, " {column}={}→{}", plain(before), plain(value))?,
                None => write!(f, " {column}={}", plain(value))?,
            }
        }
        Ok(())
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "NULL".to_owned(),
        other => other.to_string(),
    }
}
