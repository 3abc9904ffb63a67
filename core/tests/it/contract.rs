//! Behaviours of Flink's RPC that no other file here has, and the table of all of them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::ThreadId,
    time::{Duration, Instant},
};

use actix::prelude::*;
use lockkeeper_core::{EndpointId, prelude::*};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};

use crate::support::*;

/// Fails after an await.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), String>")]
struct FailLater;

/// A message that cannot be written.
#[derive(Message, Deserialize)]
#[rtype(result = "()")]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("it holds a socket"))
    }
}

/// A reply that can be written and not be read.
#[derive(Serialize)]
struct Unreadable;

impl<'de> Deserialize<'de> for Unreadable {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("of another age"))
    }
}

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Unreadable")]
struct AskUnreadable;

/// A value that looks like a wrapper of values.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Result<Option<Result<i64, String>>, RpcError>")]
struct AskWrapped;

/// As many bytes as asked for.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Vec<u8>")]
struct AskBytes(usize);

rpc_gateway! {
    OddGateway("test.Odd", version = 1) {
        FailLater, Unwritable, AskUnreadable, AskWrapped, AskBytes,
    }
}

#[derive(RpcEndpoint)]
#[rpc(gateways(OddGateway), lifecycle)]
struct Odd {
    stopped_on: std::sync::mpsc::Sender<ThreadId>,
}

impl RpcLifecycle for Odd {
    fn on_stop(&mut self, _: &mut Context<Self>) -> HookFuture<Self> {
        let _ = self.stopped_on.send(std::thread::current().id());
        hook_done(Ok(()))
    }
}

impl Actor for Odd {
    type Context = Context<Self>;
}

impl Handler<FailLater> for Odd {
    type Result = ResponseFuture<Result<(), String>>;

    fn handle(&mut self, _: FailLater, _: &mut Context<Self>) -> Self::Result {
        Box::pin(async {
            tokio::task::yield_now().await;
            Err("no disk".into())
        })
    }
}

impl Handler<Unwritable> for Odd {
    type Result = ();

    fn handle(&mut self, _: Unwritable, _: &mut Context<Self>) {}
}

impl Handler<AskUnreadable> for Odd {
    type Result = MessageResult<AskUnreadable>;

    fn handle(&mut self, _: AskUnreadable, _: &mut Context<Self>) -> Self::Result {
        MessageResult(Unreadable)
    }
}

impl Handler<AskWrapped> for Odd {
    type Result = MessageResult<AskWrapped>;

    fn handle(&mut self, _: AskWrapped, _: &mut Context<Self>) -> Self::Result {
        MessageResult(Ok(Some(Err("inside".into()))))
    }
}

impl Handler<AskBytes> for Odd {
    type Result = Vec<u8>;

    fn handle(&mut self, AskBytes(size): AskBytes, _: &mut Context<Self>) -> Vec<u8> {
        vec![7; size]
    }
}

async fn odd(service: &RpcService) -> (RpcServer<Odd>, std::sync::mpsc::Receiver<ThreadId>) {
    let (stopped_on, thread) = std::sync::mpsc::channel();
    let server = service
        .start_server("odd", Odd { stopped_on })
        .await
        .unwrap();
    server.start().await.unwrap();
    (server, thread)
}

fn serializing() -> RpcService {
    let builder = RpcService::builder().force_serialization(true);
    builder.build().unwrap()
}

/// L06
#[test]
fn an_error_of_a_future_that_ends_later_reaches_the_caller() {
    run(async {
        for service in [service(), serializing()] {
            let (server, _) = odd(&service).await;
            let answer = server.gateway::<OddGateway>().send(FailLater).await;
            assert_eq!(answer.unwrap(), Err("no disk".to_owned()));
        }
    });
}

/// L07
#[test]
fn a_reply_that_cannot_be_read_is_an_error_of_unknown_outcome() {
    run(async {
        let (server, _) = odd(&serializing()).await;
        let error = server.gateway::<OddGateway>().send(AskUnreadable).await;
        let error = error.err().unwrap();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::ReplyCodec, Outcome::Unknown)
        );
        assert!(error.text().contains("AskUnreadable") && error.text().contains("of another age"));
    });
}

/// S08, E8
#[test]
fn a_message_that_cannot_be_written_is_named_and_not_sent() {
    run(async {
        let (server, _) = odd(&serializing()).await;
        let error = server.gateway::<OddGateway>().send(Unwritable).await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Encode, Outcome::NotSent)
        );
        assert!(error.text().contains("Unwritable") && error.text().contains("it holds a socket"));
        assert_eq!(server.handled(), 0);
    });
}

/// L22, S11
#[test]
fn a_value_that_looks_like_a_wrapper_is_not_unwrapped() {
    run(async {
        for service in [service(), serializing()] {
            let (server, _) = odd(&service).await;
            let answer = server.gateway::<OddGateway>().send(AskWrapped).await;
            assert_eq!(answer.unwrap().unwrap(), Some(Err("inside".to_owned())));
        }
    });
}

