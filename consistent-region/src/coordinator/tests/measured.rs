//! A leading coordinator measures what it does.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;

/// Which metrics were written.
#[derive(Default)]
struct Written(Mutex<BTreeSet<String>>);

impl Written {
    fn note(&self, key: &metrics::Key) {
        self.0.lock().unwrap().insert(key.name().to_owned());
    }
}

impl metrics::Recorder for Written {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        self.note(key);
        metrics::Counter::noop()
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        self.note(key);
        metrics::Gauge::noop()
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        self.note(key);
        metrics::Histogram::noop()
    }
}

#[test]
fn cuts_and_resets_of_a_running_region_are_measured() {
    let written = Written::default();
    metrics::with_local_recorder(&written, || {
        actix::System::new().block_on(async {
            let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
            let handle = start(Arc::clone(&store));
            let mut worker = Scripted::join(&handle, store).await;
            worker.reset().await;
            worker.cut(&handle).await;
            handle.reset(false, "a test").await.unwrap();
            worker.reset().await;
            handle.halt().await;
        });
    });
    let written = written.0.into_inner().unwrap();
    for name in [
        "term",
        "state",
        "workers",
        "waiting_instances",
        "cuts_completed_total",
        "last_cut_age_seconds",
        "round_seconds",
        "pause_seconds",
        "last_cut_bytes",
        "resets_total",
        "reset_seconds",
    ] {
        let name = format!("lockkeeper_region_{name}");
        assert!(written.contains(&name), "{name}: {written:?}");
    }
}
