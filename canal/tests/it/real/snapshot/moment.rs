//! All tables as of one moment: money that is moved between two of them is never seen twice, nor
//! missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_canal::{Entry, EntryType};

use super::*;

/// Accounts of each of the two tables.
const ACCOUNTS: u64 = 10_000;

/// In each account at the beginning.
const AMOUNT: i64 = 1000;

/// In all of them, always.
const TOTAL: i64 = 20_000 * AMOUNT;

/// What the handler has, by table and account.
#[derive(Debug, Clone, Default)]
struct Books {
    amounts: BTreeMap<(String, u64), i64>,
    /// The sum of them.
    total: i64,
    /// Rows that were read.
    read: u64,
    /// Transactions that came behind them.
    transactions: u64,
    /// Whether the transaction that comes now has changed anything.
    changed: bool,
    wrong: Option<String>,
}

impl Books {
    fn entry(&mut self, entry: &Entry, schema: &str) -> BatchResult {
        if entry.entry_type() == EntryType::TransactionEnd && std::mem::take(&mut self.changed) {
            self.transactions += 1;
            self.balanced("behind a transaction");
        }
        if entry.schema_name() != schema {
            return Ok(());
        }
        let Some(change) = entry.row_change()? else {
            return Ok(());
        };
        let read = is_snapshot(entry);
        for row in change.rows::<(u64, i64)>() {
            let row = row?;
            let key = |id| (entry.table_name().to_owned(), id);
            if !read && !self.changed && self.transactions == 0 {
                self.balanced("when all rows are read");
            }
            if let Some((id, was)) = row.before {
                let had = self.amounts.remove(&key(id));
                self.total -= was;
                if had != Some(was) {
                    let (table, at) = (entry.table_name(), entry.position());
                    self.wrong(format!("{table} {id} had {had:?} and not {was} at {at}"));
                }
            }
            if let Some((id, is)) = row.after {
                self.total += is;
                if self.amounts.insert(key(id), is).is_some() {
                    self.wrong(format!("account {id} came twice"));
                }
            }
            self.read += u64::from(read);
            self.changed |= !read;
        }
        Ok(())
    }

    fn balanced(&mut self, when: &str) {
        if self.total != TOTAL {
            self.wrong(format!("{when} there is {} and not {TOTAL}", self.total));
        }
    }

    fn wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

struct Bookkeeper {
    schema: String,
    books: watch::Sender<Books>,
}

impl Actor for Bookkeeper {
    type Context = Context<Self>;
}

impl Handler<Batch> for Bookkeeper {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        let mut result = Ok(());
        self.books.send_modify(|books| {
            result = batch.message.entries().try_for_each(|entry| {
                let entry = entry?;
                books.entry(&entry, &self.schema)
            });
        });
        result
    }
}

