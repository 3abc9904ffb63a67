//! The contracts on the embedded server.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lockkeeper_canal::BinlogPosition;
use lockkeeper_canal::testing::{
    CanalServer, CanalServerHandle, ServerVersion, Table, Transaction,
};
use rust_decimal::Decimal;

use crate::contract::{Database, Order, Subject, every_contract, every_contract_of_schema_changes};

/// Up to 1.0.26: no passwords, and an error closes the connection.
mod version_1_0 {
    use super::*;
    every_contract!(on_the_server);
    every_contract_of_schema_changes!(on_the_server);

    fn on_the_server(_name: &str, contract: impl AsyncFnOnce(&Subject)) {
        on_version(ServerVersion::V1_0, "", contract);
    }
}

/// 1.1.0 to 1.1.3: no passwords.
mod version_1_1_3 {
    use super::*;
    every_contract!(on_the_server);
    every_contract_of_schema_changes!(on_the_server);

    fn on_the_server(_name: &str, contract: impl AsyncFnOnce(&Subject)) {
        on_version(ServerVersion::V1_1_3, "", contract);
    }
}

/// 1.1.4 to 1.1.7: a wrong password is refused and let in.
mod version_1_1_7 {
    use super::*;
    every_contract!(on_the_server);
    every_contract_of_schema_changes!(on_the_server);

    fn on_the_server(_name: &str, contract: impl AsyncFnOnce(&Subject)) {
        on_version(ServerVersion::V1_1_7, PASSWORD, contract);
    }
}

/// 1.1.8.
mod version_1_1_8 {
    use super::*;
    every_contract!(on_the_server);
    every_contract_of_schema_changes!(on_the_server);

    fn on_the_server(_name: &str, contract: impl AsyncFnOnce(&Subject)) {
        on_version(ServerVersion::V1_1_8, PASSWORD, contract);
    }
}

const USER: &str = "canal";
const PASSWORD: &str = "secret";

fn on_version(version: ServerVersion, password: &str, contract: impl AsyncFnOnce(&Subject)) {
    let server = CanalServer::builder()
        .destination("example")
        .version(version);
    let server = server.user(USER, PASSWORD).start().unwrap();
    let subject = Subject {
        address: server.address().to_string(),
        destination: "example".to_owned(),
        user: USER.to_owned(),
        password: password.to_owned(),
        database: Box::new(Scripted::new(server.handle())),
    };
    actix_rt::System::new().block_on(contract(&subject));
    server.stop();
}

/// A table whose changes are committed by the script.
pub(crate) struct Scripted {
    server: CanalServerHandle,
    table: Table,
    next_transaction: Arc<AtomicU64>,
    amounts: Mutex<BTreeMap<u64, Decimal>>,
}

impl Scripted {
    pub(crate) fn new(server: CanalServerHandle) -> Self {
        Self {
            server,
            table: Table::new("shop", "orders")
                .key("id", "bigint(20) unsigned")
                .column("customer", "varchar(40)")
                .column("amount", "decimal(12,2)")
                .column("placed", "datetime"),
            next_transaction: Arc::new(AtomicU64::new(1)),
            amounts: Mutex::default(),
        }
    }

    fn begin(&self) -> Transaction {
        Transaction::new(self.next_transaction.fetch_add(1, Ordering::Relaxed))
    }

    fn commit(&self, transaction: Transaction) {
        self.server.commit(transaction).unwrap();
    }
}

fn texts(id: u64, amount: Decimal) -> [String; 4] {
    let Order {
        customer, placed, ..
    } = Order::of(id);
    [id.to_string(), customer, amount.to_string(), placed]
}

impl Database for Scripted {
    fn table(&self) -> (&str, &str) {
        (self.table.schema(), self.table.name())
    }

    fn insert(&self, ids: RangeInclusive<u64>) {
        let mut amounts = self.amounts.lock().unwrap();
        let rows: Vec<_> = ids
            .map(|id| {
                let amount = Order::of(id).amount;
                amounts.insert(id, amount);
                texts(id, amount)
            })
            .collect();
        self.commit(self.begin().insert_rows(&self.table, &rows));
    }

    fn update(&self, ids: RangeInclusive<u64>) {
        let mut amounts = self.amounts.lock().unwrap();
        let rows: Vec<_> = ids
            .map(|id| {
                let amount = amounts.get_mut(&id).unwrap();
                let before = texts(id, *amount);
                *amount += Decimal::ONE;
                (before, texts(id, *amount))
            })
            .collect();
        let rows = rows.iter().map(|(before, after)| (before, after));
        self.commit(self.begin().update_rows(&self.table, rows));
    }

    fn delete(&self, ids: RangeInclusive<u64>) {
        let mut amounts = self.amounts.lock().unwrap();
        let rows: Vec<_> = ids
            .map(|id| texts(id, amounts.remove(&id).unwrap()))
            .collect();
        self.commit(self.begin().delete_rows(&self.table, &rows));
    }

    fn add_column(&self, name: &str) {
        let (schema, table) = self.table();
        let sql = format!("ALTER TABLE {schema}.{table} ADD COLUMN {name} TEXT");
        self.commit(Transaction::ddl(schema, table, &sql));
    }

    fn binlog(&self) -> Box<dyn Fn() -> BinlogPosition + Send + Sync> {
        let transactions = Arc::clone(&self.next_transaction);
        Box::new(move || BinlogPosition {
            journal: "binlog.000001".to_owned(),
            offset: transactions.load(Ordering::Relaxed),
        })
    }
}
