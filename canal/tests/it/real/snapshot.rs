//! Rows from before the start, on the real Canal server and MariaDB: read in chunks while the table is
//! changed, and after kills.

mod moment;
mod process;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::snapshot::{
    FileSnapshotStore, GetSnapshotStatus, SnapshotDatabase, SnapshotEnd, SnapshotError,
    SnapshotMode, SnapshotPhase, SnapshotSettings, SnapshotThenStream, StopSnapshot,
    WaitForSnapshotEnd, WaitForStreaming, is_snapshot,
};
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, RawRow,
    SimpleCanalConnector,
};
use tokio::sync::watch;

use super::{on_the_real_server_with, password, variable};
use crate::contract::Subject;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(115);

/// The row that is written last.
const LAST: u64 = 10_000_000;

type Orders = BTreeMap<u64, Vec<Option<String>>>;

async fn in_time<T>(what: &str, done: impl Future<Output = T>) -> T {
    match tokio::time::timeout(HANG, done).await {
        Ok(value) => value,
        Err(_) => panic!("hangs: {what}"),
    }
}

/// The command line client with this as its input. Its output can be read.
fn client(sql: &str) -> Child {
    let address = variable("LOCKKEEPER_MYSQL").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
    let mut client = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--protocol=TCP",
            "--default-character-set=utf8mb4",
        ])
        .args(["--batch", "--raw", "--skip-column-names"])
        .args(["--host", host, "--port", port, "--user", &user])
        .env("MYSQL_PWD", password("LOCKKEEPER_MYSQL_PASSWORD_FILE"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command line client `mariadb` starts");
    let mut input = client.stdin.take().unwrap();
    let sql = sql.to_owned();
    // The client may take its input slowly.
    std::thread::spawn(move || input.write_all(sql.as_bytes()));
    client
}

/// Executes statements that may wait for the transaction that reads a chunk, which goes on only on this thread.
async fn execute(sql: &str) {
    let client = client(sql);
    let ended = tokio::task::spawn_blocking(move || client.wait_with_output());
    let ended = in_time(sql, ended).await.unwrap().unwrap();
    assert!(ended.status.success(), "{sql}");
}

/// The table as SQL has it.
fn truth(table: &str) -> Orders {
    // A decimal's two zeros behind the point are one in Canal's text.
    let select = format!(
        "SELECT id, customer, REGEXP_REPLACE(amount, '\\\\.00$', '.0'), placed FROM {table} ORDER BY id;"
    );
    let output = client(&select).wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| {
        let cells: Vec<_> = line.split('\t').collect();
        let null = |cell: &str| (cell != "NULL").then(|| cell.to_owned());
        (
            cells[0].parse().unwrap(),
            cells[1..].iter().map(|cell| null(cell)).collect(),
        )
    });
    rows.collect()
}

/// Inserts the rows that are there before.
fn fill(table: &str, rows: u64) -> String {
    let (schema, _) = table.split_once('.').unwrap();
    format!(
        "INSERT INTO {table} SELECT seq, CONCAT('customer ', seq % 7), seq % 1000 + 0.25, \
         '2024-02-29 12:34:56' FROM {schema}.seq_1_to_{rows};"
    )
}

/// Changes all over the table, each a transaction: inserts, updates, deletes, and moves of keys.
fn changes(table: &str, rows: u64, count: u64) -> String {
    let mut sql = String::new();
    let mut dice = 1_u64;
    for number in 0..count {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (at, kind) = ((dice >> 33) % rows + 1, number % 6);
        sql += &match kind {
            0 => format!(
                "UPDATE {table} SET amount = amount + 1 WHERE id BETWEEN {at} AND {at} + 9;\n"
            ),
            1 => format!("DELETE FROM {table} WHERE id BETWEEN {at} AND {at} + 2;\n"),
            2 => format!("REPLACE INTO {table} VALUES ({at}, 'again 🚀', 1.00, NULL);\n"),
            3 => format!(
                "INSERT INTO {table} VALUES ({}, 'new', {number}, NULL);\n",
                rows + number + 1
            ),
            4 => format!(
                "UPDATE IGNORE {table} SET id = {} - id WHERE id = {at};\n",
                rows + 1
            ),
            _ => format!("UPDATE {table} SET customer = NULL WHERE id = {at};\n"),
        };
    }
    sql
}

