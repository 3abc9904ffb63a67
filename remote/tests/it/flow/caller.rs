//! The calling side, alone in its process so that its memory is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper_core::prelude::*;

use super::latency::Latencies;
use super::{Bulk, BulkGateway, Done, FIGURES, Job, Work, WorkGateway};
use crate::peer::{Peer, peak_memory_bytes};
use crate::support::*;

pub(super) const ALONE: &str = "LOCKKEEPER_TEST_FLOW_ALONE";

/// More than any queue between here and there takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// How much is sent, and how slow the endpoint is.
struct Flood {
    seconds: Duration,
    burst: u64,
    /// Calls under way at once: more than the session has credit for.
    callers: usize,
    work: Duration,
    credit: u32,
    /// The run whose times count.
    is_long: bool,
}

impl Flood {
    fn set() -> Self {
        match std::env::var("LOCKKEEPER_FLOW_SECONDS") {
            Ok(seconds) => Self {
                seconds: Duration::from_secs(seconds.parse().unwrap()),
                burst: 1_000_000,
                callers: 6_000,
                work: Duration::from_millis(10),
                credit: 4_096,
                is_long: true,
            },
            Err(_) => Self {
                seconds: Duration::from_secs(1),
                burst: 100_000,
                callers: 600,
                work: Duration::from_millis(1),
                credit: 256,
                is_long: false,
            },
        }
    }
}

fn figure(name: &str, value: impl std::fmt::Display, unit: &str) {
    println!("{FIGURES}{name} {value} {unit}");
}

/// What became of the messages.
#[derive(Default)]
struct Counts {
    taken: AtomicU64,
    full: AtomicU64,
    answered: AtomicU64,
}

impl Counts {
    fn tell(&self, slow: &Gateway<WorkGateway>) -> bool {
        match slow.try_send(Work("x".repeat(1024))) {
            Ok(()) => {
                self.taken.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), RpcErrorKind::Full, "{error}");
                self.full.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    async fn ask(&self, slow: &Gateway<WorkGateway>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let job = slow.send(Job("x".repeat(1024))).timeout(PATIENCE);
            job.await.unwrap();
            self.answered.fetch_add(1, Ordering::Relaxed);
            self.tell(slow);
        }
    }
}

/// A burst, and then as fast as credit comes back, until told to stop.
async fn send_all(
    slow: Gateway<WorkGateway>,
    flood: &Flood,
    counts: &Counts,
    stop: &AtomicBool,
    burst_is_out: &AtomicBool,
) {
    for number in 0..flood.burst {
        counts.tell(&slow);
        if number % 256 == 0 {
            tokio::task::yield_now().await;
        }
    }
    burst_is_out.store(true, Ordering::Relaxed);
    join_all((0..flood.callers).map(|_| counts.ask(&slow, stop))).await;
}

/// Not a test by itself: the body of one.
#[actix::test]
#[ignore = "run by another test, in a process of its own"]
async fn floods() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let flood = Arc::new(Flood::set());
    let peer = Peer::start_slow(flood.work, flood.credit);
    let service = service().await;
    let slow = peer.endpoint("slow");
    let slow = service.connect::<WorkGateway>(&slow).await.unwrap();
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    let idle = Latencies::measure(&counter, flood.seconds / 4, || true).await;
    let counts = Arc::new(Counts::default());
    let (stop, burst_is_out) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let sending = {
        let (slow, counts, flood) = (slow.clone(), Arc::clone(&counts), Arc::clone(&flood));
        let (stop, burst_is_out) = (Arc::clone(&stop), Arc::clone(&burst_is_out));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(send_all(slow, &flood, &counts, &stop, &burst_is_out));
        })
    };
    // Another endpoint of the same connection answers all the while.
    let loaded = Latencies::measure(&counter, flood.seconds, || {
        burst_is_out.load(Ordering::Relaxed)
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    // Every call that was begun has its answer, and comes to its end by itself.
    tokio::task::spawn_blocking(move || sending.join().unwrap())
        .await
        .unwrap();
    // Behind all that were taken.
    let (works, jobs) = slow.send(Done).timeout(PATIENCE).await.unwrap();
    let (taken, full) = (&counts.taken, &counts.full);
    let (taken, full) = (taken.load(Ordering::Relaxed), full.load(Ordering::Relaxed));
    assert_eq!(
        (works, jobs),
        (taken, counts.answered.load(Ordering::Relaxed))
    );
    assert!(full > 0, "nothing was ever full");
    assert!(taken + full >= flood.burst);
    let (ours, theirs) = (peak_memory_bytes("self"), peer.peak_memory_bytes());
    assert!(ours < 128 << 20 && theirs < 128 << 20, "{ours} {theirs}");

    figure("rpc.flow.taken", taken, "one-way messages");
    figure("rpc.flow.full", full, "one-way messages");
    figure("rpc.flow.answered", jobs, "calls");
    figure("rpc.flow.caller.rss_mb", ours >> 20, "MiB");
    figure("rpc.flow.callee.rss_mb", theirs >> 20, "MiB");
    figure("rpc.flow.idle.calls", idle.count(), "calls");
    figure("rpc.flow.idle.p50", idle.percentile(50), "us");
    figure("rpc.flow.idle.p99", idle.percentile(99), "us");
    figure("rpc.flow.loaded.calls", loaded.count(), "calls");
    figure("rpc.flow.loaded.p50", loaded.percentile(50), "us");
    figure("rpc.flow.loaded.p99", loaded.percentile(99), "us");
    if flood.is_long {
        // Five times what is promised: twice.
        assert!(loaded.percentile(99) <= 10 * idle.percentile(99));
    }
}

/// As much as a frame of 64 MiB holds besides its fields.
const LARGE: usize = (64 << 20) - 64;

/// Not a test by itself: the body of one.
#[actix::test]
#[ignore = "run by another test, in a process of its own"]
async fn transfers() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let flood = Flood::set();
    let peer = Peer::start();
    let service = service().await;
    let bulk = peer.endpoint("bulk");
    let bulk = service.connect::<BulkGateway>(&bulk).await.unwrap();
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    let idle = Latencies::measure(&counter, flood.seconds / 4, || true).await;
    let transfers = if flood.is_long { 50 } else { 2 };
    let over = Arc::<AtomicBool>::default();
    let sending = {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(async {
                for _ in 0..transfers {
                    let text = "x".repeat(LARGE);
                    let size = bulk.send(Bulk(text)).timeout(PATIENCE).await.unwrap();
                    assert_eq!(size, u64::try_from(LARGE).unwrap());
                }
            });
            over.store(true, Ordering::Relaxed);
        })
    };
    let loaded = Latencies::measure(&counter, Duration::ZERO, || over.load(Ordering::Relaxed));
    let loaded = loaded.await;
    sending.join().unwrap();
    figure("rpc.transfer.64MiB.count", transfers, "transfers");
    figure("rpc.transfer.idle.p99", idle.percentile(99), "us");
    figure("rpc.transfer.loaded.calls", loaded.count(), "calls");
    figure("rpc.transfer.loaded.p50", loaded.percentile(50), "us");
    figure("rpc.transfer.loaded.p99", loaded.percentile(99), "us");
    if flood.is_long {
        // Five times what is promised: 5 ms.
        assert!(loaded.percentile(99) <= 25_000);
    }
}