/// Moves money between the tables, a transaction each, until it is told to stop.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    fn start(schema: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (schema, stopped) = (schema.to_owned(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut dice = 1_u64;
            while !stopped.load(Ordering::Acquire) {
                let mut sql = String::new();
                for _ in 0..50 {
                    dice = dice
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    sql += &transfer(&schema, dice >> 20);
                }
                assert!(client(&sql).wait().unwrap().success());
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    fn stop(mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn transfer(schema: &str, dice: u64) -> String {
    let (from, to, amount) = (
        dice % ACCOUNTS + 1,
        dice / 7 % ACCOUNTS + 1,
        dice / 3 % 90 + 1,
    );
    let body = match dice % 5 {
        // A whole account goes over to the other table, under a number of its own.
        0 => format!(
            "INSERT IGNORE INTO {schema}.savings SELECT id + {ACCOUNTS}, amount FROM {schema}.checking \
             WHERE id = {from} AND NOT EXISTS (SELECT 1 FROM {schema}.savings WHERE id = {from} + {ACCOUNTS}); \
             DELETE FROM {schema}.checking WHERE id = {from} AND ROW_COUNT() = 1;"
        ),
        // Only if both accounts are there.
        _ => format!(
            "UPDATE {schema}.checking c, {schema}.savings s SET c.amount = c.amount - {amount}, \
             s.amount = s.amount + {amount} WHERE c.id = {from} AND s.id = {to};"
        ),
    };
    format!("START TRANSACTION; {body} COMMIT;\n")
}

fn read_as_of_one_moment(test: &str, mode: SnapshotMode, user: &str) {
    on_the_real_server_with(test, async |subject, database| {
        let (schema, _) = subject.database.table();
        for table in ["checking", "savings"] {
            database.execute(&format!(
                "CREATE TABLE {schema}.{table} (id BIGINT UNSIGNED PRIMARY KEY, amount BIGINT NOT NULL); \
                 INSERT INTO {schema}.{table} SELECT seq, {AMOUNT} FROM {schema}.seq_1_to_{ACCOUNTS}"
            ));
        }
        let password = format!("{schema} reads");
        if !user.is_empty() {
            database.execute(&format!(
                "CREATE USER {user} IDENTIFIED BY '{password}'; GRANT SELECT ON {schema}.* TO {user}"
            ));
        }
        let reader = match user {
            "" => super::database(),
            user => {
                let address = variable("LOCKKEEPER_MYSQL").unwrap();
                SnapshotDatabase::new(&address, user, password).unwrap()
            }
        };
        let writer = Writer::start(schema);
        let tables = [(schema, "checking"), (schema, "savings")];
        let settings = SnapshotSettings::new(tables)
            .with_mode(mode)
            .with_chunk_rows(500)
            .with_retry(Duration::from_millis(10), Duration::from_millis(200), 50);
        let folder = tempfile::tempdir().unwrap();
        let store = FileSnapshotStore::new(folder.path().join("snapshot.json"));
        let (books, mut seen) = watch::channel(Books::default());
        let name = schema.to_owned();
        let handler = Bookkeeper {
            schema: name,
            books,
        };
        let connector = connector(&subject.address, &subject.destination);
        let recipient = handler.start().recipient();
        let snapshot = SnapshotThenStream::new(reader, connector, settings, store, recipient);
        let snapshot = snapshot.unwrap().start();
        let streaming = in_time("all rows", snapshot.send(WaitForStreaming)).await;
        streaming.unwrap().unwrap();
        let followed = |books: &Books| books.transactions >= 100 || books.wrong.is_some();
        in_time("transactions behind the rows", seen.wait_for(followed))
            .await
            .unwrap();
        tokio::task::spawn_blocking(move || writer.stop())
            .await
            .unwrap();
        database.execute(&format!("INSERT INTO {schema}.checking VALUES ({LAST}, 0)"));
        let last = ("checking".to_owned(), LAST);
        let all = seen.wait_for(|books| books.amounts.contains_key(&last) || books.wrong.is_some());
        let books = in_time("the last row", all).await.unwrap().clone();
        assert_eq!(books.wrong, None);
        let mut truth = BTreeMap::new();
        for table in ["checking", "savings"] {
            let rows = database.query(&format!("SELECT id, amount FROM {schema}.{table}"));
            for row in rows.lines() {
                let (id, amount) = row.split_once('\t').unwrap();
                truth.insert(
                    (table.to_owned(), id.parse().unwrap()),
                    amount.parse().unwrap(),
                );
            }
        }
        assert_eq!(books.amounts, truth);
        assert_eq!(books.total, TOTAL);
        assert!(books.read > ACCOUNTS, "{}", books.read);
        let watermarks = database.query(&format!(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}' AND \
             TABLE_NAME = 'lockkeeper_watermarks'"
        ));
        assert_eq!(watermarks.trim(), "0", "nothing is written");
        let stopped = in_time("it stops", snapshot.send(StopSnapshot)).await;
        assert_eq!(stopped.unwrap(), SnapshotEnd::Stopped);
        if !user.is_empty() {
            database.execute(&format!("DROP USER {user}"));
        }
    });
}

#[test]
fn rows_of_two_tables_are_of_one_moment_for_a_user_who_may_only_read() {
    let user = format!("moment{}", std::process::id());
    read_as_of_one_moment("snapshot_moment", SnapshotMode::OneMoment, &user);
}

#[test]
fn rows_of_two_tables_are_of_one_moment_by_a_read_lock() {
    read_as_of_one_moment("snapshot_lock", SnapshotMode::OneMomentByReadLock, "");
}

#[test]
fn a_table_whose_engine_has_no_transactions_is_refused() {
    on_the_real_server_with("snapshot_engine", async |subject, database| {
        let (schema, _) = subject.database.table();
        database.execute(&format!(
            "CREATE TABLE {schema}.plain (id INT PRIMARY KEY) ENGINE = MyISAM"
        ));
        let lab = Lab::start(subject, settings(schema, "plain"), "", Taking::Strict);
        let error = lab.ended().await;
        assert!(
            matches!(&error, SnapshotError::Engine { engine, .. } if engine == "MyISAM"),
            "{error}"
        );
    });
}