/// S05, S06
#[test]
fn a_local_reply_has_no_size_limit() {
    run(async {
        let (server, _) = odd(&service()).await;
        let size = 80 << 20;
        let bytes = server.gateway::<OddGateway>().send(AskBytes(size)).await;
        assert_eq!(bytes.unwrap().len(), size);
    });
}

/// L09
#[test]
fn on_stop_runs_on_the_endpoints_thread() {
    run(async {
        let service = service();
        let arbiter = Arbiter::new();
        let (stopped_on, thread) = std::sync::mpsc::channel();
        let server = service
            .start_server_in(&arbiter.handle(), "odd", move || Odd { stopped_on })
            .await
            .unwrap();
        server.start().await.unwrap();
        let own = server
            .call_async(LIMIT, |_, _| std::thread::current().id())
            .await
            .unwrap();
        server.terminate().await.unwrap();
        assert_eq!(thread.recv().unwrap(), own);
        assert_ne!(own, std::thread::current().id());
        arbiter.stop();
    });
}

/// L14
#[test]
fn on_start_runs_before_the_first_call() {
    run(async {
        let (body, _, mut seen) = body();
        let server = service()
            .start_server("test", Endpoint(body))
            .await
            .unwrap();
        assert!(seen.try_recv().is_err());
        server.start().await.unwrap();
        assert_eq!(seen.try_recv(), Ok(Seen::Started));
        server.start().await.unwrap();
        assert!(seen.try_recv().is_err(), "a second start ran on_start");
    });
}

/// L19
#[test]
fn a_wildcard_is_no_name() {
    run(async {
        let started = service().start_server("test_*", Endpoint(body().0)).await;
        assert_eq!(kind(started), RpcErrorKind::InvalidAddress);
    });
}

/// B, random names
#[test]
fn random_names_are_unique_from_many_threads() {
    let threads = (0..4).map(|_| {
        std::thread::spawn(|| {
            (0..1_000)
                .map(|_| EndpointId::random("worker").unwrap())
                .collect::<Vec<_>>()
        })
    });
    let names = threads
        .collect::<Vec<_>>()
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect::<BTreeSet<_>>();
    assert_eq!(names.len(), 4_000);
}

/// V03, V04
#[test]
fn without_a_transport_there_is_no_host_and_no_port() {
    run(async {
        let setup = started().await;
        assert_eq!(setup.service.hostname(), "");
        assert_eq!(setup.service.port(), None);
        assert_eq!(setup.gateway.hostname(), "");
    });
}

/// V06
#[test]
fn a_fixed_rate_runs_again_and_again_until_it_is_cancelled() {
    run(async {
        let service = service();
        let (period, begin) = (Duration::from_millis(5), Instant::now());
        let (runs, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let scheduled = service.schedule_at_fixed_rate(period, period, move || {
            let runs = runs.clone();
            async move { runs.send(()).unwrap() }
        });
        for _ in 0..5 {
            seen.recv().await.unwrap();
        }
        assert!(begin.elapsed() >= period * 5);
        scheduled.cancel();
        assert_eq!(kind(scheduled.await), RpcErrorKind::Cancelled);
        while seen.recv().await.is_some() {}
        let never = service.schedule_at_fixed_rate(period, Duration::ZERO, || async {});
        assert_eq!(
            kind(never.await.unwrap()),
            RpcErrorKind::InvalidConfiguration
        );
    });
}

/// V07
#[test]
fn a_fixed_delay_counts_from_the_end_of_the_run_before() {
    run(async {
        let (delay, begin) = (Duration::from_millis(5), Instant::now());
        let (runs, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let scheduled = service().schedule_with_fixed_delay(delay, delay, move || {
            let runs = runs.clone();
            async move {
                tokio::time::sleep(delay).await;
                runs.send(()).unwrap();
            }
        });
        for _ in 0..3 {
            seen.recv().await.unwrap();
        }
        assert!(begin.elapsed() >= delay * 6);
        scheduled.cancel();
        assert_eq!(kind(scheduled.await), RpcErrorKind::Cancelled);
    });
}

/// V11, R04
#[test]
fn a_call_after_the_end_is_refused_at_once_and_not_by_its_time_out() {
    run(async {
        let setup = started().await;
        setup.server.terminate().await.unwrap();
        let call = setup.gateway.send(Add(1)).timeout(Duration::MAX);
        let error = call.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Stopped, Outcome::Refused)
        );
    });
}

/// U04, U05
#[test]
fn an_endpoint_that_fails_leaves_its_siblings_alone() {
    run(async {
        let setup = started().await;
        let sibling = setup
            .service
            .start_server("sibling", Endpoint(body().0))
            .await
            .unwrap();
        sibling.start().await.unwrap();
        let termination = setup.server.termination();
        assert!(setup.gateway.send(PanicLater).await.is_err());
        let cause = termination.await.unwrap_err();
        assert_eq!(cause.kind(), RpcErrorKind::Panicked);
        let gateway = sibling.gateway::<TestGateway>();
        assert_eq!(gateway.send(Add(1)).await.unwrap(), 1);
    });
}

