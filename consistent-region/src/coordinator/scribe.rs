//! Carries out the machine's wishes to the store, one after the other, off the arbiter.

use tokio::sync::mpsc;
use tokio::task::{JoinError, spawn_blocking};

use super::event::{Action, Event};
use super::publisher::{Outcome, Over, Publisher};

/// More wishes than this can't be waiting: the machine waits for each answer itself.
const MOST_WAITING: usize = 1_024;

/// What came of a wish.
#[derive(Debug)]
pub(crate) enum Written {
    Event(Box<Event>),
    Nothing,
    Over(Over),
}

/// The wishes of one term. Dropping it ends the term's access to the store.
#[derive(Debug)]
pub(crate) struct Scribe {
    wishes: mpsc::Sender<Action>,
}

impl Scribe {
    /// Takes the publisher; the future runs until the [`Scribe`] is dropped or the term is over,
    /// and hands each result to `tell`.
    pub(crate) fn new<T, F>(
        publisher: Publisher,
        tell: T,
    ) -> (Self, impl Future<Output = ()> + 'static)
    where
        T: Fn(Written) -> F + 'static,
        F: Future<Output = ()>,
    {
        let (sender, mut wishes) = mpsc::channel(MOST_WAITING);
        let work = async move {
            let mut publisher = publisher;
            while let Some(action) = wishes.recv().await {
                let (back, written) = match carry_out(publisher, action).await {
                    Ok(done) => done,
                    Err(error) => {
                        let unknown = Over::Unknown(format!("a job of the store failed: {error}"));
                        return tell(Written::Over(unknown)).await;
                    }
                };
                publisher = back;
                let over = matches!(written, Written::Over(_));
                tell(written).await;
                if over {
                    return;
                }
            }
        };
        (Self { wishes: sender }, work)
    }

    /// Hands a wish over; `false` when it could not be taken: the term has to end.
    pub(crate) fn wish(&self, action: Action) -> bool {
        self.wishes.try_send(action).is_ok()
    }
}

async fn carry_out(
    mut publisher: Publisher,
    action: Action,
) -> Result<(Publisher, Written), JoinError> {
    spawn_blocking(move || {
        let written = match action {
            Action::Append(entry) => {
                let number = entry.record.number;
                match publisher.append(*entry) {
                    Outcome::Appended => Written::Event(Box::new(Event::Appended { number })),
                    Outcome::NotWritten(reason) => {
                        Written::Event(Box::new(Event::AppendFailed { number, reason }))
                    }
                    Outcome::Over(over) => Written::Over(over),
                }
            }
            Action::KeepSavepoint { request, name, cut } => {
                let outcome = publisher.keep_savepoint(&name, &cut);
                Written::Event(Box::new(Event::SavepointKept {
                    request,
                    name,
                    seq: cut.seq,
                    outcome,
                }))
            }
            Action::FindSavepoint { request, name } => {
                let found = publisher.find_savepoint(&name);
                let outcome = found.map(|savepoint| savepoint.manifest.seq);
                Written::Event(Box::new(Event::SavepointFound {
                    request,
                    name,
                    outcome,
                }))
            }
            Action::RemoveSavepoint { request, name } => {
                let outcome = publisher.remove_savepoint(&name);
                Written::Event(Box::new(Event::SavepointRemoved { request, outcome }))
            }
            Action::ChooseRestorePoint {
                choice,
                record,
                savepoint,
            } => {
                let outcome = match savepoint {
                    Some(name) => publisher.choose_savepoint(&name),
                    None => publisher.choose(&record),
                };
                Written::Event(Box::new(Event::Chosen { choice, outcome }))
            }
            Action::Tidy { record } => match publisher.tidy(&record) {
                Ok(()) => Written::Nothing,
                Err(over) => Written::Over(over),
            },
            _ => Written::Nothing,
        };
        (publisher, written)
    })
    .await
}
