//! The embedded source: a Canal server in this process that plays a script.

use std::io;

use lockkeeper_canal::testing::{CanalServer, RowSource, StoreLimits, Table, Transaction, Value};
use rust_decimal::Decimal;

use super::account::{END_CUSTOMER, Order, RowChange};
use super::database::TableName;
use super::script::Script;

/// Starts the server; it holds `slots` entries at most (16,384 in a real one).
///
/// # Errors
/// When it can't listen on loopback.
pub fn start(
    destination: &str,
    table: &TableName,
    script: Script,
    slots: usize,
) -> io::Result<CanalServer> {
    CanalServer::builder()
        .destination(destination)
        .store(StoreLimits::default().with_slots(slots))
        .source(Rows::new(table, script))
        .start()
}

/// The script as transactions of the orders table, with the row that ends the job at the end.
struct Rows {
    table: Table,
    script: Script,
    next_transaction: u64,
    ended: bool,
}

impl Rows {
    fn new(name: &TableName, script: Script) -> Self {
        let table = Table::new(name.schema.clone(), name.table.clone())
            .key("id", "bigint(20) unsigned")
            .column("customer", "varchar(64)")
            .column("amount", "decimal(12,2)")
            .column("placed", "datetime")
            .column("version", "int(10) unsigned");
        Self {
            table,
            script,
            next_transaction: 1,
            ended: false,
        }
    }

    fn last(&mut self) -> Option<Vec<RowChange>> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        Some(vec![RowChange::Insert(Order {
            id: self.script.unused_id(),
            customer: END_CUSTOMER.to_owned(),
            amount: Decimal::ZERO,
            placed: "2026-12-31 00:00:00".to_owned(),
            version: 1,
        })])
    }
}

impl RowSource for Rows {
    fn next_transaction(&mut self) -> Option<Transaction> {
        let changes = match self.script.next() {
            Some(changes) => changes,
            None => self.last()?,
        };
        let mut transaction = Transaction::new(self.next_transaction);
        self.next_transaction += 1;
        // neighbours of one kind are one statement, as the loader writes them
        for group in changes.chunk_by(|a, b| kind(a) == kind(b) && kind(a) == 0) {
            transaction = statement(transaction, &self.table, group);
        }
        Some(transaction)
    }
}

/// Inserts are written as one statement, updates and deletes one by one.
fn kind(change: &RowChange) -> u8 {
    match change {
        RowChange::Insert(_) => 0,
        RowChange::Update { .. } => 1,
        RowChange::Delete(_) => 2,
    }
}

fn statement(transaction: Transaction, table: &Table, group: &[RowChange]) -> Transaction {
    match group {
        [RowChange::Update { before, after }] => {
            transaction.update(table, columns(before), columns(after))
        }
        [RowChange::Delete(row)] => transaction.delete(table, columns(row)),
        inserts => transaction.insert_rows(
            table,
            inserts.iter().filter_map(|change| match change {
                RowChange::Insert(row) => Some(columns(row)),
                _ => None,
            }),
        ),
    }
}

fn columns(row: &Order) -> [Value<'_>; 5] {
    [
        Value::from(row.id),
        Value::from(&row.customer),
        Value::from(row.amount.to_string()),
        Value::from(&row.placed),
        Value::from(row.version),
    ]
}
