//! The wall clock beside a real Canal server, which is the bottleneck there: what decoding adds to
//! a drain of raw entries.
//!
//! With the addresses that `tests/services/up` prints. Before each drain a table is filled with as many rows
//! as the last time; the client has subscribed before, and begins when they are all in the binlog. It is a
//! [`CanalConnector`] with room for two batches, in both modes: the server is at work on one while the other is
//! with its handler.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use actix::{Actor, Arbiter, Context, Handler, Message, MessageResult};
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings,
    ClientIdentity, ConnectorStatus, Filter, Pause, Resume, Stop,
};
use tokio::sync::watch::Receiver;

use crate::Failure;
use crate::client::{Drain, Mode, decode};
use crate::driver::drained;
use crate::frames::FETCH_SIZE;

/// Rows of a statement, each a transaction.
const STATEMENT: u64 = 1000;

/// Batches that are fetched or handled at a time.
const WINDOW: usize = 2;

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
        if ["LOCKKEEPER_CANAL", "LOCKKEEPER_MYSQL"]
            .map(variable)
            .contains(&None)
        {
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
        let (host, port) = address
            .rsplit_once(':')
            .ok_or("LOCKKEEPER_MYSQL is no host:port")?;
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let mut client = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--protocol=TCP",
                "--host",
                host,
                "--port",
                port,
                "--user",
                &user,
            ])
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

/// The client's process: it follows the table, waits for a line, and drains what the table was filled with.
pub fn run(mode: Mode, table: &str) -> Result<(), Failure> {
    let (schema, table) = table.split_once('.').ok_or("the table is schema.table")?;
    let drain = actix_rt::System::new().block_on(follow(mode, Filter::table(schema, table)))?;
    println!("RESULT {}", serde_json::to_string(&drain)?);
    Ok(())
}

async fn follow(mode: Mode, filter: Filter) -> Result<Drain, Failure> {
    let destinations = variable("LOCKKEEPER_CANAL_DESTINATIONS").unwrap_or_default();
    let destination = destinations.split(',').next().unwrap_or("example");
    let connector = CanalConnectorBuilder::new(ClientIdentity::new(destination))
        .address(variable("LOCKKEEPER_CANAL").unwrap_or_default())
        .credentials(
            variable("LOCKKEEPER_CANAL_USER").unwrap_or_default(),
            password("LOCKKEEPER_CANAL_PASSWORD_FILE"),
        )
        .build()?;
    let settings = CanalConnectorSettings::default()
        .with_filter(filter)
        .with_fetch_size(FETCH_SIZE)
        .with_window(WINDOW)
        .with_longest_poll_pause(Duration::from_millis(1))
        .with_reconnect_limit(Some(0));
    // It decodes on a thread of its own, beside the one that receives.
    let arbiter = Arbiter::new();
    let drainer = Drainer::start_in_arbiter(&arbiter.handle(), |_| Drainer {
        mode: Mode::Raw,
        drain: None,
    });
    let connector = CanalConnector::new(connector, settings, drainer.clone().recipient())?;
    let mut status = connector.watch();
    let connector = connector.start();
    // What is there from before.
    status.wait_for(|status| status.connections > 0).await?;
    quiet(&mut status, QUIET).await?;
    connector.send(Pause).await?;
    drainer.send(Begin(mode)).await?;
    println!("READY");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    connector.send(Resume).await?;
    quiet(&mut status, QUIET * 2).await?;
    let drain = drainer.send(End).await?;
    connector.send(Stop).await?;
    drain.ok_or_else(|| "nothing came".into())
}

/// Waits until nothing has come for so long.
async fn quiet(status: &mut Receiver<ConnectorStatus>, quiet: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut batches = status.borrow_and_update().handled_batches;
    loop {
        let came = status.wait_for(|status| status.handled_batches > batches);
        match tokio::time::timeout(quiet, came).await {
            Ok(status) => batches = status?.handled_batches,
            Err(_) => return Ok(()),
        }
        if begun.elapsed() > LIMIT {
            return Err("the drain does not end".into());
        }
    }
}

/// The handler: decodes what comes, or does not.
struct Drainer {
    mode: Mode,
    drain: Option<Drained>,
}

/// What has come, and when.
struct Drained {
    first: Instant,
    last: Instant,
    entries: u64,
    rows: u64,
    check: u64,
}

/// What has come so far does not count.
#[derive(Message)]
#[rtype(result = "()")]
struct Begin(Mode);

/// Asks what has come.
#[derive(Message)]
#[rtype(result = "Option<Drain>")]
struct End;

impl Actor for Drainer {
    type Context = Context<Self>;
}

impl Handler<Begin> for Drainer {
    type Result = ();

    fn handle(&mut self, Begin(mode): Begin, _: &mut Context<Self>) {
        *self = Self { mode, drain: None };
    }
}

impl Handler<Batch> for Drainer {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Context<Self>) -> BatchResult {
        let now = Instant::now();
        let drain = self.drain.get_or_insert(Drained {
            first: now,
            last: now,
            entries: 0,
            rows: 0,
            check: 0,
        });
        drain.entries += batch.message.len() as u64;
        if self.mode == Mode::Typed {
            drain.rows += decode(&batch.message, &mut drain.check)?;
        }
        drain.last = Instant::now();
        Ok(())
    }
}

impl Handler<End> for Drainer {
    type Result = MessageResult<End>;

    fn handle(&mut self, _: End, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.drain.take().map(|drain| {
            std::hint::black_box(drain.check);
            Drain {
                cpu: 0.0,
                wall: (drain.last - drain.first).as_secs_f64(),
                entries: drain.entries,
                rows: drain.rows,
                rss_mb: 0.0,
                allocations: 0,
            }
        }))
    }
}
