//! The operator: takes batches in, emits tuples, marks cuts, acknowledges late.

use std::fmt;
use std::io::Read;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use actix::{Actor, Context};
use lockkeeper_canal::{BatchId, CanalError, Entry, Message};
use serde::{Deserialize, Serialize};

use super::fetch::{Fetched, Fetching};
use super::{CanalSourceConfig, MapEntry, Mapped};
use crate::graph::stable_hash;
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced, RegionHandle,
    StartOperator, Tuple,
};
use crate::point::Point;
use crate::source::history::{History, Seen, Transaction};
use crate::source::intake::{Arrived, Intake};
use crate::source::replay::Divergence;

/// A cut is asked for when the server's buffer is filled this far with what is unacknowledged.
const BUFFER_SHARE_PERCENT: u64 = 40;
/// A replay that fits nothing is asked for again this often before it is a permanent error.
const REPLAYS_THAT_FIT_NOTHING: u32 = 3;
/// A wish for a cut is repeated after this time if no cut has come: its message may be lost.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Reads row changes of one Canal destination into a region. See the [module](super).
pub struct CanalSource<T> {
    config: CanalSourceConfig,
    map: MapEntry<T>,
    context: InstanceContext,
    /// An entry is what it gives the region: tuples, and whether they are the last.
    intake: Intake<BatchId, (Vec<T>, bool)>,
    /// Restored, and not yet taken up by [`Operator::resumed_at`].
    restored: Saved,
    ended: bool,
    fetching: Option<Fetching>,
    /// What waits to be acknowledged, in order: it fills the server's buffer.
    outstanding: Vec<Outstanding>,
    asked_for_cut: Option<Instant>,
    oldest_retained: u64,
    /// Replays in a row that fitted nothing.
    misfits: u32,
}

/// A batch that waits to be acknowledged.
#[derive(Debug)]
struct Outstanding {
    batch: BatchId,
    entries: u64,
    bytes: u64,
}

/// What a checkpoint holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Saved {
    history: History,
    ended: bool,
}

impl<T: Tuple> CanalSource<T> {
    /// A source that makes tuples with `map`.
    ///
    /// `map` is called for every entry but the ends of transactions, in order, also for those that
    /// come again after a reset: the same entry must give the same tuples, whatever came before.
    /// An entry that gives none is of no interest, and it does not matter whether it comes again.
    /// An error is permanent: the region stops and says which row it was, rather than lose it.
    pub fn new(config: CanalSourceConfig, context: InstanceContext, map: MapEntry<T>) -> Self {
        Self {
            config,
            map,
            context,
            intake: Intake::new(History::default(), 0),
            restored: Saved::default(),
            ended: false,
            fetching: None,
            outstanding: Vec::new(),
            asked_for_cut: None,
            oldest_retained: 0,
            misfits: 0,
        }
    }

    fn take(&mut self, message: &Message, output: &mut Output<T>) -> Result<(), OperatorError> {
        let mut arrived = Vec::with_capacity(message.len());
        for entry in message.entries() {
            let entry = entry.map_err(failed)?;
            if let Some(id) = entry.transaction_end_id().map_err(failed)? {
                arrived.push(Arrived::End(Transaction::new(stable_hash(&id))));
                continue;
            }
            let mapped = (self.map)(&entry).map_err(|error| {
                OperatorError::Permanent(format!(
                    "{} at {}: {error}",
                    entry.destination(),
                    entry.position()
                ))
            })?;
            // what gives no tuples is of no interest: other tables, statements, marks
            let (tuples, last) = match mapped {
                Mapped::Tuples(tuples) if tuples.is_empty() => continue,
                Mapped::Tuples(tuples) => (tuples, false),
                Mapped::End(tuples) => (tuples, true),
            };
            arrived.push(Arrived::Entry {
                seen: seen(&entry),
                entry: (tuples, last),
            });
            if last {
                break;
            }
        }
        self.outstanding.push(Outstanding {
            batch: message.id(),
            entries: message.len() as u64,
            bytes: message.bytes() as u64,
        });
        let new = self
            .intake
            .take(message.id(), arrived)
            .map_err(|divergence| self.misfit(message.destination(), &divergence))?;
        if !self.intake.is_replaying() {
            self.misfits = 0;
        }
        for (tuples, last) in new {
            output.extend(tuples);
            self.ended |= last;
        }
        Ok(())
    }

    /// What a replay that fits nothing means. Somebody else's GET, of a forgotten client or of a
    /// connection that is dead, may have come between our rollback and our first GET and taken what
    /// that should have brought; then the next rollback brings it. Only if it comes to nothing again
    /// and again was the source itself changed.
    fn misfit(&mut self, destination: &str, divergence: &Divergence) -> OperatorError {
        self.misfits += 1;
        if self.misfits < REPLAYS_THAT_FIT_NOTHING {
            return OperatorError::Retry(format!(
                "the replay of {destination} is not what was rolled back: {divergence}; rolling \
                 back again"
            ));
        }
        OperatorError::Permanent(format!(
            "the source of {destination} was changed: {divergence}; {} rollbacks in a row brought \
             nothing else. Is another client using this destination and client id?",
            self.misfits
        ))
    }

