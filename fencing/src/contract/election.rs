//! What every election driver must do, seen through the service and the retrieval.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElection,
    LeaderElectionDriverFactory, LeaderElectionOptions, LeaderElectionService, Leadership,
};
use crate::retrieval::{LeaderRetrievalDriverFactory, LeaderRetrievalService};

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);

/// A coordination store under test.
pub trait ElectionStore {
    /// Its driver.
    type Factory: LeaderElectionDriverFactory + LeaderRetrievalDriverFactory + Clone;

    /// A driver for one more process on the same store.
    fn factory(&self) -> Self::Factory;

    /// Takes leadership away from whoever has it, in the store, behind the holder's back.
    fn depose_leader(&self) -> impl Future<Output = ()> + Send;

    /// Erases what the leader of a component has published, behind its back.
    fn erase_information(&self, component: &ComponentId) -> impl Future<Output = ()> + Send;
}

/// Runs them all on stores that `make` makes, each used by one test.
pub async fn all<S: ElectionStore>(make: impl Fn() -> S) {
    one_leads_and_tokens_grow(&make()).await;
    a_confirmed_leader_is_found(&make()).await;
    erased_information_is_published_anew(&make()).await;
    a_loss_is_seen_before_another_is_granted(&make()).await;
    a_confirmation_after_a_loss_is_ignored(&make()).await;
    components_share_one_leadership(&make()).await;
    work_is_drained_before_release(&make()).await;
    closing_inside_a_grant_does_not_hang(&make()).await;
    registering_inside_a_revoke_does_not_hang(&make()).await;
    renewals_do_not_need_the_contenders_thread(&make()).await;
    a_hundred_rounds_in_one_process(&make()).await;
}

/// What a contender was told.
#[derive(Debug)]
enum Told {
    Granted(Leadership),
    Revoked,
}

struct Recorder {
    told: mpsc::UnboundedSender<Told>,
}

impl LeaderContender for Recorder {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let _ = self.told.send(Told::Granted(leadership));
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        let _ = self.told.send(Told::Revoked);
        Box::pin(async {})
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        tracing::debug!(%error, "told to a contender under test");
        Box::pin(async {})
    }
}

/// A process that contends for one component.
struct Process {
    service: LeaderElectionService,
    election: LeaderElection,
    told: mpsc::UnboundedReceiver<Told>,
}

impl Process {
    async fn start(store: &impl ElectionStore) -> Self {
        let options = LeaderElectionOptions::default();
        let service = LeaderElectionService::start(store.factory(), options).unwrap();
        let election = service.election(component());
        let (sender, told) = mpsc::unbounded_channel();
        election.start(Recorder { told: sender }).await.unwrap();
        Process {
            service,
            election,
            told,
        }
    }

    async fn granted(&mut self) -> Leadership {
        match limited("a grant", self.told.recv()).await {
            Some(Told::Granted(leadership)) => leadership,
            other => panic!("a grant was expected, told was {other:?}"),
        }
    }

    async fn revoked(&mut self) {
        match limited("a revoke", self.told.recv()).await {
            Some(Told::Revoked) => {}
            other => panic!("a revoke was expected, told was {other:?}"),
        }
    }

    async fn close(self) {
        limited("the close", self.service.close()).await;
    }
}

fn component() -> ComponentId {
    ComponentId::new("contract").unwrap()
}

async fn limited<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(result) => result,
        Err(_) => panic!("{what} did not come within {LIMIT:?}"),
    }
}

/// Of several candidates one leads; when it leaves, another does, with a token above.
pub async fn one_leads_and_tokens_grow(store: &impl ElectionStore) {
    let mut leader = Process::start(store).await;
    let mut leadership = leader.granted().await;
    let mut standby = Process::start(store).await;
    for _ in 0..5 {
        assert!(leader.election.has_leadership(leadership.token.session));
        assert!(standby.told.try_recv().is_err(), "two were granted");
        leader.close().await;
        assert!(
            leadership.deadline.check().is_err(),
            "a closed leader may still act"
        );
        let next = standby.granted().await;
        assert_eq!(next.token.lineage, leadership.token.lineage);
        assert!(
            next.token.epoch > leadership.token.epoch,
            "{next:?} after {leadership:?}"
        );
        assert_ne!(next.token.session, leadership.token.session);
        (leader, leadership) = (standby, next);
        standby = Process::start(store).await;
    }
    leader.close().await;
    standby.close().await;
}

