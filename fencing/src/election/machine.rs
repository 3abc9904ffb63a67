//! The election of one process as a pure machine: one leadership, many components.

use std::collections::BTreeMap;

use lockkeeper_core::token::FencingToken;
use uuid::Uuid;

use super::{ComponentId, LeaderInformation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Register(ComponentId),
    Deregister(ComponentId),
    Confirm {
        component: ComponentId,
        session: Uuid,
        address: String,
    },
    Granted(FencingToken),
    Lost(FencingToken),
    InformationChanged(ComponentId, Option<LeaderInformation>),
}

/// To be carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    StartDriver,
    Grant(ComponentId, FencingToken),
    /// Leadership was taken: the contender is told, nobody waits for it.
    Revoke(ComponentId),
    /// Leadership is given up: the following actions come after the contender has drained.
    RevokeAndDrain(ComponentId),
    Publish(ComponentId, LeaderInformation),
    Withdraw(ComponentId),
    StopDriver,
    /// The registration was refused: another contender has this id.
    RefuseTaken(ComponentId),
}

/// Which components contend, what is granted and what was confirmed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ElectionMachine {
    leading: Option<FencingToken>,
    confirmed: BTreeMap<ComponentId, Option<LeaderInformation>>,
}

impl ElectionMachine {
    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Register(component) => self.register(component),
            Event::Deregister(component) => self.deregister(component),
            Event::Confirm {
                component,
                session,
                address,
            } => self.confirm(component, session, address),
            Event::Granted(token) => self.granted(token),
            Event::Lost(token) => self.lost(token),
            Event::InformationChanged(component, found) => self.repair(component, found),
        }
    }

    fn register(&mut self, component: ComponentId) -> Vec<Action> {
        if self.confirmed.contains_key(&component) {
            return vec![Action::RefuseTaken(component)];
        }
        let first = self.confirmed.is_empty();
        self.confirmed.insert(component.clone(), None);
        if first {
            return vec![Action::StartDriver];
        }
        self.leading
            .map(|token| Action::Grant(component, token))
            .into_iter()
            .collect()
    }

    fn deregister(&mut self, component: ComponentId) -> Vec<Action> {
        let Some(confirmed) = self.confirmed.remove(&component) else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        if self.leading.is_some() {
            actions.push(Action::RevokeAndDrain(component.clone()));
            if confirmed.is_some() {
                actions.push(Action::Withdraw(component));
            }
        }
        if self.confirmed.is_empty() {
            self.leading = None;
            actions.push(Action::StopDriver);
        }
        actions
    }

    fn confirm(&mut self, component: ComponentId, session: Uuid, address: String) -> Vec<Action> {
        let Some(token) = self.leading.filter(|token| token.session == session) else {
            tracing::debug!(%component, %session, "a confirmation of a former leadership is ignored");
            return Vec::new();
        };
        let Some(confirmed) = self.confirmed.get_mut(&component) else {
            return Vec::new();
        };
        let information = LeaderInformation { address, token };
        *confirmed = Some(information.clone());
        vec![Action::Publish(component, information)]
    }

    fn granted(&mut self, token: FencingToken) -> Vec<Action> {
        // The last contender may have left while the grant was on its way.
        if self.confirmed.is_empty() || self.leading == Some(token) {
            return Vec::new();
        }
        let mut actions = self.take_leadership();
        self.leading = Some(token);
        let components = self.confirmed.keys().cloned();
        actions.extend(components.map(|component| Action::Grant(component, token)));
        actions
    }

    fn lost(&mut self, token: FencingToken) -> Vec<Action> {
        if self.leading == Some(token) {
            self.take_leadership()
        } else {
            Vec::new()
        }
    }

    fn take_leadership(&mut self) -> Vec<Action> {
        if self.leading.take().is_none() {
            return Vec::new();
        }
        self.confirmed
            .values_mut()
            .for_each(|confirmed| *confirmed = None);
        self.confirmed.keys().cloned().map(Action::Revoke).collect()
    }

    /// Somebody changed what we have published: it is written anew. While our confirmation is
    /// outstanding there is nothing to write: publishing "nobody" would hide a leader
    /// (FLINK-40114).
    fn repair(&self, component: ComponentId, found: Option<LeaderInformation>) -> Vec<Action> {
        let ours = self.confirmed.get(&component).and_then(Option::as_ref);
        match ours {
            Some(ours) if self.leading.is_some() && found.as_ref() != Some(ours) => {
                vec![Action::Publish(component, ours.clone())]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str) -> ComponentId {
        ComponentId::new(name).unwrap()
    }

    fn token(epoch: u64) -> FencingToken {
        FencingToken::new(1_u64, epoch, Uuid::from_u128(u128::from(epoch)))
    }

    fn confirm(name: &str, epoch: u64) -> Event {
        let session = token(epoch).session;
        Event::Confirm {
            component: component(name),
            session,
            address: format!("{name}{epoch}"),
        }
    }

    fn information(name: &str, epoch: u64) -> LeaderInformation {
        LeaderInformation {
            address: format!("{name}{epoch}"),
            token: token(epoch),
        }
    }

    fn leading(names: &[&str]) -> ElectionMachine {
        let mut machine = ElectionMachine::default();
        for name in names {
            machine.step(Event::Register(component(name)));
        }
        machine.step(Event::Granted(token(1)));
        machine
    }

    #[test]
    fn the_driver_starts_with_the_first_and_stops_with_the_last_contender() {
        let mut machine = ElectionMachine::default();
        let [a, b] = ["a", "b"].map(component);
        assert_eq!(
            machine.step(Event::Register(a.clone())),
            [Action::StartDriver]
        );
        assert_eq!(machine.step(Event::Register(b.clone())), []);
        assert_eq!(
            machine.step(Event::Register(b.clone())),
            [Action::RefuseTaken(b.clone())]
        );
        assert_eq!(machine.step(Event::Deregister(a.clone())), []);
        assert_eq!(machine.step(Event::Deregister(a)), []);
        assert_eq!(machine.step(Event::Deregister(b)), [Action::StopDriver]);
    }

    #[test]
    fn all_components_are_granted_and_a_later_one_at_once() {
        let mut machine = ElectionMachine::default();
        let [a, b] = ["a", "b"].map(component);
        machine.step(Event::Register(a.clone()));
        assert_eq!(
            machine.step(Event::Granted(token(1))),
            [Action::Grant(a, token(1))]
        );
        assert_eq!(
            machine.step(Event::Register(b.clone())),
            [Action::Grant(b, token(1))]
        );
    }

    #[test]
    fn a_confirmation_counts_only_under_the_present_leadership() {
        let mut machine = leading(&["a"]);
        assert_eq!(machine.step(confirm("a", 2)), []);
        assert_eq!(machine.step(confirm("b", 1)), [], "not registered");
        let publish = Action::Publish(component("a"), information("a", 1));
        assert_eq!(machine.step(confirm("a", 1)), [publish]);
        machine.step(Event::Lost(token(1)));
        assert_eq!(machine.step(confirm("a", 1)), []);
        machine.step(Event::Granted(token(2)));
        assert_eq!(machine.step(confirm("a", 1)), []);
    }

    #[test]
    fn a_loss_is_told_once_and_a_late_one_not_at_all() {
        let mut machine = leading(&["a"]);
        assert_eq!(machine.step(Event::Lost(token(9))), []);
        assert_eq!(
            machine.step(Event::Lost(token(1))),
            [Action::Revoke(component("a"))]
        );
        assert_eq!(machine.step(Event::Lost(token(1))), []);
    }

    #[test]
    fn a_new_grant_without_a_loss_revokes_first() {
        let mut machine = leading(&["a"]);
        let expected = [
            Action::Revoke(component("a")),
            Action::Grant(component("a"), token(2)),
        ];
        assert_eq!(machine.step(Event::Granted(token(2))), expected);
    }

    #[test]
    fn foreign_information_is_repaired_but_never_by_publishing_nobody() {
        let mut machine = leading(&["a"]);
        let a = component("a");
        assert_eq!(machine.step(Event::InformationChanged(a.clone(), None)), []);
        machine.step(confirm("a", 1));
        let repair = [Action::Publish(a.clone(), information("a", 1))];
        assert_eq!(
            machine.step(Event::InformationChanged(a.clone(), None)),
            repair
        );
        let foreign = Some(information("x", 1));
        assert_eq!(
            machine.step(Event::InformationChanged(a.clone(), foreign)),
            repair
        );
        let own = Some(information("a", 1));
        assert_eq!(machine.step(Event::InformationChanged(a.clone(), own)), []);
        machine.step(Event::Lost(token(1)));
        assert_eq!(machine.step(Event::InformationChanged(a, None)), []);
    }

    #[test]
    fn closing_as_leader_drains_before_it_releases() {
        let mut machine = leading(&["a"]);
        machine.step(confirm("a", 1));
        let a = component("a");
        let expected = [
            Action::RevokeAndDrain(a.clone()),
            Action::Withdraw(a.clone()),
            Action::StopDriver,
        ];
        assert_eq!(machine.step(Event::Deregister(a)), expected);
        assert_eq!(
            machine.step(Event::Granted(token(2))),
            [],
            "a grant after the close"
        );
    }

    #[test]
    fn a_hundred_rounds_in_one_process() {
        let mut machine = leading(&["a"]);
        for epoch in 2..102 {
            assert_eq!(machine.step(Event::Lost(token(epoch - 1))).len(), 1);
            assert_eq!(machine.step(Event::Granted(token(epoch))).len(), 1);
            assert_eq!(machine.step(confirm("a", epoch)).len(), 1);
        }
    }
}