/// How a handler takes what comes.
#[derive(Clone, Copy, PartialEq)]
enum Taking {
    /// Each row is new once, and every change fits what is there: nothing is missing or double.
    Strict,
    /// What comes is written over what is there.
    Over,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    orders: Orders,
    read: usize,
    wrong: Option<String>,
}

struct Table {
    name: String,
    taking: Taking,
    seen: watch::Sender<Seen>,
}

impl Actor for Table {
    type Context = Context<Self>;
}

fn image(columns: lockkeeper_canal::Columns<'_>) -> Option<(u64, Vec<Option<String>>)> {
    let text = |name| {
        columns
            .get(name)
            .and_then(|column| column.text())
            .map(str::to_owned)
    };
    let id = text("id")?.parse().ok()?;
    Some((id, ["customer", "amount", "placed"].map(text).to_vec()))
}

impl Seen {
    fn batch(&mut self, batch: &Batch, table: &str, taking: Taking) -> BatchResult {
        for entry in batch.message.entries() {
            let entry = entry?;
            let name = format!("{}.{}", entry.schema_name(), entry.table_name());
            if name != table {
                // What the destination still held of the test before; never an own watermark.
                let schema = table.split('.').next().unwrap_or_default();
                if name == format!("{schema}.lockkeeper_watermarks") {
                    self.wrong.get_or_insert(format!("{name} was handed out"));
                }
                continue;
            }
            let Some(change) = entry.row_change()? else {
                continue;
            };
            for row in change.raw_rows() {
                self.take(row, taking);
            }
            if is_snapshot(&entry) {
                self.read += change.len();
            }
        }
        Ok(())
    }

    fn take(&mut self, row: RawRow<'_>, taking: Taking) {
        let (before, after) = (image(row.before()), image(row.after()));
        if let Some((id, was)) = before {
            let had = self.orders.remove(&id);
            if taking == Taking::Strict && had.as_ref() != Some(&was) {
                self.wrong
                    .get_or_insert(format!("row {id} was {had:?} and not {was:?}"));
            }
        }
        if let Some((id, is)) = after {
            let had = self.orders.insert(id, is);
            if taking == Taking::Strict && had.is_some() {
                self.wrong.get_or_insert(format!("row {id} came twice"));
            }
        }
    }
}

impl Handler<Batch> for Table {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        let mut result = Ok(());
        self.seen
            .send_modify(|seen| result = seen.batch(&batch, &self.name, self.taking));
        result
    }
}

fn connector(address: &str, destination: &str) -> SimpleCanalConnector {
    let user = variable("LOCKKEEPER_CANAL_USER").unwrap_or_default();
    let password = password("LOCKKEEPER_CANAL_PASSWORD_FILE");
    CanalConnectorBuilder::new(ClientIdentity::new(destination))
        .address(address)
        .credentials(user, password)
        // A busy machine is no broken connection: what comes again would be counted twice.
        .request_timeout(HANG)
        .build()
        .unwrap()
}

fn database() -> SnapshotDatabase {
    let address = variable("LOCKKEEPER_MYSQL").unwrap();
    let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
    SnapshotDatabase::new(&address, user, password("LOCKKEEPER_MYSQL_PASSWORD_FILE")).unwrap()
}

fn settings(schema: &str, table: &str) -> SnapshotSettings {
    let connector = CanalConnectorSettings::default()
        .with_back_off(Duration::from_millis(10), Duration::from_millis(200));
    SnapshotSettings::new([(schema, table)])
        .with_connector(connector)
        .with_retry(Duration::from_millis(10), Duration::from_millis(200), 10)
}

/// A snapshot that is under way, and what its handler has.
struct Lab {
    snapshot: Addr<SnapshotThenStream<FileSnapshotStore>>,
    seen: watch::Receiver<Seen>,
    _folder: tempfile::TempDir,
}