/// Retrievals show the leader that has confirmed, nobody after it left, then the next one.
pub async fn a_confirmed_leader_is_found(store: &impl ElectionStore) {
    let retrieval = LeaderRetrievalService::new(store.factory());
    let mut found = retrieval.retrieve(component()).unwrap();
    let mut leader = Process::start(store).await;
    let first = leader.granted().await;
    assert_eq!(found.current(), None, "granted is not confirmed");
    leader
        .election
        .confirm(first.token.session, "first")
        .await
        .unwrap();
    let shown = limited("the leader's information", found.leader())
        .await
        .unwrap();
    assert_eq!(
        (shown.address.as_str(), shown.token),
        ("first", first.token)
    );
    // One that comes later finds it too.
    let mut late = retrieval.retrieve(component()).unwrap();
    assert_eq!(
        limited("the information", late.leader()).await.unwrap(),
        shown
    );
    let mut watch = found.watch();
    leader.close().await;
    limited("that nobody leads", watch.wait_for(Option::is_none))
        .await
        .unwrap();
    let mut next = Process::start(store).await;
    let second = next.granted().await;
    next.election
        .confirm(second.token.session, "second")
        .await
        .unwrap();
    let shown = limited("the next leader", found.leader_other_than(&shown))
        .await
        .unwrap();
    assert_eq!(
        (shown.address.as_str(), shown.token),
        ("second", second.token)
    );
    next.close().await;
}

/// What somebody erases is there again by itself (while the same leader leads).
pub async fn erased_information_is_published_anew(store: &impl ElectionStore) {
    let mut leader = Process::start(store).await;
    let leadership = leader.granted().await;
    leader
        .election
        .confirm(leadership.token.session, "here")
        .await
        .unwrap();
    let retrieval = LeaderRetrievalService::new(store.factory());
    let shown = retrieval
        .retrieve(component())
        .unwrap()
        .leader()
        .await
        .unwrap();
    for _ in 0..3 {
        store.erase_information(&component()).await;
        let mut found = retrieval.retrieve(component()).unwrap();
        assert_eq!(
            limited("the leader's information", found.leader())
                .await
                .unwrap(),
            shown
        );
    }
    leader.close().await;
}

/// When another one is granted, the former leader's own deadline has passed.
pub async fn a_loss_is_seen_before_another_is_granted(store: &impl ElectionStore) {
    let mut old = Process::start(store).await;
    let first = old.granted().await;
    let mut new = Process::start(store).await;
    store.depose_leader().await;
    old.revoked().await;
    assert!(
        first.deadline.check().is_err(),
        "revoked, and may still act"
    );
    assert!(!old.election.has_leadership(first.token.session));
    // Either may be next; both tokens are above.
    let next = limited("the next grant", async {
        tokio::select! { told = old.told.recv() => told, told = new.told.recv() => told }
    });
    let Some(Told::Granted(next)) = next.await else {
        panic!("no grant")
    };
    assert!(next.token.epoch > first.token.epoch);
    assert!(first.deadline.check().is_err());
    old.close().await;
    new.close().await;
}

/// Who confirms a leadership that is over is not shown as the leader.
pub async fn a_confirmation_after_a_loss_is_ignored(store: &impl ElectionStore) {
    let mut process = Process::start(store).await;
    let first = process.granted().await;
    store.depose_leader().await;
    process.revoked().await;
    process
        .election
        .confirm(first.token.session, "stale")
        .await
        .unwrap();
    let second = process.granted().await;
    process
        .election
        .confirm(first.token.session, "stale")
        .await
        .unwrap();
    process
        .election
        .confirm(second.token.session, "present")
        .await
        .unwrap();
    let mut found = LeaderRetrievalService::new(store.factory())
        .retrieve(component())
        .unwrap();
    let shown = limited("the leader's information", found.leader())
        .await
        .unwrap();
    assert_eq!(
        (shown.address.as_str(), shown.token),
        ("present", second.token)
    );
    process.close().await;
}

