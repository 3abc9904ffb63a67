//! The operator: takes batches in, emits tuples, marks cuts, acknowledges late.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use actix::{Actor, Context};
use lockkeeper_canal::{BatchId, CanalError, Entry, Message};
use serde::{Deserialize, Serialize};

use super::fetch::{Fetched, Fetching};
use super::{CanalSourceConfig, MapEntry, Mapped};
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced, RegionHandle,
    StartOperator, Tuple,
};
use crate::point::Point;
use crate::source::history::{History, Seen};
use crate::source::intake::{Arrived, Intake};

/// A cut is asked for when the server's buffer is filled this far with what is unacknowledged.
const BUFFER_SHARE_PERCENT: u64 = 40;
/// A wish for a cut is repeated after this time if no cut has come: its message may be lost.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Reads row changes of one Canal destination into a region. See the [module](super).
pub struct CanalSource<T> {
    config: CanalSourceConfig,
    map: MapEntry<T>,
    context: InstanceContext,
    intake: Intake<BatchId, Entry>,
    /// Restored, and not yet taken up by [`Operator::resumed_at`].
    restored: Saved,
    ended: bool,
    fetching: Option<Fetching>,
    /// Bytes of the batches that wait to be acknowledged, in order.
    outstanding_bytes: Vec<(BatchId, u64)>,
    asked_for_cut: Option<Instant>,
    oldest_retained: u64,
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
    /// `map` is called for every new entry of the tables, in order, transaction ends included; the
    /// same entries give the same tuples. Its error is permanent: the region stops and says which
    /// row it was, rather than lose it.
    pub fn new(config: CanalSourceConfig, context: InstanceContext, map: MapEntry<T>) -> Self {
        Self {
            config,
            map,
            context,
            intake: Intake::new(History::default(), 0),
            restored: Saved::default(),
            ended: false,
            fetching: None,
            outstanding_bytes: Vec::new(),
            asked_for_cut: None,
            oldest_retained: 0,
        }
    }

    fn take(&mut self, message: &Message, output: &mut Output<T>) -> Result<(), OperatorError> {
        let mut entries = Vec::with_capacity(message.len());
        for entry in message.entries() {
            entries.push(arrived(entry.map_err(failed)?)?);
        }
        let bytes = u64::try_from(message.bytes()).unwrap_or(u64::MAX);
        self.outstanding_bytes.push((message.id(), bytes));
        let new = self
            .intake
            .take(message.id(), entries)
            .map_err(|divergence| {
                OperatorError::Permanent(format!(
                    "the source of {} was changed: {divergence}",
                    message.destination()
                ))
            })?;
        for entry in new {
            match (self.map)(&entry) {
                Ok(Mapped::Tuples(tuples)) => output.extend(tuples),
                Ok(Mapped::End(tuples)) => {
                    output.extend(tuples);
                    self.ended = true;
                    return Ok(());
                }
                Err(error) => {
                    return Err(OperatorError::Permanent(format!(
                        "{} at {}: {error}",
                        entry.destination(),
                        entry.position()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Asks for a cut when the server's buffer fills up.
    fn watch_buffer(&mut self, region: &RegionHandle) {
        let bytes: u64 = self.outstanding_bytes.iter().map(|(_, bytes)| bytes).sum();
        let entries = self.intake.history().unacknowledged();
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
        self.outstanding_bytes.clear();
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
                    self.outstanding_bytes.retain(|(id, _)| *id > batch);
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

fn arrived(entry: Entry) -> Result<Arrived<Entry>, OperatorError> {
    let anchor = entry.transaction_end_id().map_err(failed)?.is_some();
    let fingerprint = u128::from_be_bytes(entry.fingerprint().to_bytes());
    let mut place = DefaultHasher::new();
    let position = entry.position();
    (position.journal, position.offset).hash(&mut place);
    let seen = Seen {
        fingerprint,
        anchor,
        place: place.finish(),
    };
    Ok(Arrived { seen, entry })
}

fn failed(error: CanalError) -> OperatorError {
    if error.is_retryable() {
        OperatorError::Retry(format!("the Canal source: {error}"))
    } else {
        OperatorError::Permanent(format!("the Canal source: {error}"))
    }
}
