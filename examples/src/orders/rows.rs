//! From a Canal entry to changes of accounts.

use lockkeeper_canal::{ChangeKind, Entry};
use lockkeeper_consistent_region::source::canal::{MapEntry, Mapped};

use super::account::{AccountChange, END_CUSTOMER, Order, RowChange};
use super::database::TableName;

/// Maps the entries of the orders table; what other tables and statements give is of no interest.
#[must_use]
pub fn map_entries(table: TableName) -> MapEntry<AccountChange> {
    Box::new(move |entry| {
        if entry.schema_name() != table.schema || entry.table_name() != table.table {
            return Ok(Mapped::Tuples(Vec::new()));
        }
        map_entry(entry)
    })
}

fn map_entry(
    entry: &Entry,
) -> Result<Mapped<AccountChange>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(change) = entry.row_change()? else {
        return Ok(Mapped::Tuples(Vec::new()));
    };
    match change.kind() {
        ChangeKind::Rows => {}
        // the loader makes the table right before the job begins
        ChangeKind::SchemaChange
            if change
                .sql()
                .trim_start()
                .to_ascii_uppercase()
                .starts_with("CREATE") =>
        {
            return Ok(Mapped::Tuples(Vec::new()));
        }
        other => {
            return Err(format!("{other:?} would change rows unseen: {}", change.sql()).into());
        }
    }
    let mut tuples = Vec::with_capacity(change.len());
    for row in change.rows::<Order>() {
        let row = row?;
        let change = match (row.before, row.after) {
            (None, Some(after)) if after.customer == END_CUSTOMER => {
                return Ok(Mapped::End(tuples));
            }
            (None, Some(after)) => RowChange::Insert(after),
            (Some(before), Some(after)) => RowChange::Update { before, after },
            (Some(before), None) => RowChange::Delete(before),
            (None, None) => return Err("a row without any image".into()),
        };
        tuples.extend(change.account_changes());
    }
    Ok(Mapped::Tuples(tuples))
}