/// One token for all components of a process; an id is taken once.
pub async fn components_share_one_leadership(store: &impl ElectionStore) {
    let mut process = Process::start(store).await;
    let first = process.granted().await;
    let other = process.service.election(ComponentId::new("other").unwrap());
    let (sender, mut told) = mpsc::unbounded_channel();
    other
        .start(Recorder {
            told: sender.clone(),
        })
        .await
        .unwrap();
    let Some(Told::Granted(second)) = limited("a grant", told.recv()).await else {
        panic!("no grant")
    };
    assert_eq!(first.token, second.token);
    let taken = other.start(Recorder { told: sender }).await.unwrap_err();
    assert!(
        matches!(taken, ElectionError::ComponentTaken { .. }),
        "{taken}"
    );
    limited("the close", other.close()).await;
    assert!(
        process.election.has_leadership(first.token.session),
        "one component has left"
    );
    let closed = process.service.clone();
    process.close().await;
    let (sender, _told) = mpsc::unbounded_channel();
    let refused = closed
        .election(component())
        .start(Recorder { told: sender })
        .await;
    assert!(matches!(refused, Err(ElectionError::Closed)), "{refused:?}");
}

/// A contender whose revoke takes until it is let go.
struct Draining {
    inner: Recorder,
    drained: Option<tokio::sync::oneshot::Receiver<()>>,
}

impl LeaderContender for Draining {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        self.inner.grant_leadership(leadership)
    }

    fn revoke_leadership(&mut self) -> Callback {
        let told = self.inner.revoke_leadership();
        let drained = self.drained.take();
        Box::pin(async move {
            told.await;
            if let Some(drained) = drained {
                let _ = drained.await;
            }
        })
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        self.inner.handle_error(error)
    }
}

/// A leader that leaves in peace keeps the others waiting until its contender has drained.
pub async fn work_is_drained_before_release(store: &impl ElectionStore) {
    let options = LeaderElectionOptions::default().with_revoke_timeout(LIMIT);
    let service = LeaderElectionService::start(store.factory(), options).unwrap();
    let election = service.election(component());
    let (sender, mut told) = mpsc::unbounded_channel();
    let (let_go, drained) = tokio::sync::oneshot::channel();
    let contender = Draining {
        inner: Recorder { told: sender },
        drained: Some(drained),
    };
    election.start(contender).await.unwrap();
    let granted = limited("a grant", told.recv()).await;
    assert!(matches!(granted, Some(Told::Granted(_))), "{granted:?}");
    let mut standby = Process::start(store).await;
    let closing = tokio::spawn(service.close());
    let revoked = limited("a revoke", told.recv()).await;
    assert!(matches!(revoked, Some(Told::Revoked)), "{revoked:?}");
    assert!(
        standby.told.try_recv().is_err(),
        "granted while the other one drains"
    );
    let_go.send(()).unwrap();
    standby.granted().await;
    limited("the close", closing).await.unwrap();
    standby.close().await;
}

/// A contender that closes its election inside of the grant.
struct Quitter {
    election: LeaderElection,
    told: mpsc::UnboundedSender<Told>,
}

impl LeaderContender for Quitter {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let (election, told) = (self.election.clone(), self.told.clone());
        Box::pin(async move {
            let _ = election.confirm(leadership.token.session, "quitter").await;
            let _ = told.send(Told::Granted(leadership));
            election.close().await;
        })
    }

    fn revoke_leadership(&mut self) -> Callback {
        let _ = self.told.send(Told::Revoked);
        Box::pin(async {})
    }

    fn handle_error(&mut self, _: ElectionError) -> Callback {
        Box::pin(async {})
    }
}

