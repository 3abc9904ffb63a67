//! Spans that join the two sides of a call.
//!
//! Which spans are enabled is the process's, not a thread's: `tracing` asks whatever subscriber the
//! thread has that comes by first, and keeps the answer for all. So these tests run in a process of
//! their own, whose one subscriber is there before anything else.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::{seam::wired, support::*};

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
        let text = format!("{value:?}").trim_matches('"').to_owned();
        self.0.insert(field.name(), text);
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
        span::Id::from_u64(u64::try_from(spans.len()).unwrap())
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
    assert_eq!((&*send["method"], &*handle["method"]), ("Add", "Add"));
    assert_eq!(send["trace_id"], handle["trace_id"]);
    assert_eq!(send["span_id"], handle["parent_span_id"]);
    assert_ne!(send["span_id"], handle["span_id"]);
}

const ALONE: &str = "LOCKKEEPER_TEST_TRACE_ALONE";
const JOINED: &str = "THE SPANS ARE JOINED";

#[test]
fn spans_join_caller_and_callee_in_one_process_and_over_a_transport() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "trace::alone_in_its_process", "--ignored"])
        .arg("--nocapture")
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(said.contains(JOINED), "{said}{errors}");
}

/// Not a test by itself: the body of the one above.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn alone_in_its_process() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    run(async {
        let setup = started().await;
        setup.gateway.send(Add(1)).await.unwrap();
        assert_joined(&spans.take());
        let (caller, address) = wired(&setup);
        let gateway = caller.connect::<TestGateway>(&address).await.unwrap();
        gateway.send(Add(1)).await.unwrap();
        assert_joined(&spans.take());
    });
    println!("{JOINED}");
}
