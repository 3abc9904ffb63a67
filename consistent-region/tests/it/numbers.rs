//! numbers → counts by key (two instances) → a file a cut. The truth is a closed form.
//!
//! The numbers come from an [`Upstream`] that forgets what is acknowledged, as a real one does: a
//! region that goes back behind its own acknowledgement fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lockkeeper_consistent_region::graph::{Region, RegionBuilder, Stream};
use lockkeeper_consistent_region::sink::FileSink;
use lockkeeper_consistent_region::testing::Counts;
pub(crate) use lockkeeper_consistent_region::testing::Upstream;

pub(crate) const KEYS: u64 = 10;

pub(crate) fn region(numbers: u64, output: &Path) -> Region {
    region_of(&Upstream::new(numbers, numbers), output)
}

/// The numbers by themselves.
pub(crate) fn numbers(upstream: &Upstream, graph: &mut RegionBuilder) -> Stream<u64> {
    let upstream = upstream.clone();
    graph.start("numbers", move |_| upstream.numbers())
}

pub(crate) fn region_of(upstream: &Upstream, output: &Path) -> Region {
    region_called("numbers", upstream, output, Sink::TakesBack)
}

/// What the region's sink can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    TakesBack,
    Irrevocable,
}

pub(crate) fn region_called(name: &str, upstream: &Upstream, output: &Path, sink: Sink) -> Region {
    let mut graph = Region::builder(name);
    let source = numbers(upstream, &mut graph);
    let counts = graph.keyed(
        "counts",
        source,
        2,
        |number: &u64| number % KEYS,
        |_| Counts::of_keys(KEYS),
    );
    let folder = output.to_owned();
    graph.end("sink", counts, move |context| {
        let files = FileSink::new(context, &folder, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        });
        match sink {
            Sink::TakesBack => files,
            Sink::Irrevocable => files.irrevocable(),
        }
    });
    graph.build().unwrap()
}

pub(crate) fn truth(numbers: u64) -> BTreeMap<u64, u64> {
    (0..KEYS)
        .map(|key| (key, (numbers + KEYS - 1 - key) / KEYS))
        .collect()
}

/// The lines of the files that a sink has published, over ascending cuts.
pub(crate) fn lines(folder: &Path) -> Vec<String> {
    let mut cuts = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let seq = name
            .strip_prefix("cut-")
            .and_then(|name| name.strip_suffix(".txt"));
        if let Some(seq) = seq {
            let seq: u64 = seq.parse().unwrap();
            cuts.insert(seq, fs::read_to_string(folder.join(&name)).unwrap());
        }
    }
    let lines = cuts.values().flat_map(|text| text.lines());
    lines.map(str::to_owned).collect()
}

/// The last count of each key over ascending cuts.
pub(crate) fn output(folder: &Path) -> BTreeMap<u64, u64> {
    let pair = |line: &String| {
        let (key, count) = line.split_once(' ').unwrap();
        (key.parse().unwrap(), count.parse().unwrap())
    };
    lines(folder).iter().map(pair).collect()
}
