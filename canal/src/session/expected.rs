//! The answers that are due, in order, with a place for requests that have none.

use std::collections::VecDeque;
use std::time::Instant;

use crate::message::BatchId;

/// A request that the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Subscribed,
    Unsubscribed,
    /// Of a GET sent in `epoch`; `probe` if it serves as that probe.
    Messages {
        epoch: u64,
        probe: Option<u64>,
    },
    /// Of a heartbeat.
    Probe(u64),
}

/// A request that the server answers only when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    Acknowledgement(BatchId),
    Rollback,
}

#[derive(Debug)]
enum Expected {
    Answer(Answer, Instant),
    Silent(NoAnswer),
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct ExpectedAnswers {
    queue: VecDeque<Expected>,
}

impl ExpectedAnswers {
    /// An answer is due at `deadline`.
    pub(crate) fn push(&mut self, answer: Answer, deadline: Instant) {
        self.queue.push_back(Expected::Answer(answer, deadline));
    }

    /// A request was sent that has no answer.
    pub(crate) fn push_silent(&mut self, request: NoAnswer) {
        self.queue.push_back(Expected::Silent(request));
    }

    /// When the next answer is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.queue.iter().find_map(|expected| match expected {
            Expected::Answer(_, deadline) => Some(*deadline),
            Expected::Silent(_) => None,
        })
    }

    /// The next answer that is due.
    pub(crate) fn peek(&self) -> Option<Answer> {
        self.queue.iter().find_map(|expected| match expected {
            Expected::Answer(answer, _) => Some(*answer),
            Expected::Silent(_) => None,
        })
    }

    /// An answer has come: takes the silent requests before it, which have succeeded, and it.
    /// Without an answer due nothing is taken.
    pub(crate) fn pop(&mut self) -> (Vec<NoAnswer>, Option<Answer>) {
        let mut silent = Vec::new();
        if self.peek().is_none() {
            return (silent, None);
        }
        while let Some(expected) = self.queue.pop_front() {
            match expected {
                Expected::Silent(request) => silent.push(request),
                Expected::Answer(answer, _) => return (silent, Some(answer)),
            }
        }
        (silent, None)
    }

    /// The acknowledgement an error packet is put down to: of those sent before the next answer
    /// that is due the one its text names, else the first.
    pub(crate) fn silent_batch(&self, text: &str) -> Option<BatchId> {
        let silent = || {
            self.queue.iter().map_while(|expected| match expected {
                Expected::Silent(request) => Some(request),
                Expected::Answer(..) => None,
            })
        };
        let batches = || {
            silent().filter_map(|request| match request {
                NoAnswer::Acknowledgement(batch) => Some(*batch),
                NoAnswer::Rollback => None,
            })
        };
        let named = batch_in(text);
        batches()
            .find(|batch| Some(batch.id()) == named)
            .or_else(|| batches().next())
    }

    /// Whether a GET of `epoch` that a user asked for waits for its answer.
    pub(crate) fn has_get_of(&self, epoch: u64) -> bool {
        let get = Answer::Messages { epoch, probe: None };
        self.queue
            .iter()
            .any(|expected| matches!(expected, Expected::Answer(answer, _) if *answer == get))
    }
}

/// The number behind `batchId:` in a server's text.
fn batch_in(text: &str) -> Option<i64> {
    let (_, behind) = text.split_once("batchId:")?;
    let digits = behind.find(|character: char| !character.is_ascii_digit());
    behind[..digits.unwrap_or(behind.len())].parse().ok()
}
