//! The script of `--embedded`: a few changes of a shop's orders.

use std::io;

use lockkeeper_canal::testing::{CanalServer, Table, Transaction};

/// A server within this process that plays the script to whoever subscribes.
pub(crate) fn start(destination: &str) -> io::Result<CanalServer> {
    CanalServer::builder()
        .destination(destination)
        .source(script().into_iter())
        .start()
}

pub(super) fn script() -> Vec<Transaction> {
    let orders = Table::new("shop", "orders")
        .key("id", "bigint(20) unsigned")
        .column("customer", "varchar(64)")
        .column("amount", "decimal(12,2)");
    vec![
        Transaction::ddl(
            "shop",
            "orders",
            "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, customer VARCHAR(64), amount DECIMAL(12,2))",
        ),
        Transaction::new(1)
            .insert(&orders, ["1", "Ada", "12.50"])
            .insert(&orders, ["2", "Grace", "99.00"]),
        Transaction::new(2).update(&orders, ["2", "Grace", "99.00"], ["2", "Grace", "89.00"]),
        Transaction::new(3).delete(&orders, ["1", "Ada", "12.50"]),
    ]
}
