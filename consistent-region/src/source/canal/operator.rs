//! The operator: takes batches in, emits tuples, marks cuts, acknowledges late.

mod given;
mod outstanding;
mod spooled;
mod state;

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Instant;

use actix::{Actor, Context};
use lockkeeper_canal::{BatchId, CanalError, Entry, EntryType, Message};
use lockkeeper_core::status::StatusSource;

use super::fetch::{Fetched, Fetching};
use super::finish::{self, Finish, SourceCommitter};
use super::place::CanalPlace;
use super::shown::SourceStatus;
use super::spooling::Durable;
use super::{CanalSourceConfig, MapEntry};
use crate::graph::stable_hash;
use crate::operator::{
    Committer, Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced,
    RegionHandle, StartOperator, Tuple,
};
use crate::point::Point;
use crate::source::bad_row::DeadLetters;
use crate::source::change::OnSourceChange;
use crate::source::commands::{self, Skipping};
use crate::source::history::{History, Seen, Transaction};
use crate::source::intake::{Arrived, Intake};
use crate::source::replay::Divergence;
use given::Given;
use outstanding::Outstanding;
use spooled::Spooling;
pub(super) use state::Saved;
pub(crate) use state::describe;

/// A replay that fits nothing is asked for again this often before it is a permanent error.
const REPLAYS_THAT_FIT_NOTHING: u32 = 3;

/// Reads row changes of one Canal destination into a region. See the [module](super).
pub struct CanalSource<T> {
    pub(super) config: CanalSourceConfig,
    map: MapEntry<T>,
    pub(super) context: InstanceContext,
    intake: Intake<BatchId, Given<T>>,
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
    /// How often the source went on although it was another one.
    changes: u64,
    letters: DeadLetters,
    skipping: Skipping<CanalPlace>,
    /// The cut that was prepared last, if the region ends with it.
    last_cut: Option<u64>,
    /// A batch that goes on behind the region's end: it is left to the next client as a whole.
    cut_short: Option<BatchId>,
    /// Where the last row lay, for people.
    position: String,
    spooling: Option<Spooling>,
    /// Every change of rows counts, also one that the map has no use for: a changed map may have.
    counts_all: bool,
    shown: Arc<SourceStatus>,
}