impl Lab {
    fn start(subject: &Subject, settings: SnapshotSettings, table: &str, taking: Taking) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = FileSnapshotStore::new(folder.path().join("snapshot.json"));
        let (seen, receiver) = watch::channel(Seen::default());
        let name = table.to_owned();
        let handler = Table { name, taking, seen }.start().recipient();
        let connector = connector(&subject.address, &subject.destination);
        let snapshot = SnapshotThenStream::new(database(), connector, settings, store, handler);
        Self {
            snapshot: snapshot.unwrap().start(),
            seen: receiver,
            _folder: folder,
        }
    }

    /// Resolves when the last row has come.
    async fn last(&mut self) -> Seen {
        let last = self
            .seen
            .wait_for(|seen| seen.orders.contains_key(&LAST) || seen.wrong.is_some());
        in_time("the last row", last).await.unwrap().clone()
    }

    async fn ended(&self) -> SnapshotError {
        match in_time("the end", self.snapshot.send(WaitForSnapshotEnd))
            .await
            .unwrap()
        {
            SnapshotEnd::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn differences(seen: &Orders, truth: &Orders) -> Vec<String> {
    let ids = seen.keys().chain(truth.keys());
    let different = ids.filter(|id| seen.get(id) != truth.get(id));
    let different = different.map(|id| format!("{id}: {:?} {:?}", seen.get(id), truth.get(id)));
    different.take(5).collect()
}

#[test]
fn a_table_of_100000_rows_that_is_changed_meanwhile_ends_equal_to_sqls() {
    on_the_real_server_with("snapshot_large", async |subject, database| {
        let (schema, _) = subject.database.table();
        let table = format!("{schema}.orders");
        database.execute(&fill(&table, 100_000));
        let settings = settings(schema, "orders").with_mode(SnapshotMode::Watermarks);
        let mut lab = Lab::start(subject, settings, &table, Taking::Strict);
        // The changes begin with the first rows, and go on while chunks are read.
        let read = lab.seen.wait_for(|seen| seen.read > 0);
        in_time("the first chunk", read).await.unwrap();
        let mut writer = client(&changes(&table, 100_000, 3000));
        let streaming = in_time("all chunks", lab.snapshot.send(WaitForStreaming)).await;
        streaming.unwrap().unwrap();
        let status = lab.snapshot.send(GetSnapshotStatus).await.unwrap();
        assert_eq!(status.phase, SnapshotPhase::Streaming);
        assert!(status.chunks >= 45, "{status:?}");
        let written = tokio::task::spawn_blocking(move || writer.wait());
        assert!(written.await.unwrap().unwrap().success());
        database.execute(&format!(
            "INSERT INTO {table} VALUES ({LAST}, 'last', 0, NULL)"
        ));
        let seen = lab.last().await;
        assert_eq!(seen.wrong, None);
        assert!(seen.read > 90_000, "{}", seen.read);
        let truth = truth(&table);
        assert_eq!(differences(&seen.orders, &truth), [""; 0]);
        assert_eq!(seen.orders.len(), truth.len());
        let stopped = in_time("it stops", lab.snapshot.send(StopSnapshot)).await;
        assert_eq!(stopped.unwrap(), SnapshotEnd::Stopped);
    });
}

#[test]
fn a_table_that_is_altered_while_it_is_read_ends_equal_to_sqls() {
    on_the_real_server_with("snapshot_altered", async |subject, database| {
        let (schema, _) = subject.database.table();
        let table = format!("{schema}.orders");
        database.execute(&fill(&table, 5_000));
        let chunks = settings(schema, "orders")
            .with_mode(SnapshotMode::Watermarks)
            .with_chunk_rows(100);
        let mut lab = Lab::start(subject, chunks, &table, Taking::Over);
        in_time("the first chunk", lab.seen.wait_for(|seen| seen.read > 0))
            .await
            .unwrap();
        let wider = LAST - 1;
        execute(&format!(
            "ALTER TABLE {table} ADD COLUMN note TEXT FIRST; DELETE FROM {table} WHERE id % 3 = 0; \
             INSERT INTO {table} (id, customer, amount) VALUES ({wider}, 'wider', 0);"
        ))
        .await;
        // Canal stops for good at a row that has more columns than its table has by now.
        let seen = lab.seen.wait_for(|seen| seen.orders.contains_key(&wider));
        in_time("a row of the wider table", seen).await.unwrap();
        execute(&format!("ALTER TABLE {table} DROP COLUMN note;")).await;
        let streaming = in_time("all chunks", lab.snapshot.send(WaitForStreaming)).await;
        streaming.unwrap().unwrap();
        database.execute(&format!(
            "INSERT INTO {table} VALUES ({LAST}, 'last', 0, NULL)"
        ));
        let seen = lab.last().await;
        assert_eq!(differences(&seen.orders, &truth(&table)), [""; 0]);
    });
}

#[test]
fn an_empty_table_and_keys_of_other_types_are_read() {
    on_the_real_server_with("snapshot_keys", async |subject, database| {
        let (schema, _) = subject.database.table();
        let table = format!("{schema}.keys");
        database.execute(&format!(
            "CREATE TABLE {table} (name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, day DATE, \
             bytes VARBINARY(8), id BIGINT, customer TEXT, amount TEXT, placed TEXT, \
             PRIMARY KEY (name, day, bytes)); \
             INSERT INTO {table} SELECT CONCAT(CHAR(65 + seq % 57 USING utf8mb4), seq % 3, '🚀'), \
             '2024-01-01' + INTERVAL seq % 5 DAY, UNHEX(HEX(seq)), seq, NULL, NULL, NULL FROM {schema}.seq_1_to_3000;
             CREATE TABLE {schema}.empty LIKE {table}"
        ));
        let tables =
            SnapshotSettings::new([(schema, "empty"), (schema, "keys")]).with_chunk_rows(70);
        let mut lab = Lab::start(subject, tables, &table, Taking::Strict);
        in_time("all chunks", lab.snapshot.send(WaitForStreaming))
            .await
            .unwrap()
            .unwrap();
        database.execute(&format!(
            "UPDATE {table} SET name = CONCAT('z', name) WHERE id % 4 = 0; \
             INSERT INTO {table} VALUES ('', '2024-01-01', '', {LAST}, NULL, NULL, NULL)"
        ));
        let seen = lab.last().await;
        assert_eq!(seen.wrong, None);
        assert_eq!(seen.read, 3000);
        assert_eq!(differences(&seen.orders, &truth(&table)), [""; 0]);
    });
}

#[test]
fn rows_that_are_read_have_the_texts_that_canal_writes() {
    on_the_real_server_with("snapshot_values", async |subject, database| {
        let (schema, _) = subject.database.table();
        database.execute(&format!(
            "SET sql_mode = ''; CREATE TABLE {schema}.values_read (id INT PRIMARY KEY, ti TINYINT, \
             tu TINYINT UNSIGNED, zf INT(8) UNSIGNED ZEROFILL, mu MEDIUMINT UNSIGNED, bu BIGINT UNSIGNED, \
             de DECIMAL(20,6), dn DECIMAL(30,9), dl DECIMAL(65,30), bo BOOLEAN, bt BIT(64), ye YEAR, da DATE, zd DATE, tm TIME(3), dt DATETIME(6), \
             st ENUM('new','it''s paid','ÄÖ'), se SET('a','b','c'), ch CHAR(4), vc VARCHAR(40), tx TEXT, \
             bl BLOB, bi BINARY(6), vb VARBINARY(300), js JSON, pt POINT, fl FLOAT, db DOUBLE) CHARACTER SET utf8mb4; \
             INSERT INTO {schema}.values_read VALUES \
             (1, -128, 255, 42, 16777215, 18446744073709551615, 12345.678, -0.5, 12345.678, 1, b'1111', 2024, '2024-02-29', \
              '0000-00-00', '-100:59:59.125', '2024-02-29 12:34:56.789012', 'it''s paid', 'a,c', 'Ä 🚀', 'ß  ', \
              'text\\nmore', x'00FF8041', x'41FF00000000', x'00FF00', '{{\"a\":1}}', POINT(1, 2.5), 1.5, -2.25), \
             (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
              NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
             (3, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'0', 1901, '1000-01-01', '9999-12-31', '838:59:59', '0000-00-00', 'new', '', \
              '', '', '', '', '', '', '[]', NULL, 0.1, 1e10); \
             CREATE TABLE {schema}.values_written LIKE {schema}.values_read"
        ));
        let also = lockkeeper_canal::Filter::table(schema, "values_written");
        let settings = settings(schema, "values_read").with_also(also);
        let folder = tempfile::tempdir().unwrap();
        let store = FileSnapshotStore::new(folder.path().join("snapshot.json"));
        let (texts, mut seen) = watch::channel(BTreeMap::new());
        let handler = Texts { texts }.start().recipient();
        let connector = connector(&subject.address, &subject.destination);
        let snapshot = SnapshotThenStream::new(
            super::snapshot::database(),
            connector,
            settings,
            store,
            handler,
        );
        let snapshot = snapshot.unwrap().start();
        in_time("all chunks", snapshot.send(WaitForStreaming))
            .await
            .unwrap()
            .unwrap();
        database.execute(&format!(
            "INSERT INTO {schema}.values_written SELECT * FROM {schema}.values_read"
        ));
        let key = |table: &str, id: u32| (format!("{schema}.{table}"), id.to_string());
        let all = seen.wait_for(|texts| texts.contains_key(&key("values_written", 3)));
        let texts = in_time("the rows", all).await.unwrap().clone();
        for id in 1..=3 {
            let read = &texts[&key("values_read", id)];
            let written = &texts[&key("values_written", id)];
            for (read, written) in read.iter().zip(written) {
                // Java writes another number of digits and zeros.
                let number =
                    |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<f64>().ok());
                let same = read.1 == written.1
                    || (["fl", "db"].contains(&read.0.as_str())
                        && number(&read.1) == number(&written.1));
                assert!(same, "row {id}: read {read:?}, written {written:?}");
                assert_eq!(
                    (&read.0, &read.2, read.3),
                    (&written.0, &written.2, written.3),
                    "row {id}"
                );
            }
            assert_eq!(read.len(), written.len());
        }
    });
}

/// Name, text, type and whether it is in the key.
type Cell = (String, Option<String>, String, bool);

/// Collects every column of inserted rows, by table and first column.
struct Texts {
    texts: watch::Sender<BTreeMap<(String, String), Vec<Cell>>>,
}

impl Actor for Texts {
    type Context = Context<Self>;
}

impl Handler<Batch> for Texts {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        for entry in batch.message.entries() {
            let entry = entry?;
            let Some(change) = entry.row_change()? else {
                continue;
            };
            let table = format!("{}.{}", entry.schema_name(), entry.table_name());
            for row in change.raw_rows() {
                let cells = row.after().iter().map(|column| {
                    let text = column.text().map(str::to_owned);
                    (
                        column.name().into_owned(),
                        text,
                        column.mysql_type().into_owned(),
                        column.is_key(),
                    )
                });
                let cells: Vec<Cell> = cells.collect();
                let Some((_, Some(id), ..)) = cells.first().cloned() else {
                    continue;
                };
                self.texts.send_modify(|texts| {
                    texts.insert((table.clone(), id), cells);
                });
            }
        }
        Ok(())
    }
}

