//! SIGTERM to each example in the middle of its work: it ends in peace, and soon.
//!
//! The web servers of the migration guide are in its own test, which asks them something first: actix-web takes
//! signals when it runs, which is after it has said where it listens.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use lockkeeper_examples::orders::truth::Truth;
use rustix::process::Signal;

use crate::support::{LIMIT, Telling, example};

/// What an operator's tools wait at least, before they kill.
const SOON: Duration = Duration::from_secs(10);

/// A program, how it is started in `folder`, and what it says when it is at work.
struct Case {
    name: &'static str,
    command: fn(&Path) -> Command,
    ready: &'static str,
    /// What its output says of the end, if it says something.
    last: Option<&'static str>,
}

macro_rules! program {
    ($name:literal, $($argument:expr),*) => {{
        let mut command = Command::new(env!(concat!("CARGO_BIN_EXE_", $name)));
        command.args([$($argument),*]);
        command
    }};
}

const CASES: &[Case] = &[
    Case {
        name: "counter serve",
        command: |_| program!("counter", "serve", "--listen", "127.0.0.1:0"),
        ready: "serving ",
        last: None,
    },
    Case {
        name: "leader",
        command: |folder| {
            let mut command = program!("leader", "--calls", "1000000", "--pause-ms", "20");
            command.arg("--data").arg(folder);
            command
        },
        ready: "counter 1",
        last: Some("stopped by a signal"),
    },
    Case {
        name: "canal-tail",
        command: |_| program!("canal-tail", "--embedded"),
        ready: "{",
        last: None,
    },
    Case {
        name: "canal-to-kafka",
        command: |_| program!("canal-to-kafka", "--embedded", "--print"),
        ready: "canal/",
        last: None,
    },
    Case {
        name: "word-count",
        command: |folder| {
            let text = folder.join("text");
            std::fs::write(&text, "one boat\n".repeat(1_000)).unwrap();
            let mut command = program!("word-count", "--follow", "--lines-per-cut", "100");
            command.arg(text).arg("--data").arg(folder.join("data"));
            command
        },
        ready: "cut 1",
        last: Some("stopped with a last cut"),
    },
    Case {
        name: "orders",
        command: |folder| {
            let mut command = program!("orders", "--no-chaos", "--rows", "1000000000");
            command.args(["--workers", "1"]).arg("--data").arg(folder);
            command
        },
        ready: "cut ",
        last: Some("not compared with the source"),
    },
    Case {
        name: "orders in one process",
        command: |folder| {
            let mut command = program!("orders", "--no-chaos", "--rows", "1000000000");
            command.args(["--workers", "0"]).arg("--data").arg(folder);
            command
        },
        ready: "cut ",
        last: Some("not compared with the source"),
    },
    Case {
        name: "migration_after",
        command: |_| example("migration_after"),
        ready: "listening",
        last: None,
    },
];

#[test]
fn sigterm_ends_each_example_in_peace_within_ten_seconds() {
    for Case {
        name,
        command,
        ready,
        last,
    } in CASES
    {
        let folder = tempfile::tempdir().unwrap();
        let mut running = Telling::start(&mut command(folder.path()));
        running.line(ready);
        running.signal(Signal::TERM);
        let (status, rest) = running.ended_with(SOON);
        let status = status.unwrap_or_else(|| panic!("{name} has not ended within {SOON:?}"));
        assert!(status.success(), "{name}: {status}: {rest:?}");
        if let Some(last) = last {
            assert!(
                rest.iter().any(|line| line.contains(last)),
                "{name}: {rest:?}"
            );
        }
    }
}

/// Starts a program against a server that takes connections and says nothing, signals it when it waits
/// there, and gives what it still says until its good end.
fn stopped_while_nobody_answers(start: impl FnOnce(&str) -> Command) -> Vec<String> {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut waiting = Telling::start(&mut start(&address));
    // one that never comes must not be waited for
    let (sender, connected) = channel();
    std::thread::spawn(move || sender.send(silent.accept()));
    let _connection = connected.recv_timeout(LIMIT).expect("it connects").unwrap();
    waiting.signal(Signal::TERM);
    let (status, rest) = waiting.ended_with(SOON);
    assert!(status.expect("it ends").success(), "{rest:?}");
    rest
}

