//! How threads of a start operator hand over their tuples: only under a permit.

use std::fmt;
use std::task::{self, Poll};

use futures_util::future::{Either, select};
use tokio::sync::mpsc;

use super::{InstanceOver, Output, Permit};

/// A bounded queue from an operator's own threads to the operator, for `capacity` tuples (at least
/// 1).
///
/// Threads keep the [`Submitter`], the operator the [`Submissions`]:
/// [`poll_produce`](super::StartOperator::poll_produce) calls [`Submissions::poll`],
/// [`drain`](super::Operator::drain) calls [`Submissions::drain`] (everything that was submitted
/// under a permit is there then, and belongs to the cut), and both resets call
/// [`Submissions::clear`].
#[must_use]
pub fn submissions<T>(capacity: usize) -> (Submitter<T>, Submissions<T>) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (Submitter(sender), Submissions(receiver))
}

/// The threads' end. Clones lead to the same operator.
pub struct Submitter<T>(mpsc::Sender<T>);

/// The operator's end.
#[derive(Debug)]
pub struct Submissions<T>(mpsc::Receiver<T>);

/// Why a tuple was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The region is being reset: give the permit back, and emit again from where the operator
    /// stands afterwards.
    #[error("the region is being reset")]
    Superseded,
    /// The operator is gone.
    #[error(transparent)]
    Over(#[from] InstanceOver),
}

impl<T> Submitter<T> {
    /// Hands a tuple over, as soon as there is room.
    ///
    /// # Errors
    /// When a reset waits for the permit, or the operator is gone.
    pub async fn submit(&self, permit: &Permit, tuple: T) -> Result<(), SubmitError> {
        let room = std::pin::pin!(self.0.reserve());
        let superseded = std::pin::pin!(permit.superseded());
        match select(superseded, room).await {
            Either::Left(_) => Err(SubmitError::Superseded),
            Either::Right((Err(_), _)) => Err(InstanceOver.into()),
            Either::Right((Ok(room), _)) => {
                room.send(tuple);
                Ok(())
            }
        }
    }
}

impl<T> Submissions<T> {
    /// Moves what there is to `output`, at most `most` tuples; registers the waker when there is
    /// nothing.
    pub fn poll(
        &mut self,
        task: &mut task::Context<'_>,
        output: &mut Output<T>,
        most: usize,
    ) -> Poll<()> {
        let mut tuples = Vec::new();
        match self.0.poll_recv_many(task, &mut tuples, most.max(1)) {
            // The threads are gone, or have nothing now.
            Poll::Ready(0) | Poll::Pending => Poll::Pending,
            Poll::Ready(_) => {
                output.extend(tuples);
                Poll::Ready(())
            }
        }
    }

    /// Moves everything that was submitted to `output`.
    pub fn drain(&mut self, output: &mut Output<T>) {
        while let Ok(tuple) = self.0.try_recv() {
            output.emit(tuple);
        }
    }

    /// Throws everything away that was submitted: the region was reset.
    pub fn clear(&mut self) {
        while self.0.try_recv().is_ok() {}
    }
}

impl<T> Clone for Submitter<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Submitter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter")
            .field("room", &self.0.capacity())
            .finish()
    }
}
