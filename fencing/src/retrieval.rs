//! Leader retrieval: a watch of who leads a component.

use std::fmt;

use tokio::sync::watch;

use crate::election::{ComponentId, ElectionError, LeaderInformation};

/// What a retrieval shows: the leader's address and token, `None` while nobody is known to lead.
pub type LeaderInformationWatch = watch::Receiver<Option<LeaderInformation>>;

/// Finds leaders in a coordination store.
pub trait LeaderRetrievalDriverFactory: fmt::Debug + Send + Sync + 'static {
    /// Keeps `leader` up to date until all its receivers are gone.
    ///
    /// # Errors
    /// What makes it impossible from the beginning. A store that goes away later is tried again.
    fn retrieve(
        &self,
        component: ComponentId,
        leader: watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError>;
}

/// Finds the leaders of components. Cheap: it has no thread of its own, its retrievals may.
#[derive(Debug)]
pub struct LeaderRetrievalService {
    factory: Box<dyn LeaderRetrievalDriverFactory>,
}

impl LeaderRetrievalService {
    /// A service on this store.
    #[must_use]
    pub fn new(factory: impl LeaderRetrievalDriverFactory) -> Self {
        LeaderRetrievalService {
            factory: Box::new(factory),
        }
    }

    /// Begins to follow the leader of a component, until the retrieval and all its clones and
    /// watches are dropped.
    ///
    /// # Errors
    /// As [`LeaderRetrievalDriverFactory::retrieve`].
    pub fn retrieve(&self, component: ComponentId) -> Result<LeaderRetrieval, ElectionError> {
        let (sender, leader) = watch::channel(None);
        self.factory.retrieve(component.clone(), sender)?;
        Ok(LeaderRetrieval { component, leader })
    }
}

/// Follows the leader of one component.
#[derive(Clone, Debug)]
pub struct LeaderRetrieval {
    component: ComponentId,
    leader: LeaderInformationWatch,
}

impl LeaderRetrieval {
    /// The component.
    #[must_use]
    pub fn component(&self) -> &ComponentId {
        &self.component
    }

    /// The leader as known now.
    #[must_use]
    pub fn current(&self) -> Option<LeaderInformation> {
        self.leader.borrow().clone()
    }

    /// A watch of the leader; it changes only when address or token do.
    #[must_use]
    pub fn watch(&self) -> LeaderInformationWatch {
        self.leader.clone()
    }

    /// The leader as soon as one is known. Give it a time limit.
    ///
    /// # Errors
    /// [`ElectionError::Closed`] when the driver has ended.
    pub async fn leader(&mut self) -> Result<LeaderInformation, ElectionError> {
        let found = self.leader.wait_for(Option::is_some).await;
        found
            .ok()
            .and_then(|leader| leader.clone())
            .ok_or(ElectionError::Closed)
    }

    /// The next leader that is another than `known`: another address or token.
    ///
    /// # Errors
    /// [`ElectionError::Closed`] when the driver has ended.
    pub async fn leader_other_than(
        &mut self,
        known: &LeaderInformation,
    ) -> Result<LeaderInformation, ElectionError> {
        let other = |leader: &Option<LeaderInformation>| {
            leader.as_ref().is_some_and(|leader| leader != known)
        };
        let found = self.leader.wait_for(other).await;
        found
            .ok()
            .and_then(|leader| leader.clone())
            .ok_or(ElectionError::Closed)
    }
}

/// Shows `found` if it differs from what is shown.
pub(crate) fn show(
    leader: &watch::Sender<Option<LeaderInformation>>,
    found: Option<LeaderInformation>,
) {
    leader.send_if_modified(|shown| {
        let changed = *shown != found;
        *shown = found;
        changed
    });
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::token::FencingToken;

    use super::*;

    #[test]
    fn a_watch_changes_only_with_the_leader() {
        let leader = |address: &str| {
            Some(LeaderInformation {
                address: address.to_owned(),
                token: FencingToken::new(1_u64, 1, uuid::Uuid::nil()),
            })
        };
        let (sender, mut watch) = watch::channel(None);
        show(&sender, None);
        assert!(!watch.has_changed().unwrap());
        show(&sender, leader("here"));
        assert!(watch.has_changed().unwrap());
        assert_eq!(*watch.borrow_and_update(), leader("here"));
        show(&sender, leader("here"));
        assert!(!watch.has_changed().unwrap());
        show(&sender, leader("there"));
        assert!(watch.has_changed().unwrap());
    }
}