impl<T: Tuple> CanalSource<T> {
    /// A source that makes tuples with `map`.
    ///
    /// `map` is called for every entry but the ends of transactions, in order, also for those that
    /// come again after a reset: the same entry must give the same tuples, whatever came before.
    /// An entry that gives none is of no interest, and it does not matter whether it comes again.
    /// An error makes the entry a bad row ([`CanalSourceConfig::on_bad_row`]): unless told otherwise
    /// the region stops and says which it was, rather than lose it.
    pub fn new(config: CanalSourceConfig, context: InstanceContext, map: MapEntry<T>) -> Self {
        let letters = DeadLetters::new(&config.on_bad_row, &context);
        let shown = Arc::new(SourceStatus::new(&context));
        let source: Arc<dyn StatusSource> = Arc::clone(&shown) as _;
        context.status().register(&source);
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
            changes: 0,
            letters,
            skipping: Skipping::default(),
            last_cut: None,
            cut_short: None,
            position: String::new(),
            spooling: None,
            counts_all: false,
            shown,
        }
    }

    fn take(&mut self, message: &Message, output: &mut Output<T>) -> Result<(), OperatorError> {
        let mut arrived = Vec::with_capacity(message.len());
        let mut entries = message.entries();
        let (mut position, mut executed) = (None, None);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failed)?;
            executed = Some(entry.execute_time());
            if let Some(id) = entry.transaction_end_id().map_err(failed)? {
                arrived.push(Arrived::End(Transaction::new(stable_hash(&id))));
                continue;
            }
            let Some(given) = self.map(&entry) else {
                continue;
            };
            let last = given.last;
            position = Some(entry.position());
            arrived.push(Arrived::Entry {
                seen: seen(&entry),
                entry: given,
            });
            if last {
                let has_rows = |entry: Result<Entry, CanalError>| {
                    entry.is_ok_and(|entry| entry.entry_type() == EntryType::RowData)
                };
                self.cut_short = entries.any(has_rows).then_some(message.id());
                break;
            }
        }
        self.outstanding.push(Outstanding::from(message));
        self.shown.receives(executed);
        let first = self.intake.history().end();
        let mut new = match self.intake.take(message.id(), arrived) {
            Ok(new) => new,
            Err(divergence) => return self.misfit(message.destination(), &divergence),
        };
        if !self.intake.is_replaying() {
            self.misfits = 0;
        }
        if let (Some(position), false) = (position, new.is_empty()) {
            self.position = position.to_string();
        }
        self.spool(message, first, &mut new)?;
        for given in new {
            self.ended |= given.last;
            self.give(given, output)?;
        }
        self.show();
        Ok(())
    }

    /// What a replay that fits nothing means. Somebody else's GET, of a forgotten client or of a
    /// connection that is dead, may have come between our rollback and our first GET and taken what
    /// that should have brought; then the next rollback brings it. Only if it comes to nothing again
    /// and again was the source itself changed.
    fn misfit(&mut self, destination: &str, divergence: &Divergence) -> Result<(), OperatorError> {
        self.misfits += 1;
        if self.misfits < REPLAYS_THAT_FIT_NOTHING {
            return Err(OperatorError::Retry(format!(
                "the replay of {destination} is not what was rolled back: {divergence}; rolling \
                 back again"
            )));
        }
        if self.config.on_source_change == OnSourceChange::AtLeastOnce {
            tracing::warn!(destination, %divergence, "the source was changed: its rows count at least once");
            self.changes += 1;
            self.restored.history = History::beginning_at(self.intake.history().end());
            self.restored.ended = self.ended;
            self.restored.skips = self.skipping.over();
            self.restored.changes = self.changes;
            self.restored.position.clone_from(&self.position);
            self.restored.counts_all = self.counts_all;
            self.start(self.oldest_retained);
            return Ok(());
        }
        Err(OperatorError::Permanent(format!(
            "the source of {destination} was changed: {divergence}; {} rollbacks in a row brought \
             nothing else. Is another client using this destination and client id?",
            self.misfits
        )))
    }

    fn stop_fetching(&mut self) {
        self.fetching = None;
        self.shown.waits();
    }

    /// Starts anew at what was restored.
    fn start(&mut self, oldest_retained: u64) {
        let saved = std::mem::take(&mut self.restored);
        let acknowledged_at_most = match saved.last {
            true => saved.history.end(),
            false => saved
                .history
                .end_of_cut(oldest_retained)
                .unwrap_or(saved.history.first()),
        };
        // What was counted so far can't be counted in another way.
        let is_first = saved.history.end() == saved.history.first();
        self.counts_all = self.config.spool && (saved.counts_all || is_first);
        // The first row may be open: it is closed again by whoever spools the next one.
        self.spooling = self.config.spool.then(|| Spooling {
            is_open: saved
                .history
                .end()
                .checked_sub(1)
                .is_some_and(|last| saved.history.transaction(last).is_none()),
            durable: Durable::up_to(saved.history.end()),
        });
        let unchecked = self.config.sabotage.skips_checks() || self.spooling.is_some();
        self.intake = if unchecked {
            Intake::unchecked(saved.history)
        } else {
            Intake::new(saved.history, acknowledged_at_most)
        };
        self.ended = saved.ended;
        (self.changes, self.position) = (saved.changes, saved.position);
        self.skipping = Skipping::restored(saved.skips);
        self.letters.clear();
        (self.last_cut, self.cut_short) = (None, None);
        self.oldest_retained = oldest_retained;
        self.outstanding.clear();
        self.asked_for_cut = None;
        let durable = self.spooling.as_ref().map(|spooling| &spooling.durable);
        let (config, context) = (self.config.clone(), self.context.clone());
        let (durable, shown) = (durable.cloned(), Arc::clone(&self.shown));
        self.fetching = Some(Fetching::start(config, context, durable, shown));
        self.show();
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
    const STATE_TYPE: &'static str = super::STATE_TYPE;

    fn process(&mut self, _: Vec<()>, _: &mut Output<T>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        self.take_note();
        self.intake.mark_cut(cut.seq);
        self.last_cut = cut.last.then_some(cut.seq);
        let saved = Saved {
            history: self.intake.history().clone(),
            ended: self.ended,
            last: cut.last,
            changes: self.changes,
            skips: self.skipping.at_cut(cut.seq),
            position: self.position.clone(),
            counts_all: self.counts_all,
        };
        let spooled = self.spooling.as_ref().map(|spooling| {
            let end = self.intake.history().end();
            (Arc::clone(&spooling.durable), end)
        });
        Ok(Prepared {
            state: Some(Box::new(move |mut writer| {
                // The spool has no holes: a cut covers only what is in it.
                if let Some((durable, end)) = spooled {
                    durable.wait(end)?;
                }
                rmp_serde::encode::write(&mut writer, &saved).map_err(std::io::Error::other)
            })),
            stage: finish::stage(self.letters.prepare(cut), cut.last),
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        self.stop_fetching();
        self.restored = rmp_serde::from_read(state)
            .map_err(|error| OperatorError::Retry(format!("the source's state: {error}")))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.stop_fetching();
        self.restored = Saved::default();
        Ok(())
    }

    fn resumed_at(&mut self, _completed: u64, oldest_retained: u64) -> Result<(), OperatorError> {
        if self.restored.counts_all && !self.config.spool {
            // What was acknowledged lies there alone.
            return Err(OperatorError::Permanent(
                "the region was run with a spool, and goes on only with one: set \
                 CanalSourceConfig::spool"
                    .to_owned(),
            ));
        }
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
        commands::forget(&self.context, self.skipping.outlived(oldest_retained));
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        let finish = match (self.last_cut, &self.fetching) {
            (Some(seq), Some(fetching)) => Some(Finish {
                orders: fetching.orders.clone(),
                batch: self.last_batch(seq),
            }),
            _ => None,
        };
        Some(Arc::new(SourceCommitter {
            letters: self.letters.committer(),
            is_last: self.last_cut.is_some(),
            finish,
        }))
    }
}

impl<T: Tuple> StartOperator for CanalSource<T> {
    const ACKNOWLEDGES: bool = true;

    fn poll_produce(
        &mut self,
        cx: &mut task::Context<'_>,
        output: &mut Output<T>,
        region: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        while !self.ended {
            self.take_note();
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
                Poll::Ready(Some(Fetched::Broken(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Fetched::Spooled(segment))) => {
                    let taken = self.take_spooled(&segment, output);
                    return Poll::Ready(taken.map(|()| Produced::More));
                }
                Poll::Ready(Some(Fetched::SpoolRead)) => self.spool_is_read(),
                Poll::Ready(Some(Fetched::Commands(commands))) => {
                    let taken_up = self.skipping.take_up(commands, CanalPlace::read);
                    if let Err(reason) = taken_up {
                        return Poll::Ready(Err(OperatorError::Permanent(reason)));
                    }
                }
                Poll::Ready(Some(Fetched::Idle(idle))) => {
                    self.shown.catches_up();
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
