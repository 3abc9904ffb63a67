//! Election between the services of one process: a queue in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::token::{FencingToken, Lineage};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::clock::{LocalDeadline, SystemClock};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderElectionDriverFactory,
    LeaderInformation, Leadership,
};
use crate::retrieval::{LeaderRetrievalDriverFactory, show};

/// An election in memory. Clones take part in the same one: the candidate that came first leads,
/// until it is closed or [deposed](Self::depose_leader).
#[derive(Clone, Debug)]
pub struct InProcessElection {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    lineage: Lineage,
    epoch: u64,
    next_candidate: u64,
    leading: Option<Leadership>,
    queue: VecDeque<(u64, DriverListener)>,
    shown: BTreeMap<ComponentId, watch::Sender<Option<LeaderInformation>>>,
}

impl InProcessElection {
    /// An election without candidates, of a lineage of its own.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            lineage: Lineage::from(Uuid::new_v4()),
            epoch: 0,
            next_candidate: 0,
            leading: None,
            queue: VecDeque::new(),
            shown: BTreeMap::new(),
        };
        InProcessElection {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Takes leadership from the one who has it; that candidate queues up again behind the
    /// others. Returns whether there was a leader.
    pub fn depose_leader(&self) -> bool {
        let mut state = self.state();
        let Some(former) = state.queue.pop_front() else {
            return false;
        };
        state.revoke(&former.1);
        state.queue.push_back(former);
        state.grant();
        true
    }

    /// Erases what the leader of a component has published, as somebody might do in a store; the
    /// leader publishes it anew.
    pub fn erase_information(&self, component: &ComponentId) {
        let state = self.state();
        if let Some(leader) = state.shown.get(component) {
            show(leader, None);
        }
        if let Some((_, listener)) = state.queue.front() {
            listener.information_changed(component.clone(), None);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for InProcessElection {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn grant(&mut self) {
        let Some((_, listener)) = self.queue.front() else {
            return;
        };
        self.epoch += 1;
        let token = FencingToken::new(self.lineage, self.epoch, Uuid::new_v4());
        let deadline = LocalDeadline::unlimited(Arc::new(SystemClock));
        let leadership = Leadership { token, deadline };
        self.leading = Some(leadership.clone());
        listener.granted(leadership);
    }

    fn revoke(&mut self, listener: &DriverListener) {
        let Some(former) = self.leading.take() else {
            return;
        };
        former.deadline.end();
        listener.lost(former.token);
        self.shown.values().for_each(|leader| show(leader, None));
    }

    fn leaves(&mut self, candidate: u64) {
        let led = self
            .queue
            .front()
            .is_some_and(|(first, _)| *first == candidate);
        let Some(at) = self.queue.iter().position(|(other, _)| *other == candidate) else {
            return;
        };
        if let Some((_, listener)) = self.queue.remove(at)
            && led
        {
            self.revoke(&listener);
            self.grant();
        }
    }
}

impl LeaderElectionDriverFactory for InProcessElection {
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
        let mut state = self.state();
        state.next_candidate += 1;
        let candidate = state.next_candidate;
        state.queue.push_back((candidate, listener));
        if state.queue.len() == 1 {
            state.grant();
        }
        Ok(Box::new(Candidate {
            election: self.clone(),
            candidate,
        }))
    }
}

#[derive(Debug)]
struct Candidate {
    election: InProcessElection,
    candidate: u64,
}

impl LeaderElectionDriver for Candidate {
    fn publish(&mut self, component: &ComponentId, information: &LeaderInformation) {
        let mut state = self.election.state();
        let leads = state
            .leading
            .as_ref()
            .is_some_and(|now| now.token == information.token);
        if leads {
            let leader = state.shown.entry(component.clone()).or_default();
            show(leader, Some(information.clone()));
        }
    }

    fn withdraw(&mut self, component: &ComponentId) {
        let state = self.election.state();
        let leads = state
            .queue
            .front()
            .is_some_and(|(first, _)| *first == self.candidate);
        if let Some(leader) = state.shown.get(component).filter(|_| leads) {
            show(leader, None);
        }
    }

    fn close(&mut self) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        self.election.state().leaves(self.candidate);
        let _ = done.send(());
        closed
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.election.state().leaves(self.candidate);
    }
}

impl LeaderRetrievalDriverFactory for InProcessElection {
    fn retrieve(
        &self,
        component: ComponentId,
        leader: watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError> {
        let mut known = self.state().shown.entry(component).or_default().subscribe();
        let follow = async move {
            loop {
                let found = known.borrow_and_update().clone();
                show(&leader, found);
                tokio::select! {
                    changed = known.changed() => if changed.is_err() { return },
                    () = leader.closed() => return,
                }
            }
        };
        crate::driver::on_own_thread("lockkeeper-retrieval", follow)
    }
}
