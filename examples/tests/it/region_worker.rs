//! The example `lockkeeper-region-worker`: a coordinator and two workers as processes, one of which is
//! killed and started again by a supervisor.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::process::{
    LocalProcesses, Pipes, ProcessEnd, ProcessSpawner, Supervisor,
};
use lockkeeper_examples::word_count::output::{plain_count, result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::word_count::text;

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(120);
const COORDINATOR: &str = "coordinator";

#[derive(Clone)]
struct Place {
    folder: PathBuf,
    file: PathBuf,
    election: String,
}

impl Place {
    fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper-region-worker"));
        command.arg(&self.file).arg("--out").arg(self.out());
        command.arg("--store").arg(self.folder.join("store"));
        command.arg("--election").arg(&self.election);
        command.args(["--lines-per-cut", "100", "--width", "2"]);
        command.args(arguments);
        command
    }

    /// Six instances: three for each of the two workers.
    fn process(&self, name: &str) -> Command {
        let mut command = match name {
            COORDINATOR => {
                let arguments = ["--contend", "--new-store", "--slots", "0", "--workers", "2"];
                self.command(&arguments)
            }
            worker => self.command(&["--id", worker, "--slots", "3"]),
        };
        command.args(["--follow", "--end-with-parent"]);
        command.stdout(Stdio::piped());
        command
    }

    fn append(&self, lines: usize) {
        let more = (0..lines).map(|number| format!("more {number}\n"));
        let mut file = OpenOptions::new().append(true).open(&self.file).unwrap();
        file.write_all(more.collect::<String>().as_bytes()).unwrap();
    }

    fn is_counted(&self) -> bool {
        let counted = result(&self.out());
        counted.is_ok_and(|(counted, _)| counted == plain_count(&self.file).unwrap().0)
    }

    /// Until what is committed is the whole file, once. It stays so.
    async fn counted(&self) {
        let counted = async {
            while !self.is_counted() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let counted = timeout(LIMIT, counted).await;
        assert!(counted.is_ok(), "not every word is counted");
    }
}

/// What the coordinator prints; its standard input is held with it.
struct Coordinator {
    lines: Lines<BufReader<ChildStdout>>,
    _pipes: Pipes,
}

impl Coordinator {
    async fn line(&mut self, begin: &str) {
        let next = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.starts_with(begin) {
                    return true;
                }
            }
            false
        };
        let printed = timeout(LIMIT, next).await;
        assert_eq!(printed, Ok(true), "{begin:?} is not printed");
    }
}

fn place(folder: &Path) -> Place {
    Place {
        folder: folder.to_owned(),
        file: text(folder),
        election: folder.join("election").to_str().unwrap().to_owned(),
    }
}

#[actix::test]
async fn a_worker_process_is_killed_and_started_again_and_every_word_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    let (sender, mut started) = mpsc::unbounded_channel();
    let of = place.clone();
    let coordinators =
        LocalProcesses::new(move |name| of.process(name)).with_pipes(move |_, pipes| {
            let _ = sender.send(pipes);
        });
    coordinators.start(COORDINATOR).await.unwrap();
    let mut pipes = started.recv().await.unwrap();
    let mut coordinator = Coordinator {
        lines: BufReader::new(pipes.stdout.take().unwrap()).lines(),
        _pipes: pipes,
    };
    coordinator.line("contending").await;

    let of = place.clone();
    let workers = Arc::new(LocalProcesses::new(move |name| {
        let mut command = of.process(name);
        command.stdout(Stdio::null());
        command
    }));
    let spawner: Arc<dyn ProcessSpawner> = Arc::clone(&workers) as _;
    let mut kept = Supervisor::new(spawner).start(["a", "b"]);
    place.counted().await;

    let pid = workers.process_id("a").unwrap();
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    place.append(1_000);
    coordinator.line("a is lost").await;
    coordinator.line("a has joined").await;
    place.counted().await;

    coordinators.stop(COORDINATOR).await.unwrap();
    let ended = coordinators.ended(COORDINATOR).await;
    assert_eq!(ended, Ok(ProcessEnd::Exited(0)));
    timeout(LIMIT, kept.ended())
        .await
        .expect("a worker goes on");
    for worker in ["a", "b"] {
        assert_eq!(workers.ended(worker).await, Ok(ProcessEnd::Exited(0)));
    }
    assert!(place.is_counted());
}

#[cfg(feature = "kubernetes")]
#[test]
fn every_word_counts_once_under_a_leader_that_a_lease_of_kubernetes_elects() {
    let server = crate::api_server::ApiServer::start();
    let folder = tempfile::tempdir().unwrap();
    let mut place = place(folder.path());
    place.election = format!(
        "kubernetes://lockkeeper/words?url=http://{}",
        server.address
    );
    let alone = ["--contend", "--new-store", "--id", "a"];
    let ran = crate::support::output(&mut place.command(&alone));
    assert!(ran.status.success(), "{ran:?}");
    assert!(place.is_counted());
    assert!(server.leases.lock().unwrap().by_name.contains_key("words"));
}

#[test]
fn what_can_not_be_is_named_and_no_store_is_made_by_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let errors = refused(&mut place.command(&["--id", "a"]));
    assert!(errors.contains("is no store of a region"), "{errors}");
    assert!(!folder.path().join("store").exists());
    let needs = ["--contend", "--new-store", "--needs", "nobody=ssd"];
    let errors = refused(&mut place.command(&needs));
    assert!(errors.contains("no operator \"nobody\""), "{errors}");
    let errors = refused(&mut place.command(&["--contend", "--new-store", "--bind", "0.0.0.0:0"]));
    assert!(errors.contains("0.0.0.0"), "{errors}");
}