    /// Asks for a cut when the server's buffer fills up.
    fn watch_buffer(&mut self, region: &RegionHandle) {
        let bytes: u64 = self.outstanding.iter().map(|batch| batch.bytes).sum();
        let entries: u64 = self.outstanding.iter().map(|batch| batch.entries).sum();
        let share = |full: u64| full.saturating_mul(BUFFER_SHARE_PERCENT) / 100;
        if entries >= share(self.config.server_buffer_entries)
            || bytes >= share(self.config.server_buffer_bytes)
        {
            self.want_cut(region);
        }
    }

    fn want_cut(&mut self, region: &RegionHandle) {
        if self
            .asked_for_cut
            .is_some_and(|asked| asked.elapsed() < ASK_AGAIN)
        {
            return;
        }
        self.asked_for_cut = Some(Instant::now());
        region.want_cut();
    }

    fn acknowledge(&mut self) {
        if let (Some(batch), Some(fetching)) = (
            self.intake.acknowledgeable(self.oldest_retained),
            &self.fetching,
        ) {
            fetching.acknowledge(batch);
        }
    }

    /// Starts anew at what was restored.
    fn start(&mut self, oldest_retained: u64) {
        let saved = std::mem::take(&mut self.restored);
        let acknowledged_at_most = saved
            .history
            .end_of_cut(oldest_retained)
            .unwrap_or(saved.history.first());
        self.intake = if self.config.sabotage.skips_checks() {
            Intake::unchecked(saved.history)
        } else {
            Intake::new(saved.history, acknowledged_at_most)
        };
        self.ended = saved.ended;
        self.oldest_retained = oldest_retained;
        self.outstanding.clear();
        self.asked_for_cut = None;
        self.fetching = Some(Fetching::start(self.config.clone(), self.context.clone()));
    }
}

impl<T> fmt::Debug for CanalSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanalSource")
            .field("config", &self.config)
            .field("taken", &self.intake.history().end())
            .field("outstanding", &self.intake.outstanding())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple> Actor for CanalSource<T> {
    type Context = Context<Self>;
}

impl<T: Tuple> Operator for CanalSource<T> {
    type Input = ();
    type Output = T;
    const STATE_TYPE: &'static str = "lockkeeper.canal-source";

    fn process(&mut self, _: Vec<()>, _: &mut Output<T>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        self.intake.mark_cut(cut.seq);
        let saved = Saved {
            history: self.intake.history().clone(),
            ended: self.ended,
        };
        Ok(Prepared {
            state: Some(Box::new(move |mut writer| {
                rmp_serde::encode::write(&mut writer, &saved).map_err(std::io::Error::other)
            })),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        self.fetching = None;
        self.restored = rmp_serde::from_read(state)
            .map_err(|error| OperatorError::Retry(format!("the source's state: {error}")))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.fetching = None;
        self.restored = Saved::default();
        Ok(())
    }

    fn resumed_at(&mut self, _completed: u64, oldest_retained: u64) -> Result<(), OperatorError> {
        self.start(oldest_retained);
        Ok(())
    }

    fn region_checkpointed(
        &mut self,
        _seq: u64,
        oldest_retained: u64,
    ) -> Result<(), OperatorError> {
        self.context.hook().at(Point::AfterCommitBeforeAck);
        self.oldest_retained = oldest_retained;
        self.asked_for_cut = None;
        self.acknowledge();
        Ok(())
    }
}

impl<T: Tuple> StartOperator for CanalSource<T> {
    fn poll_produce(
        &mut self,
        cx: &mut task::Context<'_>,
        output: &mut Output<T>,
        region: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        while !self.ended {
            let Some(fetching) = &mut self.fetching else {
                return Poll::Ready(Err(OperatorError::Retry(
                    "the source was not started".into(),
                )));
            };
            match fetching.fetched.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    return Poll::Ready(Err(OperatorError::Retry("fetching has ended".into())));
                }
                Poll::Ready(Some(Fetched::Failed(error))) => {
                    return Poll::Ready(Err(failed(error)));
                }
                Poll::Ready(Some(Fetched::Acknowledged(batch))) => {
                    self.intake.acknowledged(&batch, self.oldest_retained);
                    self.outstanding
                        .retain(|outstanding| outstanding.batch > batch);
                }
                Poll::Ready(Some(Fetched::Idle(idle))) => {
                    if idle >= self.config.idle_before_cut && self.intake.outstanding() > 0 {
                        self.want_cut(region);
                    }
                }
                Poll::Ready(Some(Fetched::Batch(message))) => {
                    if let Err(error) = self.take(&message, output) {
                        return Poll::Ready(Err(error));
                    }
                    self.watch_buffer(region);
                    return Poll::Ready(Ok(Produced::More));
                }
            }
        }
        Poll::Ready(Ok(Produced::End))
    }
}

fn seen(entry: &Entry) -> Seen {
    let position = entry.position();
    Seen {
        fingerprint: u128::from_be_bytes(entry.fingerprint().to_bytes()),
        place: stable_hash(&(position.journal, position.offset)),
    }
}

fn failed(error: CanalError) -> OperatorError {
    if error.is_retryable() {
        OperatorError::Retry(format!("the Canal source: {error}"))
    } else {
        OperatorError::Permanent(format!("the Canal source: {error}"))
    }
}
