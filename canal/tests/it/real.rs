//! The contracts on the real Canal server, with MariaDB. Needs the addresses that
//! `tests/services/up` prints; without them a test says that it skips, and fails in CI.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use lockkeeper_canal::BinlogPosition;

use crate::contract::{Database, Order, Subject, every_contract, every_contract_of_schema_changes};

every_contract!(on_the_real_server);
every_contract_of_schema_changes!(on_the_real_server);

#[cfg(feature = "zookeeper")]
mod cluster;
#[cfg(feature = "zookeeper")]
mod high_availability;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "sql")]
mod snapshot;
mod statements;
mod values;

/// The same on Canal 1.1.4, as its authors' own launcher starts it. Without schema changes: it stops
/// for good at the first one of MariaDB 10.6 or later.
mod version_1_1_4 {
    use super::Server;
    use crate::contract::{Subject, every_contract};

    every_contract!(on_the_official_launcher);

    const SERVER: Server = Server {
        address: "LOCKKEEPER_1_1_4_CANAL_DEPLOYER",
        destinations: "LOCKKEEPER_1_1_4_CANAL_DEPLOYER_DESTINATIONS",
        user: "LOCKKEEPER_1_1_4_CANAL_USER",
        password: "LOCKKEEPER_1_1_4_CANAL_PASSWORD_FILE",
        mysql: "LOCKKEEPER_1_1_4_MYSQL",
        mysql_user: "LOCKKEEPER_1_1_4_MYSQL_USER",
        mysql_password: "LOCKKEEPER_1_1_4_MYSQL_PASSWORD_FILE",
        reads_schema_changes: false,
    };

    fn on_the_official_launcher(name: &str, contract: impl AsyncFnOnce(&Subject)) {
        super::on_a_server(&SERVER, name, async |subject, _| contract(subject).await);
    }
}

/// A Canal server and its database, by the variables that name what there is to know.
struct Server {
    address: &'static str,
    destinations: &'static str,
    user: &'static str,
    password: &'static str,
    mysql: &'static str,
    mysql_user: &'static str,
    mysql_password: &'static str,
    /// If not, tables are made without a word in the binlog.
    reads_schema_changes: bool,
}

const SERVER: Server = Server {
    address: "LOCKKEEPER_CANAL",
    destinations: "LOCKKEEPER_CANAL_DESTINATIONS",
    user: "LOCKKEEPER_CANAL_USER",
    password: "LOCKKEEPER_CANAL_PASSWORD_FILE",
    mysql: "LOCKKEEPER_MYSQL",
    mysql_user: "LOCKKEEPER_MYSQL_USER",
    mysql_password: "LOCKKEEPER_MYSQL_PASSWORD_FILE",
    reads_schema_changes: true,
};

/// The destinations of each list that no test uses at the moment.
static FREE: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());
static FREED: Condvar = Condvar::new();

/// A destination for one test alone.
struct Lease {
    all: String,
    destination: String,
}

impl Lease {
    fn take(all: &str) -> Self {
        let split = || all.split(',').map(str::to_owned).collect();
        let mut free = FREE.lock().unwrap();
        loop {
            let list = free.entry(all.to_owned()).or_insert_with(split);
            match list.pop() {
                Some(destination) => {
                    return Self {
                        all: all.to_owned(),
                        destination,
                    };
                }
                None => free = FREED.wait(free).unwrap(),
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Ok(mut free) = FREE.lock()
            && let Some(list) = free.get_mut(&self.all)
        {
            list.push(std::mem::take(&mut self.destination));
        }
        FREED.notify_all();
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
    on_a_server(&SERVER, name, test);
}

/// An upper bound against hanging, not a measure.
pub(crate) const TEST_LIMIT: Duration = Duration::from_secs(400);

fn on_a_server(server: &Server, name: &str, test: impl AsyncFnOnce(&Subject, &MariaDb)) {
    let variables = [server.address, server.destinations, server.mysql];
    let [Some(address), Some(destinations), Some(_)] = variables.map(variable) else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "no Canal server: set {variables:?}"
        );
        eprintln!("skipped {name}: no Canal server, set {variables:?}");
        return;
    };
    let lease = Lease::take(&destinations);
    let database = Arc::new(MariaDb::of(server, name));
    let subject = Subject {
        address,
        destination: lease.destination.clone(),
        user: variable(server.user).unwrap_or_default(),
        password: password(server.password),
        database: Box::new(database.clone()),
    };
    let ended = actix_rt::System::new()
        .block_on(async { tokio::time::timeout(TEST_LIMIT, test(&subject, &database)).await });
    ended.expect("the test hangs");
}

/// A schema for one test alone, by the command line client.
pub(crate) struct MariaDb {
    host: String,
    port: String,
    user: String,
    password: String,
    /// What comes before statements that make and end the schema.
    quietly: &'static str,
    schema: String,
}

impl MariaDb {
    /// On the database of the server that most tests use.
    pub(crate) fn new(test: &str) -> Self {
        Self::of(&SERVER, test)
    }

    fn of(server: &Server, test: &str) -> Self {
        let address = variable(server.mysql).unwrap();
        let (host, port) = address.rsplit_once(':').unwrap();
        let words = test.split('_').map(|word| &word[..word.len().min(3)]);
        let name: String = words.collect::<Vec<_>>().join("");
        let schema = format!("canal_{name:.40}_{}", std::process::id());
        let database = Self {
            host: host.to_owned(),
            port: port.to_owned(),
            user: variable(server.mysql_user).unwrap_or_else(|| "root".to_owned()),
            password: password(server.mysql_password),
            quietly: match server.reads_schema_changes {
                true => "",
                false => "SET SESSION sql_log_bin = 0; ",
            },
            schema,
        };
        let Self {
            schema, quietly, ..
        } = &database;
        database.execute(&format!(
            "{quietly}CREATE DATABASE {schema}; CREATE TABLE {schema}.orders (id BIGINT UNSIGNED PRIMARY KEY, \
             customer VARCHAR(40) CHARACTER SET utf8mb4, amount DECIMAL(12,2), placed DATETIME)"
        ));
        database
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.query(sql);
    }

    /// What a statement prints: a line a row, tabs between columns.
    pub(crate) fn query(&self, sql: &str) -> String {
        let mut client = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--protocol=TCP",
                "--default-character-set=utf8mb4",
            ])
            .args([
                "--host", &self.host, "--port", &self.port, "--user", &self.user,
            ])
            .env("MYSQL_PWD", &self.password)
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
            self.execute(&format!("{}DROP DATABASE {}", self.quietly, self.schema));
        }
    }
}