#[test]
fn a_table_that_cannot_be_read_in_chunks_ends_it_with_the_reason() {
    on_the_real_server_with("snapshot_refused", async |subject, database| {
        let (schema, _) = subject.database.table();
        database.execute(&format!(
            "CREATE TABLE {schema}.keyless (id INT); \
             CREATE TABLE {schema}.words (word VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY) \
             CHARACTER SET utf8mb4"
        ));
        for (table, text) in [
            ("keyless", "no primary key"),
            ("words", "utf8mb4_general_ci"),
            ("nowhere", "no table"),
        ] {
            let lab = Lab::start(subject, settings(schema, table), "", Taking::Strict);
            let error = lab.ended().await;
            assert!(error.to_string().contains(text), "{error}");
        }
    });
}

#[test]
fn a_database_that_does_not_answer_is_tried_and_told() {
    on_the_real_server_with("snapshot_unreachable", async |subject, _| {
        let (schema, table) = subject.database.table();
        // A port that nobody listens on: it was just let go.
        let gone = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let database = SnapshotDatabase::new(&gone.to_string(), "nobody", "").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = FileSnapshotStore::new(folder.path().join("snapshot.json"));
        let (seen, _receiver) = watch::channel(Seen::default());
        let handler = Table {
            name: String::new(),
            taking: Taking::Over,
            seen,
        }
        .start()
        .recipient();
        let settings = settings(schema, table).with_retry(
            Duration::from_millis(5),
            Duration::from_millis(10),
            3,
        );
        let connector = connector(&subject.address, &subject.destination);
        let snapshot = SnapshotThenStream::new(database, connector, settings, store, handler)
            .unwrap()
            .start();
        let end = in_time("the end", snapshot.send(WaitForSnapshotEnd))
            .await
            .unwrap();
        assert!(
            matches!(end, SnapshotEnd::Failed(SnapshotError::Database(_))),
            "{end:?}"
        );
    });
}
