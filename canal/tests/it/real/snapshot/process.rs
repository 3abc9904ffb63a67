//! A snapshot in a process of its own, which is killed in the middle of its chunks and started again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Child;

use super::*;

/// The folder of the process, which makes this test's second face its main program.
const FOLDER: &str = "LOCKKEEPER_SNAPSHOT_FOLDER";
const TABLE: &str = "LOCKKEEPER_SNAPSHOT_TABLE";
const DESTINATION: &str = "LOCKKEEPER_SNAPSHOT_DESTINATION";
const MODE: &str = "LOCKKEEPER_SNAPSHOT_MODE";

/// Writes each change as a line: an id and the row's JSON, or an id alone for a row that is gone.
struct Log {
    name: String,
    file: File,
}

impl Actor for Log {
    type Context = Context<Self>;
}

impl Handler<Batch> for Log {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        let mut lines = String::new();
        for entry in batch.message.entries() {
            let entry = entry?;
            if format!("{}.{}", entry.schema_name(), entry.table_name()) != self.name {
                continue;
            }
            let Some(change) = entry.row_change()? else {
                continue;
            };
            for row in change.raw_rows() {
                let (before, after) = (image(row.before()), image(row.after()));
                if let Some((id, _)) = before {
                    lines += &format!("{id}\n");
                }
                if let Some((id, row)) = after {
                    lines += &format!("{id} {}\n", serde_json::to_string(&row)?);
                }
            }
        }
        // One write: a kill leaves whole batches, or the last one cut.
        self.file.write_all(lines.as_bytes())?;
        Ok(())
    }
}

/// What the log says the table is. A line that a kill has cut is written again by the next process.
fn replayed(path: &Path) -> Orders {
    let mut orders = Orders::new();
    let lines = BufReader::new(File::open(path).unwrap()).lines();
    for line in lines.map(Result::unwrap) {
        match line.split_once(' ') {
            Some((id, row)) => {
                let (Ok(id), Ok(row)) = (id.parse(), serde_json::from_str(row)) else {
                    continue;
                };
                orders.insert(id, row);
            }
            None => {
                orders.remove(&line.parse().unwrap_or(0));
            }
        }
    }
    orders
}

/// The process: not a test by itself.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = variable(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let name = variable(TABLE).unwrap();
    let (schema, table) = name.split_once('.').unwrap();
    actix_rt::System::new().block_on(async {
        let path = folder.join("log");
        // The next line begins anew, whatever the last process was at.
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        file.write_all(b"\n").unwrap();
        let handler = Log {
            name: name.clone(),
            file,
        }
        .start()
        .recipient();
        let address = variable("LOCKKEEPER_CANAL").unwrap();
        let connector = connector(&address, &variable(DESTINATION).unwrap());
        let store = FileSnapshotStore::new(folder.join("snapshot.json"));
        let mode = match variable(MODE).as_deref() {
            Some("watermarks") => SnapshotMode::Watermarks,
            _ => SnapshotMode::OneMoment,
        };
        let settings = settings(schema, table).with_chunk_rows(500).with_mode(mode);
        let snapshot = SnapshotThenStream::new(database(), connector, settings, store, handler);
        let snapshot = snapshot.unwrap().start();
        let end = snapshot.send(WaitForSnapshotEnd).await.unwrap();
        panic!("it runs until it is killed: {end:?}");
    });
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the process.
fn start(folder: &Path, table: &str, destination: &str, mode: &str) -> Killed {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "real::snapshot::process::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .env(TABLE, table)
        .env(DESTINATION, destination)
        .env(MODE, mode)
        .stdout(Stdio::null())
        .spawn();
    Killed(child.unwrap())
}

/// Resolves when the log has what is wanted.
async fn until(path: &Path, process: &mut Killed, done: impl Fn(&Orders) -> bool) {
    let log = async {
        loop {
            if path.exists() && done(&replayed(path)) {
                return;
            }
            assert_eq!(process.0.try_wait().unwrap(), None, "the process has ended");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time("the log", log).await;
}

#[test]
fn a_snapshot_that_is_killed_between_its_chunks_goes_on_and_ends_equal_to_sqls() {
    killed_and_started_again("snapshot_killed", "watermarks");
}

#[test]
fn a_snapshot_of_one_moment_that_is_killed_goes_on_as_of_a_later_one_and_ends_equal_to_sqls() {
    killed_and_started_again("snapshot_moment_killed", "moment");
}

fn killed_and_started_again(test: &str, mode: &str) {
    on_the_real_server_with(test, async |subject, database| {
        let (schema, _) = subject.database.table();
        let table = format!("{schema}.orders");
        database.execute(&fill(&table, 30_000));
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut writer = client(&changes(&table, 30_000, 2000));
        for rows in [3_000, 9_000, 15_000] {
            let mut process = start(folder.path(), &table, &subject.destination, mode);
            until(&log, &mut process, |orders| orders.len() >= rows).await;
            // Changes while nobody follows.
            drop(process);
            database.execute(&format!(
                "DELETE FROM {table} WHERE id BETWEEN {} AND {rows} + 1500",
                rows - 1500
            ));
        }
        let written = tokio::task::spawn_blocking(move || writer.wait());
        assert!(written.await.unwrap().unwrap().success());
        database.execute(&format!(
            "INSERT INTO {table} VALUES ({LAST}, 'last', 0, NULL)"
        ));
        let mut process = start(folder.path(), &table, &subject.destination, mode);
        let truth = truth(&table);
        until(&log, &mut process, |orders| {
            orders.contains_key(&LAST) && orders.len() == truth.len()
        })
        .await;
        assert_eq!(differences(&replayed(&log), &truth), [""; 0]);
    });
}
