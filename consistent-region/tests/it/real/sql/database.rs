//! A database of one test on the real server.

use std::time::Duration;

use lockkeeper_consistent_region::sink::SqlSettings;
use serde::{Deserialize, Serialize};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::time::{sleep, timeout};

use crate::place::LIMIT;
use crate::real::{servers, variable};

/// A database of one test; it is dropped with this.
pub(super) struct Database {
    pub(super) settings: Settings,
}

/// How it is reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Settings {
    url: String,
    password: Option<String>,
    pub(super) name: String,
}

impl Database {
    pub(super) async fn create(test: &str) -> Option<Self> {
        let [address] = servers(test, ["LOCKKEEPER_MYSQL"])?;
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let password = variable("LOCKKEEPER_MYSQL_PASSWORD_FILE")
            .map(|file| std::fs::read_to_string(file).unwrap().trim_end().to_owned());
        let name = format!("region_{:.40}_{}", test, std::process::id());
        let settings = Settings {
            url: format!("mysql://{user}@{address}/{name}"),
            password,
            name,
        };
        let mut server = settings.connect("mysql").await;
        let name = &settings.name;
        execute(&mut server, &format!("CREATE DATABASE {name}")).await;
        let table = format!("CREATE TABLE {name}.seen (number BIGINT UNSIGNED NOT NULL)");
        execute(&mut server, &table).await;
        Some(Self { settings })
    }

    pub(super) async fn count(&self, what: &str) -> u64 {
        let mut connection = self.settings.connect(&self.settings.name).await;
        let row = connection.fetch_one(AssertSqlSafe(format!("SELECT CAST({what} AS UNSIGNED)")));
        row.await.unwrap().get(0)
    }

    /// Waits until the server has got a statement that begins so and cannot end it, for two minutes at
    /// the most.
    pub(super) async fn until_one_hangs(&self, statement: &str) {
        let hanging = format!(
            "(SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db = '{}' AND info LIKE '{statement}%')",
            self.settings.name
        );
        let hangs = async {
            while self.count(&hanging).await == 0 {
                // The server tells no such event.
                sleep(Duration::from_millis(20)).await;
            }
        };
        let hangs = timeout(LIMIT, hangs).await;
        hangs.unwrap_or_else(|_| panic!("the server did not get {statement:?}"));
    }

    pub(super) async fn drop(self) {
        let mut server = self.settings.connect("mysql").await;
        let name = &self.settings.name;
        execute(&mut server, &format!("DROP DATABASE {name}")).await;
    }
}

impl Settings {
    pub(super) async fn connect(&self, database: &str) -> MySqlConnection {
        let mut options: MySqlConnectOptions = self.url.parse().unwrap();
        options = options.database(database);
        if let Some(password) = &self.password {
            options = options.password(password);
        }
        MySqlConnection::connect_with(&options).await.unwrap()
    }

    pub(super) fn sink(&self) -> SqlSettings {
        let mut settings = SqlSettings::new(&self.url);
        settings.password.clone_from(&self.password);
        // A server for tests need not survive the loss of its power.
        settings.check_durability = false;
        settings
    }
}

pub(super) async fn execute(connection: &mut MySqlConnection, sql: &str) {
    let executed = connection.execute(AssertSqlSafe(sql.to_owned())).await;
    executed.unwrap_or_else(|error| panic!("{sql}: {error}"));
}
