//! The keyed operator: how often each word of its share was seen.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};

use actix::{Actor, Context};
use lockkeeper_consistent_region::operator::{Cut, Operator, OperatorError, Output, Prepared};

/// Keeps a number for each word; gives out at each cut those that changed.
#[derive(Debug, Default)]
pub struct Counts {
    counts: HashMap<String, u64>,
    changed: HashSet<String>,
}

impl Actor for Counts {
    type Context = Context<Self>;
}

impl Operator for Counts {
    type Input = String;
    type Output = (String, u64);
    const STATE_TYPE: &'static str = "word-count.counts";

    fn process(
        &mut self,
        words: Vec<String>,
        _: &mut Output<(String, u64)>,
    ) -> Result<(), OperatorError> {
        for word in words {
            if !self.changed.contains(&word) {
                self.changed.insert(word.clone());
            }
            *self.counts.entry(word).or_default() += 1;
        }
        Ok(())
    }

    fn drain(&mut self, output: &mut Output<(String, u64)>) -> Result<(), OperatorError> {
        for word in self.changed.drain() {
            let count = self.counts[&word];
            output.emit((word, count));
        }
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
        self.counts = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Retry(format!("the counts: {error}")))?;
        self.changed.clear();
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.counts.clear();
        self.changed.clear();
        Ok(())
    }
}
