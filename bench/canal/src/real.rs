//! The wall clock beside a real Canal server, which is the bottleneck there: what decoding adds to
//! a drain of raw entries.
//!
//! With the addresses that `tests/services/up` prints. Before each drain a table is filled with as many rows
//! as the last time; the client has subscribed before, and begins when they are all in the binlog.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockkeeper_canal::{CanalConnectorBuilder, ClientIdentity, Filter, SimpleCanalConnector};

use crate::Failure;
use crate::client::{Mode, decode};
use crate::driver::drained;
use crate::frames::FETCH_SIZE;

/// Rows of a statement, each a transaction.
const STATEMENT: u64 = 1000;

/// Nothing came for so long: that was all.
const QUIET: Duration = Duration::from_millis(700);

/// A drain that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(300);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn password(name: &str) -> String {
    let text = variable(name).and_then(|path| std::fs::read_to_string(path).ok());
    text.unwrap_or_default().trim_end().to_owned()
}

/// The server and its database.
pub struct Real {
    schema: String,
}

impl Real {
    /// `None` without the addresses.
    pub fn from_environment() -> Result<Option<Self>, Failure> {
        if ["LOCKKEEPER_CANAL", "LOCKKEEPER_MYSQL"].map(variable).contains(&None) {
            return Ok(None);
        }
        let real = Self {
            schema: format!("canal_bench_{}", std::process::id()),
        };
        let schema = &real.schema;
        real.sql(&format!(
            "CREATE DATABASE {schema}; CREATE TABLE {schema}.orders (id BIGINT UNSIGNED PRIMARY KEY, quantity INT, \
             customer VARCHAR(40), amount DECIMAL(12,2), placed DATETIME)"
        ))?;
        Ok(Some(real))
    }

    fn sql(&self, sql: &str) -> Result<(), Failure> {
        let address = variable("LOCKKEEPER_MYSQL").unwrap_or_default();
        let (host, port) = address.rsplit_once(':').ok_or("LOCKKEEPER_MYSQL is no host:port")?;
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let mut client = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=TCP", "--host", host, "--port", port, "--user", &user])
            .env("MYSQL_PWD", password("LOCKKEEPER_MYSQL_PASSWORD_FILE"))
            .stdin(Stdio::piped())
            .spawn()?;
        let mut input = client.stdin.take().ok_or("no input")?;
        input.write_all(sql.as_bytes())?;
        drop(input);
        match client.wait()?.success() {
            true => Ok(()),
            false => Err("the database refused it".into()),
        }
    }

    /// Seconds from the first batch to the last, of a client in a process of its own.
    pub fn drain(&self, mode: Mode, rows: u64) -> Result<f64, Failure> {
        let Self { schema } = self;
        self.sql(&format!("SET sql_log_bin = 0; DELETE FROM {schema}.orders"))?;
        let mut client = Command::new(std::env::current_exe()?)
            .args(["real", mode.name(), &format!("{schema}.orders")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(client.stdout.take().ok_or("no output")?).lines();
        while lines.next().ok_or("the client has ended")?? != "READY" {}
        let statements = (0..rows.div_ceil(STATEMENT)).map(|number| {
            let (first, last) = (number * STATEMENT + 1, ((number + 1) * STATEMENT).min(rows));
            format!(
                "INSERT INTO {schema}.orders SELECT seq, seq % 90 + 1, CONCAT('customer number ', seq % 1009), \
                 seq % 100000 + 0.25, '2024-02-29 12:34:56' FROM {schema}.seq_{first}_to_{last};\n"
            )
        });
        self.sql(&statements.collect::<String>())?;
        let mut input = client.stdin.take().ok_or("no input")?;
        input.write_all(b"GO\n")?;
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        if !client.wait()?.success() {
            return Err(format!("the client failed: {rest:?}").into());
        }
        let drain = drained(&rest.join("\n")).ok_or("the client says no result")??;
        if mode == Mode::Typed && drain.rows != rows {
            return Err(format!("{rows} rows were to come: {drain:?}").into());
        }
        Ok(drain.wall)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if let Err(error) = self.sql(&format!("DROP DATABASE {}", self.schema)) {
            eprintln!("{} is left behind: {error}", self.schema);
        }
    }
}

/// The client's process.
pub fn run(mode: Mode, table: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (schema, table) = table.split_once('.').ok_or("the table is schema.table")?;
    let destinations = variable("LOCKKEEPER_CANAL_DESTINATIONS").unwrap_or_default();
    let destination = destinations.split(',').next().unwrap_or("example");
    let drain = runtime.block_on(async {
        let mut connector = CanalConnectorBuilder::new(ClientIdentity::new(destination))
            .address(variable("LOCKKEEPER_CANAL").unwrap_or_default())
            .credentials(
                variable("LOCKKEEPER_CANAL_USER").unwrap_or_default(),
                password("LOCKKEEPER_CANAL_PASSWORD_FILE"),
            )
            .build()?;
        connector.connect().await?;
        connector.subscribe(&Filter::table(schema, table)).await?;
        // What is there from before.
        drain(&mut connector, Mode::Raw, QUIET).await?;
        println!("READY");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        let drain = drain(&mut connector, mode, QUIET * 2).await?;
        connector.disconnect().await;
        Ok::<_, Failure>(drain)
    })?;
    println!("RESULT {}", serde_json::to_string(&drain)?);
    Ok(())
}

async fn drain(
    connector: &mut SimpleCanalConnector,
    mode: Mode,
    quiet: Duration,
) -> Result<crate::client::Drain, Failure> {
    let begun = Instant::now();
    let (mut first, mut last): (Option<Instant>, _) = (None, begun);
    let (mut entries, mut rows, mut check) = (0, 0, 0);
    while last.elapsed() < quiet {
        if begun.elapsed() > LIMIT {
            return Err("the drain does not end".into());
        }
        let Some(message) = connector.get_without_ack(FETCH_SIZE, None).await? else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        first.get_or_insert_with(Instant::now);
        entries += message.len() as u64;
        if mode == Mode::Typed {
            rows += decode(&message, &mut check)?;
        }
        connector.ack(message.id()).await?;
        last = Instant::now();
    }
    std::hint::black_box(check);
    let wall = first.map_or(Duration::ZERO, |first| last - first);
    Ok(crate::client::Drain {
        cpu: 0.0,
        wall: wall.as_secs_f64(),
        entries,
        rows,
        rss_mb: 0.0,
        allocations: 0,
    })
}
