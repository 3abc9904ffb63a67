//! Spans that join a caller and a callee that have a connection between them.
//!
//! Which spans are enabled is the process's, so these tests run in a process of their own.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::peer::Peer;
use crate::support::*;

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of every span of calls.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(&'static str, Fields)>>>);

impl Spans {
    fn take(&self) -> Vec<(&'static str, Fields)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "lockkeeper::rpc"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        let mut spans = self.0.lock().unwrap();
        spans.push((attributes.metadata().name(), fields));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn assert_joined(spans: &[(&'static str, Fields)]) {
    let [("rpc.send", send), ("rpc.handle", handle)] = spans else {
        panic!("{spans:?}")
    };
    assert_eq!(send["trace_id"], handle["trace_id"]);
    assert_eq!(send["span_id"], handle["parent_span_id"]);
    assert_ne!(send["span_id"], handle["span_id"]);
}

const ALONE: &str = "LOCKKEEPER_TEST_TRACE_ALONE";
const JOINED: &str = "THE SPANS ARE JOINED";

async fn in_a_process_of_its_own(test: &'static str) {
    let child = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap()
    });
    let child = soon(child).await.unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(said.contains(JOINED), "{said}{errors}");
}

#[actix::test]
async fn spans_join_caller_and_callee_over_a_connection() {
    in_a_process_of_its_own("trace::over_a_connection").await;
}

#[actix::test]
async fn a_callee_in_another_process_knows_its_callers_span() {
    in_a_process_of_its_own("trace::to_another_process").await;
}

#[actix::test]
async fn without_a_subscriber_no_trace_is_told() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    assert_eq!(counter.send(Traced).await.unwrap(), None);
}

/// Not a test by itself: the body of one above.
#[actix::test]
#[ignore = "run by another test, in a process of its own"]
async fn over_a_connection() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    counter.send(Add(1)).await.unwrap();
    assert_joined(&spans.take());
    counter.try_send(Add(1)).unwrap();
    // Handled before the answer to what comes behind it.
    counter.send(Add(1)).await.unwrap();
    let mut both = spans.take();
    let last = both.split_off(3);
    // The second was sent before the first was handled, or after.
    if both[1].0 == "rpc.send" {
        both.swap(1, 2);
    }
    assert_joined(&both[..2]);
    assert_joined(&[both.remove(2), last[0].clone()]);
    println!("{JOINED}");
}

/// Not a test by itself: the body of one above.
#[actix::test]
#[ignore = "run by another test, in a process of its own"]
async fn to_another_process() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    let service = service().await;
    let peer = Peer::start_at("127.0.0.1:0", "1-2");
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    // The peer has no subscriber: its handler sees what the caller has told.
    let told = counter.send(Traced).await.unwrap().unwrap();
    let sent = spans.take();
    let [("rpc.send", send)] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(send["trace_id"], format!("{:032x}", told.trace_id));
    assert_eq!(send["span_id"], format!("{:016x}", told.span_id));
    // One that speaks version 1 only has no place for it, and answers all the same.
    let older = Peer::start_at("127.0.0.1:0", "1-1");
    let counter = service
        .connect::<CounterGateway>(&older.address)
        .await
        .unwrap();
    assert_eq!(counter.send(Traced).await.unwrap(), None);
    println!("{JOINED}");
}