#[test]
fn a_signal_that_comes_while_nobody_answers_ends_the_waiting() {
    stopped_while_nobody_answers(|address| program!("canal-tail", "--address", address));
}

#[test]
fn the_loader_that_is_signalled_before_it_writes_says_that_nothing_was_written() {
    let said = stopped_while_nobody_answers(|address| {
        program!("orders-load", "--url", &format!("mysql://nobody@{address}"))
    });
    assert_eq!(said, ["stopped by a signal: nothing was written"]);
}

#[test]
fn the_judge_that_is_signalled_gives_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let said = stopped_while_nobody_answers(|address| {
        let truth = Truth::Sql {
            url: format!("mysql://nobody@{address}"),
            table: "shop.orders".parse().unwrap(),
            log: folder.path().join("log"),
        };
        truth.write(folder.path()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_orders-verify"));
        command.arg(folder.path());
        command
    });
    assert_eq!(said, ["stopped by a signal: nothing was compared"]);
}

/// On a real database (`tests/services/up` starts one).
mod real {
    use lockkeeper_examples::orders::database::{self, PASSWORD_VARIABLE};
    use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
    use sqlx::{AssertSqlSafe, Connection, Executor};

    use super::*;
    use crate::support::output;

    /// What reaches the database; `None` after saying that the test is skipped.
    fn loader(test: &str, table: &str) -> Option<(Command, String, String)> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(address) = variable("LOCKKEEPER_MYSQL") else {
            assert_ne!(
                variable("CI").as_deref(),
                Some("true"),
                "{test} has no server"
            );
            println!("SKIPPED {test}: no server, set LOCKKEEPER_MYSQL");
            return None;
        };
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let password = variable("LOCKKEEPER_MYSQL_PASSWORD_FILE")
            .map_or_else(String::new, |file| {
                std::fs::read_to_string(file).unwrap().trim_end().to_owned()
            });
        let url = format!("mysql://{user}@{address}");
        let mut command = program!("orders-load", "--url", &url, "--table", table);
        command.env(PASSWORD_VARIABLE, &password);
        Some((command, url, password))
    }

    #[test]
    fn a_signalled_loader_has_logged_what_it_committed_and_ended_the_job() {
        let name = "a_signalled_loader";
        let table = format!("orders_signals_{}.orders", std::process::id());
        let Some((mut create, ..)) = loader(name, &table) else {
            return;
        };
        assert!(output(create.arg("--create")).status.success());
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.jsonl");
        let (mut load, url, password) = loader(name, &table).unwrap();
        load.args(["--rows", "1000000000", "--log"]).arg(&log);
        let mut running = Telling::start(&mut load);
        running.line("writing to ");
        running.signal(Signal::TERM);
        let (status, rest) = running.ended_with(SOON);
        assert!(status.expect("it ends").success(), "{rest:?}");
        let said = rest.last().unwrap();
        let rows: u64 = said.split(' ').next().unwrap().parse().unwrap();
        assert!(rows > 0 && rows < 1_000_000_000, "{said}");

        // the table is what the log says, and has the row that ends the job
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let options: MySqlConnectOptions = url.parse().unwrap();
            let options = options.password(&password);
            let mut connection = MySqlConnection::connect_with(&options).await.unwrap();
            let name = table.parse().unwrap();
            let accounts = database::accounts(&mut connection, &name, &log)
                .await
                .unwrap();
            let changes: u64 = accounts.values().map(|account| account.changes).sum();
            assert!(changes >= rows, "{changes} of {rows}");
            let held: i64 = accounts.values().map(|account| account.count).sum();
            let count = database::count_rows(&mut connection, &name).await.unwrap();
            assert_eq!(count, held + 1);
            let drop = format!("DROP DATABASE {}", name.schema);
            connection.execute(AssertSqlSafe(drop)).await.unwrap();
        });
    }
}
