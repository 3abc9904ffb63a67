//! What decides leadership: the border between the service and a coordination store.

use std::fmt;

use lockkeeper_core::token::FencingToken;
use tokio::sync::{mpsc, oneshot};

use super::{ComponentId, ElectionError, LeaderInformation, Leadership};

/// A candidate in a coordination store. It campaigns from its creation until it is closed; after a
/// loss it campaigns anew, for a new token.
///
/// Every driver must pass `contract::election` (feature `testing`). What it has to hold:
/// - it grants only what is above all former grants of the store;
/// - [`Leadership::deadline`] passes before the store can grant to another candidate;
/// - it publishes information only while it leads, for the epoch that it leads;
/// - its calls return at once and are carried out on the driver's own thread.
pub trait LeaderElectionDriver: fmt::Debug + Send + 'static {
    /// Publishes where the leader of a component is.
    fn publish(&mut self, component: &ComponentId, information: &LeaderInformation);

    /// Takes the information of a component back, if it is ours.
    fn withdraw(&mut self, component: &ComponentId);

    /// Gives up leadership if there is one and ends the candidate. The channel resolves when
    /// another candidate can lead.
    fn close(&mut self) -> oneshot::Receiver<()>;
}

/// Makes drivers: the service makes one when its first contender starts.
pub trait LeaderElectionDriverFactory: fmt::Debug + Send + 'static {
    /// Starts a candidate that reports to `listener`.
    ///
    /// # Errors
    /// What makes campaigning impossible: options that cannot work, a store that is damaged.
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError>;
}

#[derive(Debug)]
pub(crate) enum DriverEvent {
    Granted(Leadership),
    Lost(FencingToken),
    Changed(ComponentId, Option<LeaderInformation>),
    Failed(ElectionError),
}

/// Where a driver reports to. Its calls return at once.
#[derive(Clone, Debug)]
pub struct DriverListener {
    // As many events as there are grants, losses and changes in the store: a bound would make
    // a driver wait for its service, and so lose its lease.
    events: mpsc::UnboundedSender<DriverEvent>,
}

impl DriverListener {
    pub(crate) fn new(events: mpsc::UnboundedSender<DriverEvent>) -> Self {
        DriverListener { events }
    }

    /// This candidate leads.
    pub fn granted(&self, leadership: Leadership) {
        self.tell(DriverEvent::Granted(leadership));
    }

    /// This candidate does not lead any longer under that token. The deadline must have ended.
    pub fn lost(&self, token: FencingToken) {
        self.tell(DriverEvent::Lost(token));
    }

    /// The information of a component in the store was changed, by whomever.
    pub fn information_changed(
        &self,
        component: ComponentId,
        information: Option<LeaderInformation>,
    ) {
        self.tell(DriverEvent::Changed(component, information));
    }

    /// There is a problem that the driver goes on with by itself.
    pub fn failed(&self, error: ElectionError) {
        self.tell(DriverEvent::Failed(error));
    }

    fn tell(&self, event: DriverEvent) {
        // A service that is gone has closed the driver or is about to.
        let _ = self.events.send(event);
    }
}
