//! The flat form: a JSON object for the rows of one statement and one table.
//!
//! Field names and meaning are those of Canal's `FlatMessage`, in the order in which its server
//! writes them. Two things differ from what it writes: `old` has one object for every row of `data`
//! (Canal leaves out those without changes, and a reader no longer knows whose the rest are), and
//! `isDdl` is also set where servers 1.1.5 and 1.1.6 forget it.

mod from_entry;
mod map;
#[cfg(test)]
mod tests;
mod to_entry;

use serde::{Deserialize, Serialize};

pub(crate) use from_entry::Parts;
use map::{Ordered, Text};

/// A message of the flat form.
///
/// | JSON key | what it is |
/// |---|---|
/// | `data` | the rows: as they are after an insert or update, as they were before a delete; each an object of texts, `null` for NULL; bytes of a blob as characters up to U+00FF |
/// | `database`, `table` | where |
/// | `es` | when the database executed it, milliseconds since 1970 |
/// | `gtid` | the set of executed GTIDs, where the server knows it |
/// | `id` | the number of Canal's batch; it says nothing beyond one connection |
/// | `isDdl`, `sql` | whether it changes a schema, and the statement |
/// | `mysqlType`, `sqlType` | the columns' types, by name |
/// | `old` | after an update: what the changed columns were, an object a row |
/// | `pkNames` | the primary key's columns |
/// | `ts` | when the message was made, milliseconds since 1970 |
/// | `type` | `INSERT`, `UPDATE`, `DELETE`, `CREATE`, `ALTER`, `ERASE`, `QUERY`, `TRUNCATE`, `RENAME`, `CINDEX`, `DINDEX` … |
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlatMessage {
    #[serde(default)]
    data: Option<Vec<Ordered<Text>>>,
    #[serde(default, deserialize_with = "or_empty")]
    database: String,
    #[serde(default, deserialize_with = "or_empty")]
    es: i64,
    #[serde(default, deserialize_with = "or_empty")]
    gtid: String,
    #[serde(default, deserialize_with = "or_empty")]
    id: i64,
    #[serde(default, deserialize_with = "or_empty")]
    is_ddl: bool,
    #[serde(default)]
    mysql_type: Option<Ordered<String>>,
    #[serde(default)]
    old: Option<Vec<Ordered<Text>>>,
    #[serde(default)]
    pk_names: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_empty")]
    sql: String,
    #[serde(default)]
    sql_type: Option<Ordered<i32>>,
    #[serde(default, deserialize_with = "or_empty")]
    table: String,
    #[serde(default, deserialize_with = "or_empty")]
    ts: i64,
    #[serde(rename = "type")]
    event_type: String,
}

/// `null` is what Canal writes for a field without a value.
fn or_empty<'de, T: Deserialize<'de> + Default, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl FlatMessage {
    /// Reads a message. Keys that are not known are passed over.
    ///
    /// # Errors
    /// What is wrong with the JSON, or with a field.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| format!("no flat message: {error}"))
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        // Its keys are texts and its values texts and numbers: nothing in it can fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The schema, which MySQL calls a database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The kind of change in Canal's words.
    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }
}
