//! Calls that end in every way leave nothing behind, on neither side of a connection.
//!
//! `LOCKKEEPER_CALLS=1000000 cargo test --release -p lockkeeper-remote --test it -- --exact \
//! leaks::calls_that_end_in_every_way_leave_no_memory_and_no_pending_call --nocapture` is the long run.

use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper_core::prelude::*;
use lockkeeper_core::status::StatusValue;

use crate::support::*;

const ALONE: &str = "LOCKKEEPER_TEST_LEAKS_ALONE";
const NOTHING: &str = "NOTHING IS LEFT";
const CALLERS: usize = 64;

#[actix::test]
async fn calls_that_end_in_every_way_leave_no_memory_and_no_pending_call() {
    let child = tokio::task::spawn_blocking(|| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leaks::alone_in_its_process", "--ignored"])
            .arg("--nocapture")
            .env(ALONE, "1")
            .output()
            .unwrap()
    });
    let child = child.await.unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(said.contains(NOTHING), "{said}{errors}");
    let figures = said.lines().find(|line| line.contains(NOTHING));
    println!("{}", figures.unwrap());
}

/// Calls in flight that a service knows of, on all its connections.
fn in_flight(service: &RpcService) -> u64 {
    let sources = service.status().sources();
    let connections = sources
        .iter()
        .find(|source| source.name().starts_with("connections of "));
    let values = connections.unwrap().snapshot().facts;
    let counts = values.iter().filter_map(|fact| match &fact.value {
        StatusValue::Count(count) if fact.label.starts_with("calls in flight") => Some(*count),
        _ => None,
    });
    counts.sum()
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kibibytes.parse::<u64>().unwrap() * 1024
}

async fn call(counter: &Gateway<CounterGateway>, stopped: &Gateway<CounterGateway>, number: usize) {
    match number % 5 {
        0 => drop(counter.send(Add(1)).await.unwrap()),
        1 => {
            let late = counter.send(Hold).timeout(Duration::from_millis(1)).await;
            assert_eq!(late.unwrap_err().kind(), RpcErrorKind::Timeout);
        }
        2 => {
            let mut dropped = std::pin::pin!(counter.send(Hold));
            std::future::poll_fn(|context| {
                assert!(dropped.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        3 => {
            let refused = stopped.send(Add(1)).await.unwrap_err();
            assert_eq!(refused.kind(), RpcErrorKind::NotStarted);
        }
        _ => {
            // Without credit it is refused, which is an end as any other.
            let _ = counter.try_send(Add(0));
        }
    }
}

/// Not a test by itself: the body of the one above.
#[actix::test]
#[ignore = "run by another test, in a process of its own"]
async fn alone_in_its_process() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let calls: usize = std::env::var("LOCKKEEPER_CALLS").map_or(20_000, |set| set.parse().unwrap());
    let (one, server, two) = pair().await;
    let idle = one
        .start_server("stopped", Counter::default())
        .await
        .unwrap();
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let stopped = two
        .connect::<CounterGateway>(&idle.address())
        .await
        .unwrap();
    let some = async |from: usize, to: usize| {
        join_all((0..CALLERS).map(async |caller| {
            for number in (from + caller..to).step_by(CALLERS) {
                call(&counter, &stopped, number).await;
            }
        }))
        .await;
        // Behind all cancellations.
        counter.send(Add(0)).await.unwrap();
        soon(async {
            while in_flight(&one) + in_flight(&two) > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    // What is allocated once is there after the first part.
    some(0, calls / 10).await;
    let before = resident_bytes();
    some(calls / 10, calls).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more than {before}");
    let added = counter.send(Add(0)).await.unwrap();
    assert_eq!(added, i64::try_from(calls.div_ceil(5)).unwrap());
    assert_eq!(server.waiting(), (0, 0));
    println!("{NOTHING} of {calls} calls: {before} bytes resident before, {grown} more after");
}
