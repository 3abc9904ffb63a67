//! The contracts on the real Canal server, with MariaDB. Needs the addresses that
//! `tests/services/up` prints; without them a test says that it skips, and fails in CI.

use std::io::Write as _;
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use lockkeeper_canal::BinlogPosition;

use crate::contract::{Database, Order, Subject, every_contract};

every_contract!(on_the_real_server);

#[cfg(feature = "zookeeper")]
mod cluster;
#[cfg(feature = "zookeeper")]
mod high_availability;
#[cfg(feature = "kafka")]
mod kafka;
mod statements;
mod values;

/// The destinations that no test uses at the moment; filled by the first.
static FREE: Mutex<Option<Vec<String>>> = Mutex::new(None);
static FREED: Condvar = Condvar::new();

/// A destination for one test alone.
struct Lease(String);

impl Lease {
    fn take(all: &str) -> Self {
        let mut free = FREE.lock().unwrap();
        free.get_or_insert_with(|| all.split(',').map(str::to_owned).collect());
        loop {
            match free.as_mut().and_then(Vec::pop) {
                Some(destination) => return Self(destination),
                None => free = FREED.wait(free).unwrap(),
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Ok(mut free) = FREE.lock()
            && let Some(free) = free.as_mut()
        {
            free.push(std::mem::take(&mut self.0));
        }
        FREED.notify_one();
    }
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A password from the file that a variable names.
pub(crate) fn password(name: &str) -> String {
    variable(name).map_or_else(String::new, |path| {
        std::fs::read_to_string(path).unwrap().trim_end().to_owned()
    })
}

fn on_the_real_server(name: &str, contract: impl AsyncFnOnce(&Subject)) {
    on_the_real_server_with(name, async |subject, _| contract(subject).await);
}

/// With the database itself, for tests that no script can stand in for.
fn on_the_real_server_with(name: &str, test: impl AsyncFnOnce(&Subject, &MariaDb)) {
    let variables = [
        "LOCKKEEPER_CANAL",
        "LOCKKEEPER_CANAL_DESTINATIONS",
        "LOCKKEEPER_MYSQL",
    ];
    let [Some(address), Some(destinations), Some(mysql)] = variables.map(variable) else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "no Canal server: set {variables:?}"
        );
        eprintln!("skipped {name}: no Canal server, set {variables:?}");
        return;
    };
    let lease = Lease::take(&destinations);
    let database = Arc::new(MariaDb::new(&mysql, name));
    let subject = Subject {
        address,
        destination: lease.0.clone(),
        user: variable("LOCKKEEPER_CANAL_USER").unwrap_or_default(),
        password: password("LOCKKEEPER_CANAL_PASSWORD_FILE"),
        database: Box::new(database.clone()),
    };
    actix_rt::System::new().block_on(test(&subject, &database));
}

/// A schema for one test alone, by the command line client.
pub(crate) struct MariaDb {
    host: String,
    port: String,
    schema: String,
}

impl MariaDb {
    pub(crate) fn new(address: &str, test: &str) -> Self {
        let (host, port) = address.rsplit_once(':').unwrap();
        let words = test.split('_').map(|word| &word[..word.len().min(3)]);
        let name: String = words.collect::<Vec<_>>().join("");
        let schema = format!("canal_{name:.40}_{}", std::process::id());
        let database = Self {
            host: host.to_owned(),
            port: port.to_owned(),
            schema,
        };
        let Self { schema, .. } = &database;
        database.execute(&format!(
            "CREATE DATABASE {schema}; CREATE TABLE {schema}.orders (id BIGINT UNSIGNED PRIMARY KEY, \
             customer VARCHAR(40) CHARACTER SET utf8mb4, amount DECIMAL(12,2), placed DATETIME)"
        ));
        database
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// What a statement prints: a line a row, tabs between columns.
    pub(crate) fn query(&self, sql: &str) -> String {
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let mut client = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--protocol=TCP",
                "--default-character-set=utf8mb4",
            ])
            .args(["--host", &self.host, "--port", &self.port, "--user", &user])
            .env("MYSQL_PWD", password("LOCKKEEPER_MYSQL_PASSWORD_FILE"))
            .args(["--batch", "--skip-column-names"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command line client `mariadb` starts");
        client
            .stdin
            .take()
            .unwrap()
            .write_all(sql.as_bytes())
            .unwrap();
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "failed: {sql}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Database for Arc<MariaDb> {
    fn table(&self) -> (&str, &str) {
        (&self.schema, "orders")
    }

    fn insert(&self, ids: RangeInclusive<u64>) {
        let values: Vec<_> = ids
            .map(|id| {
                let Order {
                    id,
                    customer,
                    amount,
                    placed,
                } = Order::of(id);
                format!("({id}, '{customer}', {amount}, '{placed}')")
            })
            .collect();
        self.execute(&format!(
            "INSERT INTO {}.orders (id, customer, amount, placed) VALUES {}",
            self.schema,
            values.join(",")
        ));
    }

    fn update(&self, ids: RangeInclusive<u64>) {
        self.execute(&format!(
            "UPDATE {}.orders SET amount = amount + 1 WHERE id BETWEEN {} AND {}",
            self.schema,
            ids.start(),
            ids.end()
        ));
    }

    fn delete(&self, ids: RangeInclusive<u64>) {
        self.execute(&format!(
            "DELETE FROM {}.orders WHERE id BETWEEN {} AND {}",
            self.schema,
            ids.start(),
            ids.end()
        ));
    }

    fn add_column(&self, name: &str) {
        self.execute(&format!(
            "ALTER TABLE {}.orders ADD COLUMN {name} TEXT",
            self.schema
        ));
    }

    fn binlog(&self) -> Box<dyn Fn() -> BinlogPosition + Send + Sync> {
        let database = Arc::clone(self);
        Box::new(move || {
            let status = database.query("SHOW MASTER STATUS");
            let mut columns = status.split_whitespace();
            BinlogPosition {
                journal: columns.next().unwrap().to_owned(),
                offset: columns.next().unwrap().parse().unwrap(),
            }
        })
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.execute(&format!("DROP DATABASE {}", self.schema));
        }
    }
}
