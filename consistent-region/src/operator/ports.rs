//! Input ports besides the ordinary one: control ports and autonomous ports.

use std::task::{self, Poll};

use tokio::sync::mpsc;

use super::{Operator, OperatorError, Output, Tuple};
use crate::graph::spec::Erased;
use crate::stream::{Element, Item};

/// An operator with a control port: what comes by it changes how the operator works. It is the only
/// way to close a loop in a region ([`RegionBuilder::control`](crate::graph::RegionBuilder::control)).
///
/// Control tuples are taken at any time, also while the operator's receivers have no room, and by
/// every instance. They are no part of a cut: what is under way at a cut may be lost or come again
/// by a reset. Not for data, but for a rate, a filter, a threshold that is told again.
pub trait ControlPort: Operator {
    /// What comes by the port.
    type Control: Tuple + Clone;

    /// Takes one batch. Nothing can be emitted: control tuples are not forwarded.
    fn control(&mut self, batch: Vec<Self::Control>) -> Result<(), OperatorError>;
}

/// An operator of a region with a port for streams from outside, which are neither drained nor
/// played again ([`RegionBuilder::autonomous_port`](crate::graph::RegionBuilder::autonomous_port)).
///
/// Its tuples are taken only while tuples of the region may flow, as if the port held a
/// [`Permit`](super::Permit) for each batch: what they change belongs to the cut that follows.
/// What came by it after the cut is lost by a reset.
pub trait AutonomousPort: Operator {
    /// What comes by the port.
    type Outside: Tuple;

    /// Takes one batch.
    fn process_outside(
        &mut self,
        batch: Vec<Self::Outside>,
        output: &mut Output<Self::Output>,
    ) -> Result<(), OperatorError>;
}

/// One open port of an instance.
pub(crate) trait Side<A: Operator> {
    /// Whether it is read at any time.
    fn is_control(&self) -> bool;

    /// Takes a batch if there is one; ready without a batch when something else was thrown away.
    fn poll(
        &mut self,
        actor: &mut A,
        output: &mut Output<A::Output>,
        task: &mut task::Context<'_>,
    ) -> Poll<Result<(), OperatorError>>;
}

/// Opens a port with the receiver of its channel.
pub(crate) type OpenSide<A> = fn(Erased) -> Option<Box<dyn Side<A>>>;

pub(crate) fn open_control<A: ControlPort>(receiver: Erased) -> Option<Box<dyn Side<A>>> {
    let receiver: Box<mpsc::Receiver<Element<A::Control>>> = receiver.downcast().ok()?;
    Some(Box::new(Control::<A>(*receiver)))
}

pub(crate) fn open_autonomous<A: AutonomousPort>(receiver: Erased) -> Option<Box<dyn Side<A>>> {
    let receiver: Box<mpsc::Receiver<Element<A::Outside>>> = receiver.downcast().ok()?;
    Some(Box::new(Autonomous::<A>(*receiver)))
}

struct Control<A: ControlPort>(mpsc::Receiver<Element<A::Control>>);

impl<A: ControlPort> Side<A> for Control<A> {
    fn is_control(&self) -> bool {
        true
    }

    fn poll(
        &mut self,
        actor: &mut A,
        _: &mut Output<A::Output>,
        task: &mut task::Context<'_>,
    ) -> Poll<Result<(), OperatorError>> {
        next(&mut self.0, task).map(|batch| batch.map_or(Ok(()), |batch| actor.control(batch)))
    }
}

struct Autonomous<A: AutonomousPort>(mpsc::Receiver<Element<A::Outside>>);

impl<A: AutonomousPort> Side<A> for Autonomous<A> {
    fn is_control(&self) -> bool {
        false
    }

    fn poll(
        &mut self,
        actor: &mut A,
        output: &mut Output<A::Output>,
        task: &mut task::Context<'_>,
    ) -> Poll<Result<(), OperatorError>> {
        next(&mut self.0, task)
            .map(|batch| batch.map_or(Ok(()), |batch| actor.process_outside(batch, output)))
    }
}

/// Markers do not count here: these ports are not drained. A port whose senders are gone is silent;
/// they report why.
fn next<T>(
    receiver: &mut mpsc::Receiver<Element<T>>,
    task: &mut task::Context<'_>,
) -> Poll<Option<Vec<T>>> {
    match receiver.poll_recv(task) {
        Poll::Ready(Some(element)) => Poll::Ready(match element.item {
            Item::Batch(batch) => Some(batch),
            Item::Marker(_) => None,
        }),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    }
}
