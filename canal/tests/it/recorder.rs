//! A recorder of metrics for one test: the last value by name and labels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(60);

type Cells = Arc<Mutex<BTreeMap<String, f64>>>;

#[derive(Clone, Default)]
pub(crate) struct Recorder(Cells);

impl Recorder {
    /// What a counter or gauge is at, or how often a histogram was told something; by its name and
    /// the values of its labels, blanks between.
    pub(crate) fn value(&self, name: &str) -> f64 {
        let cells = self.0.lock().unwrap();
        cells.get(name).copied().unwrap_or_default()
    }

    /// Resolves when it is so.
    pub(crate) async fn until(&self, name: &str, done: impl Fn(f64) -> bool) {
        let limit = Instant::now() + HANG;
        while !done(self.value(name)) {
            assert!(Instant::now() < limit, "{name} is {}", self.value(name));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn cell(&self, key: &metrics::Key) -> Cell {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            name = format!("{name} {}", label.value());
        }
        Cell(self.0.clone(), name)
    }
}

struct Cell(Cells, String);

impl Cell {
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        let mut cells = self.0.lock().unwrap();
        let value = cells.entry(self.1.clone()).or_default();
        *value = change(*value);
    }
}

impl metrics::CounterFn for Cell {
    fn increment(&self, by: u64) {
        self.change(|value| value + f64::from(u32::try_from(by).unwrap()));
    }

    fn absolute(&self, value: u64) {
        self.change(|_| f64::from(u32::try_from(value).unwrap()));
    }
}

impl metrics::GaugeFn for Cell {
    fn increment(&self, by: f64) {
        self.change(|value| value + by);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| value - by);
    }

    fn set(&self, to: f64) {
        self.change(|_| to);
    }
}

impl metrics::HistogramFn for Cell {
    fn record(&self, value: f64) {
        assert!(value.is_finite() && value >= 0.0);
        self.change(|count| count + 1.0);
    }
}

impl metrics::Recorder for Recorder {
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
        metrics::Counter::from_arc(Arc::new(self.cell(key)))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(Arc::new(self.cell(key)))
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::from_arc(Arc::new(self.cell(key)))
    }
}
