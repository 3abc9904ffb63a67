//! An operator and a connection with their types put away, so that a graph can hold all of them.
//!
//! Only the typed builder makes these, from streams whose types fit; so the types that are found
//! again behind `Any` are the right ones.

use std::any::Any;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::operator::{InstanceHandle, Launch, OpenSide, Operator, Producer, Tuple, launch};
use crate::state::Rescale;
use crate::stream::{Element, Partitioner, Route, Target};

use super::builder::Factory;

/// A value whose type its user knows.
pub(crate) type Erased = Box<dyn Any + Send>;

/// How to start an instance of one operator.
pub(crate) trait OperatorSpec: Send + Sync {
    fn state_type(&self) -> &'static str;
    fn state_version(&self) -> u32;
    fn oldest_state_version(&self) -> u32;
    fn rescale(&self) -> Rescale;
    fn uses_permits(&self) -> bool;
    /// It tells what it reads from what may be forgotten.
    fn acknowledges(&self) -> bool;
    fn set_acknowledges(&mut self, acknowledges: bool);
    /// It produces: its ports are all besides the ordinary one.
    fn is_producer(&self) -> bool;
    /// Adds a port besides the ordinary one; `open` is an [`OpenSide`] of the operator's own type,
    /// `false` otherwise.
    fn add_side(&mut self, open: Erased) -> bool;
    fn launch(&self, launch: Launch) -> InstanceHandle;
}

pub(crate) struct TypedOperator<A: Operator> {
    pub(crate) factory: Factory<A>,
    pub(crate) producer: Option<Producer<A>>,
    pub(crate) acknowledges: bool,
    pub(crate) sides: Vec<OpenSide<A>>,
}

impl<A: Operator> OperatorSpec for TypedOperator<A> {
    fn state_type(&self) -> &'static str {
        A::STATE_TYPE
    }

    fn state_version(&self) -> u32 {
        A::STATE_VERSION
    }

    fn oldest_state_version(&self) -> u32 {
        A::OLDEST_STATE_VERSION
    }

    fn rescale(&self) -> Rescale {
        A::RESCALE
    }

    fn uses_permits(&self) -> bool {
        A::USES_PERMITS
    }

    fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    fn set_acknowledges(&mut self, acknowledges: bool) {
        self.acknowledges = acknowledges;
    }

    fn is_producer(&self) -> bool {
        self.producer.is_some()
    }

    fn add_side(&mut self, open: Erased) -> bool {
        match open.downcast::<OpenSide<A>>() {
            Ok(open) => self.sides.push(*open),
            Err(_) => return false,
        }
        true
    }

    fn launch(&self, request: Launch) -> InstanceHandle {
        let factory = Arc::clone(&self.factory);
        launch(request, factory, self.producer, self.sides.clone())
    }
}

/// How tuples pass over one connection.
pub(crate) trait ConnectionSpec: Send + Sync {
    /// The receiver and a first sender of an input port's channel for `capacity` batches.
    fn channel(&self, capacity: usize) -> (Erased, Erased);
    /// Another sender for the same channel.
    fn clone_sender(&self, sender: &Erased) -> Option<Erased>;
    /// What an instance sends by: `senders` are one for each receiving instance, in their order,
    /// with the index of the channel.
    fn route(&self, senders: Vec<(usize, Erased)>) -> Option<Erased>;
    /// The end of a stream to another worker that takes tuples out, to write them.
    #[cfg(feature = "remote")]
    fn outbound(&self, receiver: Erased) -> Option<Box<dyn crate::stream::Outbound>>;
    /// The end of a stream from another worker that puts tuples in.
    #[cfg(feature = "remote")]
    fn inbound(&self, channel: usize, sender: Erased) -> Option<Arc<dyn crate::stream::Inbound>>;
}

pub(crate) struct TypedConnection<T> {
    pub(crate) partitioner: Partitioner<T>,
    pub(crate) duplicate: Option<fn(&T) -> T>,
}

impl<T: Tuple> ConnectionSpec for TypedConnection<T> {
    fn channel(&self, capacity: usize) -> (Erased, Erased) {
        let (sender, receiver) = mpsc::channel::<Element<T>>(capacity);
        (Box::new(sender), Box::new(receiver))
    }

    fn clone_sender(&self, sender: &Erased) -> Option<Erased> {
        let sender = sender.downcast_ref::<mpsc::Sender<Element<T>>>()?;
        Some(Box::new(sender.clone()))
    }

    fn route(&self, senders: Vec<(usize, Erased)>) -> Option<Erased> {
        let mut targets = Vec::with_capacity(senders.len());
        for (channel, sender) in senders {
            let sender = sender.downcast::<mpsc::Sender<Element<T>>>().ok()?;
            targets.push(Target::new(channel, *sender));
        }
        Some(Box::new(Route::new(
            targets,
            self.partitioner.clone(),
            self.duplicate,
        )))
    }

    #[cfg(feature = "remote")]
    fn outbound(&self, receiver: Erased) -> Option<Box<dyn crate::stream::Outbound>> {
        let receiver = receiver.downcast::<mpsc::Receiver<Element<T>>>().ok()?;
        Some(Box::new(crate::stream::TypedOutbound::new(*receiver)))
    }

    #[cfg(feature = "remote")]
    fn inbound(&self, channel: usize, sender: Erased) -> Option<Arc<dyn crate::stream::Inbound>> {
        let sender = sender.downcast::<mpsc::Sender<Element<T>>>().ok()?;
        Some(Arc::new(crate::stream::TypedInbound::new(channel, *sender)))
    }
}