/// U07
#[test]
fn noise_after_the_services_end_is_answered_and_harms_nobody() {
    run(async {
        let setup = started().await;
        setup.service.terminate().await.unwrap();
        assert!(setup.gateway.send(Add(1)).await.is_err());
        setup.gateway.do_send(Add(1));
        assert!(setup.server.run_async(|_, _| ()).await.is_err());
        assert_eq!(kind(setup.server.start().await), RpcErrorKind::InvalidState);
        setup.server.terminate().await.unwrap();
        assert_eq!(setup.service.dead_letters().total(), 1);
    });
}

/// T02
#[test]
fn a_call_without_a_limit_has_the_services() {
    run(async {
        let limit = Duration::from_millis(20);
        let service = RpcService::builder().default_timeout(limit).build();
        let setup = started_on(service.unwrap()).await;
        let error = setup.gateway.send(Wait).await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Timeout);
        assert!(error.text().contains("20ms"), "{error}");
    });
}

/// P13, Q19: every one of many calls resolves once, whatever becomes of it, and nothing is left.
#[test]
fn calls_that_end_in_every_way_leave_nothing_behind() {
    run(async {
        let setup = started().await;
        let resolved = Arc::new(AtomicUsize::new(0));
        let tasks = (0..2_000_usize).map(|number| {
            let gateway = setup.gateway.clone();
            let server = setup.server.clone();
            let resolved = Arc::clone(&resolved);
            actix::spawn(async move {
                match number % 5 {
                    0 => drop(gateway.send(Add(1)).await.unwrap()),
                    1 => {
                        let limit = Duration::from_millis(1);
                        let error = gateway.send(Wait).timeout(limit).await.unwrap_err();
                        assert_eq!(error.kind(), RpcErrorKind::Timeout);
                    }
                    2 => assert_eq!(kind(gateway.send(Panic).await), RpcErrorKind::Panicked),
                    3 => {
                        let mut dropped = Box::pin(gateway.send(WaitDetached));
                        std::future::poll_fn(|context| {
                            assert!(dropped.as_mut().poll(context).is_pending());
                            std::task::Poll::Ready(())
                        })
                        .await;
                    }
                    _ => server.run_async(|_, _| ()).await.unwrap(),
                }
                resolved.fetch_add(1, Ordering::SeqCst);
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(resolved.load(Ordering::SeqCst), 2_000);
        setup.hands.gate.notify_waiters();
        assert_eq!(setup.server.waiting(), (0, 0));
        setup.server.terminate().await.unwrap();
        assert_eq!(setup.service.table().endpoint("test").map(|_| ()), None);
    });
}

/// All Rust of a folder.
fn sources_of(folder: &std::path::PathBuf) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources_of(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    all
}

/// Every row of `docs/rpc-contract.md` names a test that exists or gives a reason, and no id is
/// missing.
#[test]
fn the_table_of_the_contract_is_whole_and_names_tests_that_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let table = std::fs::read_to_string(format!("{root}/docs/rpc-contract.md")).unwrap();
    let mut ids = BTreeSet::new();
    let mut faults = Vec::new();
    let mut sources = std::collections::BTreeMap::<String, String>::new();
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cells = row.trim_matches('|').split('|').map(str::trim);
        let cells = cells.collect::<Vec<_>>();
        let [id, _, proof] = cells[..] else {
            faults.push(format!("not three cells: {row}"));
            continue;
        };
        if id == "id" {
            continue;
        }
        ids.extend(id.split(", ").map(str::to_owned));
        if proof.starts_with("decision: ") {
            continue;
        }
        let tests = proof.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        if tests.is_empty() {
            faults.push(format!("{id}: neither a test nor a decision"));
        }
        for test in tests {
            let sources = test.split_once("::").map(|(package, name)| {
                let sources = sources
                    .entry(package.to_owned())
                    .or_insert_with(|| sources_of(&format!("{root}/{package}").into()));
                (sources, name)
            });
            if !sources.is_some_and(|(all, name)| all.contains(&format!("fn {name}("))) {
                faults.push(format!("{id}: there is no {test}"));
            }
        }
    }
    let groups = [
        ("L", 23),
        ("H", 7),
        ("S", 13),
        ("V", 11),
        ("R", 5),
        ("U", 7),
        ("T", 3),
        ("F", 7),
        ("B", 15),
        ("E", 17),
        ("P", 14),
        ("Q", 23),
        ("D", 10),
    ];
    for (letter, last) in groups {
        for number in 1..=last {
            // As the lists of Flink's tests write them: L01, but E1.
            let id = match letter {
                "D" | "E" | "P" | "Q" => format!("{letter}{number}"),
                _ => format!("{letter}{number:02}"),
            };
            // The first of what is promised is the table above.
            if !ids.contains(&id) && id != "D1" {
                faults.push(format!("{id} is missing"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
