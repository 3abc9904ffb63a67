//! Supervision over a scripted spawner: what is started again, how often, and what is not.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::*;

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(60);

/// Each start ends as the script says; after it nothing ends any more.
#[derive(Debug)]
struct Script {
    ends: Mutex<VecDeque<Result<ProcessEnd, SpawnError>>>,
    stopped: Mutex<Vec<String>>,
}

impl Script {
    fn new(ends: impl IntoIterator<Item = Result<ProcessEnd, SpawnError>>) -> Arc<Self> {
        Arc::new(Self {
            ends: Mutex::new(ends.into_iter().collect()),
            stopped: Mutex::new(Vec::new()),
        })
    }
}

impl ProcessSpawner for Script {
    fn start<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), SpawnError>> {
        let mut ends = self.ends.lock().unwrap();
        let refused = match ends.front() {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        };
        if refused.is_err() {
            ends.pop_front();
        }
        Box::pin(std::future::ready(refused))
    }

    fn stop<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), SpawnError>> {
        self.stopped.lock().unwrap().push(worker.to_owned());
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_alive<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<bool, SpawnError>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn ended<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<ProcessEnd, SpawnError>> {
        let end = self.ends.lock().unwrap().pop_front();
        Box::pin(async move {
            match end {
                Some(end) => end,
                None => std::future::pending().await,
            }
        })
    }
}

fn supervised(script: &Arc<Script>) -> Supervised {
    let spawner: Arc<dyn ProcessSpawner> = Arc::clone(script) as _;
    let pause = Duration::from_millis(1);
    let policy = RestartPolicy::default()
        .max_restarts(2)
        .back_off(pause, pause);
    Supervisor::new(spawner).with_policy(policy).start(["w"])
}

async fn told(events: &mut broadcast::Receiver<SupervisionEvent>, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        let event = timeout(LIMIT, events.recv())
            .await
            .expect("nothing is told");
        told.push(match event.unwrap() {
            SupervisionEvent::Started { worker } => format!("{worker} started"),
            SupervisionEvent::Ended { worker, end } => format!("{worker} {end}"),
            SupervisionEvent::NotStarted { worker, reason } => format!("{worker} not: {reason}"),
            SupervisionEvent::GivenUp { worker, reason } => format!("{worker} up: {reason}"),
        });
    }
    told
}

#[actix_rt::test]
async fn a_killed_process_is_started_again_until_the_limit() {
    let script = Script::new((0..3).map(|_| Ok(ProcessEnd::Signaled(9))));
    let mut supervised = supervised(&script);
    let mut events = supervised.events();
    let (started, killed) = ("w started", "w was ended by signal 9");
    let up = "w up: its process was ended by signal 9";
    let expected = [started, killed, started, killed, started, killed, up];
    assert_eq!(told(&mut events, 7).await, expected);
    timeout(LIMIT, supervised.ended())
        .await
        .expect("it goes on");
}

#[actix_rt::test]
async fn a_process_that_ends_in_peace_is_left_alone() {
    let script = Script::new([Ok(ProcessEnd::Exited(1)), Ok(ProcessEnd::Exited(0))]);
    let mut supervised = supervised(&script);
    let mut events = supervised.events();
    timeout(LIMIT, supervised.ended())
        .await
        .expect("it goes on");
    let expected = [
        "w started",
        "w ended with exit code 1",
        "w started",
        "w ended with exit code 0",
    ];
    assert_eq!(told(&mut events, 4).await, expected);
}

#[actix_rt::test]
async fn what_can_not_be_started_is_tried_again_and_a_stop_ends_all() {
    let refused = SpawnError::NotStarted {
        worker: "w".to_owned(),
        reason: "no room".to_owned(),
    };
    let script = Script::new([Err(refused)]);
    let mut supervised = supervised(&script);
    let mut events = supervised.events();
    let not = "w not: the process of worker w can't be started: no room";
    assert_eq!(told(&mut events, 2).await, [not, "w started"]);
    supervised.stop().await.unwrap();
    assert_eq!(*script.stopped.lock().unwrap(), ["w"]);
}
