//! numbers → counts by key (two instances) → a file a cut. The truth is a closed form.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::task::{self, Poll};

use actix::{Actor, Context};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::{
    Cut, Operator, OperatorError, Output, Prepared, Produced, RegionHandle, StartOperator,
};
use lockkeeper_consistent_region::sink::FileSink;

pub(crate) const KEYS: u64 = 10;

pub(crate) fn region(numbers: u64, output: &Path) -> Region {
    let mut graph = Region::builder("numbers");
    let source = graph.start("numbers", move |_| Numbers {
        next: 0,
        end: numbers,
    });
    let counts = graph.keyed(
        "counts",
        source,
        2,
        |number: &u64| number % KEYS,
        |_| Counts::default(),
    );
    let folder = output.to_owned();
    graph.end("sink", counts, move |context| {
        FileSink::new(context, &folder, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        })
    });
    graph.build().unwrap()
}

pub(crate) fn truth(numbers: u64) -> BTreeMap<u64, u64> {
    (0..KEYS)
        .map(|key| (key, (numbers + KEYS - 1 - key) / KEYS))
        .collect()
}

/// The last count of each key over ascending cuts.
pub(crate) fn output(folder: &Path) -> BTreeMap<u64, u64> {
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
    let pair = |line: &str| {
        let (key, count) = line.split_once(' ').unwrap();
        (key.parse().unwrap(), count.parse().unwrap())
    };
    lines.map(pair).collect()
}

struct Numbers {
    next: u64,
    end: u64,
}

impl Actor for Numbers {
    type Context = Context<Self>;
}

impl Operator for Numbers {
    type Input = ();
    type Output = u64;
    const STATE_TYPE: &'static str = "position";

    fn process(&mut self, _: Vec<()>, _: &mut Output<u64>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let next = self.next;
        let write = move |to: &mut dyn Write| to.write_all(&next.to_le_bytes());
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        let mut bytes = [0; 8];
        state.read_exact(&mut bytes)?;
        self.next = u64::from_le_bytes(bytes);
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.next = 0;
        Ok(())
    }
}

impl StartOperator for Numbers {
    fn poll_produce(
        &mut self,
        _: &mut task::Context<'_>,
        output: &mut Output<u64>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        if self.next == self.end {
            return Poll::Ready(Ok(Produced::End));
        }
        let end = self.end.min(self.next + 100);
        output.extend(self.next..end);
        self.next = end;
        Poll::Ready(Ok(Produced::More))
    }
}

#[derive(Default)]
struct Counts {
    counts: BTreeMap<u64, u64>,
    changed: BTreeSet<u64>,
}

impl Actor for Counts {
    type Context = Context<Self>;
}

impl Operator for Counts {
    type Input = u64;
    type Output = (u64, u64);
    const STATE_TYPE: &'static str = "counts";

    fn process(
        &mut self,
        batch: Vec<u64>,
        _: &mut Output<(u64, u64)>,
    ) -> Result<(), OperatorError> {
        for number in batch {
            *self.counts.entry(number % KEYS).or_default() += 1;
            self.changed.insert(number % KEYS);
        }
        Ok(())
    }

    fn drain(&mut self, output: &mut Output<(u64, u64)>) -> Result<(), OperatorError> {
        let changed = std::mem::take(&mut self.changed);
        output.extend(changed.into_iter().map(|key| (key, self.counts[&key])));
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let counts = self.counts.clone();
        let write = move |to: &mut dyn Write| {
            serde_json::to_writer(to, &counts).map_err(std::io::Error::from)
        };
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        self.changed.clear();
        self.counts = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Permanent(error.to_string()))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.changed.clear();
        self.counts.clear();
        Ok(())
    }
}