/// Confirming and closing inside of a grant does not dead-lock, and another can lead then.
pub async fn closing_inside_a_grant_does_not_hang(store: &impl ElectionStore) {
    let options = LeaderElectionOptions::default().with_revoke_timeout(Duration::from_millis(50));
    let service = LeaderElectionService::start(store.factory(), options).unwrap();
    let election = service.election(component());
    let (told, mut heard) = mpsc::unbounded_channel();
    election
        .start(Quitter {
            election: election.clone(),
            told,
        })
        .await
        .unwrap();
    let granted = limited("a grant", heard.recv()).await;
    assert!(matches!(granted, Some(Told::Granted(_))), "{granted:?}");
    let mut next = Process::start(store).await;
    next.granted().await;
    next.close().await;
    limited("the close", service.close()).await;
}

/// A contender that lets another component contend inside of its first revoke.
struct Successor {
    election: LeaderElection,
    next: Option<Recorder>,
    told: mpsc::UnboundedSender<Told>,
}

impl LeaderContender for Successor {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let _ = self.told.send(Told::Granted(leadership));
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        let (election, told) = (self.election.clone(), self.told.clone());
        let next = self.next.take();
        Box::pin(async move {
            if let Some(next) = next {
                election.start(next).await.unwrap();
            }
            let _ = told.send(Told::Revoked);
        })
    }

    fn handle_error(&mut self, _: ElectionError) -> Callback {
        Box::pin(async {})
    }
}

/// A component that is registered inside of another one's revoke is granted as all are (FLINK-34672).
pub async fn registering_inside_a_revoke_does_not_hang(store: &impl ElectionStore) {
    let options = LeaderElectionOptions::default();
    let service = LeaderElectionService::start(store.factory(), options).unwrap();
    let (told, mut heard) = mpsc::unbounded_channel();
    let (sender, mut next) = mpsc::unbounded_channel();
    let contender = Successor {
        election: service.election(ComponentId::new("successor").unwrap()),
        next: Some(Recorder { told: sender }),
        told,
    };
    service
        .election(component())
        .start(contender)
        .await
        .unwrap();
    let granted = limited("a grant", heard.recv()).await;
    assert!(matches!(granted, Some(Told::Granted(_))), "{granted:?}");
    store.depose_leader().await;
    let revoked = limited("a revoke", heard.recv()).await;
    assert!(matches!(revoked, Some(Told::Revoked)), "{revoked:?}");
    for told in [&mut heard, &mut next] {
        let granted = limited("a grant", told.recv()).await;
        assert!(matches!(granted, Some(Told::Granted(_))), "{granted:?}");
    }
    limited("the close", service.close()).await;
}

/// A leadership is renewed also while the thread of its contender is blocked: a coordination client on
/// that thread would lose its session.
pub async fn renewals_do_not_need_the_contenders_thread(store: &impl ElectionStore) {
    const UNLIMITED: Duration = Duration::from_secs(1_000_000);
    let mut leader = Process::start(store).await;
    let deadline = leader.granted().await.deadline;
    let began = std::time::Instant::now();
    let (mut renewals, mut left) = (0, deadline.remaining());
    // Without an await: nothing else runs on this thread.
    while renewals < 3 && left < UNLIMITED {
        assert!(
            began.elapsed() < LIMIT,
            "{renewals} renewals within {LIMIT:?}"
        );
        std::thread::yield_now();
        let now = deadline.remaining();
        renewals += u32::from(now > left);
        left = now;
    }
    leader.close().await;
}

/// A process that lost leadership can have it again, with a new token each time (FLINK-23240).
pub async fn a_hundred_rounds_in_one_process(store: &impl ElectionStore) {
    let options = LeaderElectionOptions::default();
    let service = LeaderElectionService::start(store.factory(), options).unwrap();
    let election = service.election(component());
    let mut last = 0;
    for round in 0..100 {
        let (sender, told) = mpsc::unbounded_channel();
        election.start(Recorder { told: sender }).await.unwrap();
        let mut process = Process {
            service: service.clone(),
            election: election.clone(),
            told,
        };
        let leadership = process.granted().await;
        assert!(leadership.token.epoch > last, "round {round}");
        last = leadership.token.epoch;
        limited("the close", election.close()).await;
        process.revoked().await;
        assert!(!election.has_leadership(leadership.token.session));
    }
    limited("the close", service.close()).await;
}
