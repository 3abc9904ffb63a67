//! The coordinator's actor with a store and with workers that answer as told.

mod acknowledged;
mod chains;
mod leftovers;
mod measured;
mod savepoints;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::timeout;
use uuid::Uuid;

use super::{
    CoordinatorHandle, CoordinatorSettings, InstanceShape, RegionCoordinator, RegionEvent,
    RegionState, Shape,
};
use crate::graph::topology::TriggerKind;
use crate::link::CoordinatorLink;
use crate::link::local::WorkerInbox;
use crate::manifest::{CommitToken, ObjectRecord};
use crate::point::{Hook, Point};
use crate::protocol::{
    Heartbeat, InstanceId, Notice, Order, Progress, ProgressEvent, Register, Registered, Stamp,
    Standing,
};
use crate::store::{CheckpointStore, FailingStore, FileStore, MemoryStore, object_name};

fn instance() -> InstanceId {
    InstanceId {
        operator: "source".to_owned(),
        index: 0,
    }
}

fn settings() -> CoordinatorSettings {
    let instances = vec![InstanceShape {
        instance: instance(),
        start: true,
        acknowledges: false,
        labels: Vec::new(),
    }];
    CoordinatorSettings {
        reset_backoff: Duration::from_millis(1),
        ..CoordinatorSettings::new(
            "region",
            Shape {
                fingerprint: 7,
                instances,
                structure: 1,
                trigger: TriggerKind::Periodic,
            },
        )
    }
}

fn start(store: Arc<dyn CheckpointStore>) -> CoordinatorHandle {
    RegionCoordinator::start_local(settings(), store, Hook::default()).unwrap()
}

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(60);

/// The next worker of its name waits for it; a scripted worker has to keep it from one step to the next,
/// however busy the machine is.
const SHORT_LEASE: Duration = Duration::from_secs(4);

/// A worker of which the test decides every step.
struct Scripted {
    link: Arc<dyn CoordinatorLink>,
    inbox: WorkerInbox,
    register: Register,
    store: Arc<dyn CheckpointStore>,
    registered: Registered,
    taken: u64,
    can_take_back: bool,
}

impl Scripted {
    async fn join(handle: &CoordinatorHandle, store: Arc<dyn CheckpointStore>) -> Self {
        let (link, inbox) = handle.way().connect();
        Self::join_by(Arc::new(link), inbox, String::new(), store).await
    }

    async fn join_by(
        link: Arc<dyn CoordinatorLink>,
        inbox: WorkerInbox,
        address: String,
        store: Arc<dyn CheckpointStore>,
    ) -> Self {
        let register = Register {
            region: "region".to_owned(),
            worker: "w".to_owned(),
            incarnation: Uuid::new_v4(),
            address,
            slots: 1,
            labels: Vec::new(),
            graph: 7,
            attempt: 0,
            standing: None,
            process: None,
        };
        let registered = Registered {
            term: 0,
            worker_epoch: 0,
            lease: Duration::ZERO,
            sources_paused: false,
        };
        let mut worker = Self {
            link,
            inbox,
            register,
            store,
            registered,
            taken: 0,
            can_take_back: true,
        };
        worker.register(None).await;
        worker
    }

    /// Registers (anew) as soon as somebody leads.
    async fn register(&mut self, standing: Option<Standing>) {
        self.register.standing = standing;
        self.taken = 0;
        self.registered = loop {
            self.register.attempt += 1;
            if let Ok(registered) = self.link.register(self.register.clone()).await {
                break registered;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
    }

    async fn next(&mut self) -> Notice {
        loop {
            let next = timeout(LIMIT, self.inbox.next()).await;
            let notice = next.expect("the coordinator orders nothing").unwrap();
            let mine = notice.worker_epoch == self.registered.worker_epoch;
            if mine && notice.number == self.taken + 1 {
                self.taken += 1;
                let (worker_epoch, acknowledged) = (self.registered.worker_epoch, self.taken);
                let worker = "w".to_owned();
                let heartbeat = Heartbeat {
                    worker,
                    worker_epoch,
                    acknowledged,
                };
                self.link.heartbeat(heartbeat).await.unwrap();
                return notice;
            }
        }
    }

    async fn say(&self, stamp: Stamp, event: ProgressEvent) {
        let (worker, worker_epoch) = ("w".to_owned(), self.registered.worker_epoch);
        self.link
            .progress(Progress {
                worker,
                worker_epoch,
                stamp,
                event,
            })
            .await
            .unwrap();
    }

    /// Takes the reset and the resume after it; gives the cut that it went back to.
    async fn reset(&mut self) -> u64 {
        let notice = self.next().await;
        let Order::Reset { restore, .. } = notice.order else {
            panic!("{notice:?}")
        };
        self.say(notice.stamp, ProgressEvent::ResetDone).await;
        let resume = self.next().await;
        assert_eq!((resume.stamp, resume.order), (notice.stamp, Order::Resume));
        restore.map_or(0, |restore| restore.seq)
    }

    async fn drain(&mut self) -> Stamp {
        let notice = self.next().await;
        assert!(matches!(notice.order, Order::Drain { .. }), "{notice:?}");
        notice.stamp
    }

    /// Writes its state; says so, or that it failed.
    async fn checkpoint(&mut self, stamp: Stamp) -> bool {
        let object = object_name(stamp, &instance());
        let seq = stamp.seq;
        let content = format!("state at {seq}");
        let written = self
            .store
            .write_object(&object, &mut |writer| writer.write_all(content.as_bytes()));
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                let reason = error.to_string();
                let event = ProgressEvent::Failed {
                    instance: None,
                    reason,
                    permanent: false,
                };
                self.say(stamp, event).await;
                return false;
            }
        };
        self.write_done(stamp, object, written).await;
        true
    }

    async fn write_done(&self, stamp: Stamp, object: String, written: crate::store::Written) {
        let seq = stamp.seq;
        let objects = vec![ObjectRecord {
            instance: instance(),
            object,
            length: written.length,
            crc32: written.crc32,
            state_type: "text".to_owned(),
            state_version: 1,
            encoding: crate::store::Encoding::Plain,
            base: Vec::new(),
        }];
        let (instance, token, can_take_back) = (instance(), vec![1], self.can_take_back);
        let tokens = vec![CommitToken {
            instance,
            seq,
            token,
            can_take_back,
        }];
        let timings = Vec::new();
        self.say(
            stamp,
            ProgressEvent::CheckpointDone {
                objects,
                tokens,
                timings,
            },
        )
        .await;
    }

    /// A whole cut that completes: gives the oldest cut that is kept.
    async fn cut(&mut self, handle: &CoordinatorHandle) -> (u64, u64) {
        handle.cut().await.unwrap();
        let stamp = self.drain().await;
        assert!(self.checkpoint(stamp).await);
        assert_eq!(self.next().await.order, Order::Resume);
        let notice = self.next().await;
        let Order::Checkpointed {
            seq,
            oldest_retained,
        } = notice.order
        else {
            panic!("{notice:?}")
        };
        assert_eq!(seq, stamp.seq);
        self.say(notice.stamp, ProgressEvent::Committed { seq })
            .await;
        (seq, oldest_retained)
    }
}

async fn wait_for(
    events: &mut broadcast::Receiver<RegionEvent>,
    wanted: impl Fn(&RegionEvent) -> bool,
) -> RegionEvent {
    loop {
        let next = timeout(LIMIT, events.recv()).await;
        let event = next.expect("the event does not come").unwrap();
        if wanted(&event) {
            return event;
        }
    }
}

#[actix::test]
async fn cuts_complete_and_the_oldest_kept_one_lags() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let handle = start(Arc::clone(&store));
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    assert_eq!(worker.reset().await, 0);
    assert_eq!(
        worker.cut(&handle).await,
        (1, 0),
        "the initial state is kept as well"
    );
    assert_eq!(worker.cut(&handle).await, (2, 1));
    assert_eq!(worker.cut(&handle).await, (3, 2));
    assert_eq!(worker.cut(&handle).await, (4, 3));
    // The removal of older ones comes some time after: the next cut waits behind it.
    assert_eq!(worker.cut(&handle).await, (5, 4));
    let mut objects = store.list_objects().unwrap();
    objects.retain(|name| !name.starts_with("5.") && !name.starts_with("4."));
    assert!(
        objects.iter().all(|name| name.starts_with("3.")),
        "{objects:?}"
    );
}

#[actix::test]
async fn a_new_coordinator_restores_what_the_last_one_published() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn CheckpointStore> = Arc::new(FileStore::open(folder.path()).unwrap());
    let settings = CoordinatorSettings {
        lease: SHORT_LEASE,
        lease_margin: Duration::from_millis(10),
        ..settings()
    };
    let start = || {
        let store = Arc::clone(&store);
        RegionCoordinator::start_local(settings.clone(), store, Hook::default()).unwrap()
    };
    let handle = start();
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    worker.reset().await;
    worker.cut(&handle).await;
    worker.cut(&handle).await;
    let first = handle.status();
    handle.halt().await;

    // The claim of the first worker lasts: another process of its name has to wait for it.
    let handle = start();
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    assert_eq!(worker.reset().await, 2);
    let second = handle.status();
    assert!(second.term > first.term);
    assert!(second.seq > first.seq, "numbers are never used again");
}

#[actix::test]
async fn a_damaged_newest_cut_falls_back_to_the_one_before() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let handle = start(Arc::clone(&store) as _);
    let mut events = handle.events();
    let mut worker = Scripted::join(&handle, Arc::clone(&store) as _).await;
    worker.reset().await;
    worker.cut(&handle).await;
    worker.cut(&handle).await;
    for name in store
        .list_objects()
        .unwrap()
        .iter()
        .filter(|name| name.starts_with("2."))
    {
        store.damage(name);
    }
    handle.reset(false, "a test").await.unwrap();
    assert_eq!(worker.reset().await, 1);
    let fell = wait_for(&mut events, |event| {
        matches!(event, RegionEvent::FellBack { .. })
    })
    .await;
    assert!(
        matches!(fell, RegionEvent::FellBack { from: 2, .. }),
        "{fell:?}"
    );
    let (seq, oldest) = worker.cut(&handle).await;
    assert!(seq > 2 && oldest == 1, "{seq} {oldest}");
}

#[actix::test]
async fn what_a_sink_cannot_take_back_is_never_gone_behind() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let handle = start(Arc::clone(&store) as _);
    let mut worker = Scripted::join(&handle, Arc::clone(&store) as _).await;
    worker.can_take_back = false;
    worker.reset().await;
    worker.cut(&handle).await;
    worker.cut(&handle).await;
    for name in store
        .list_objects()
        .unwrap()
        .iter()
        .filter(|name| name.starts_with("2."))
    {
        store.damage(name);
    }
    handle.reset(false, "a test").await.unwrap();
    assert!(handle.reached(RegionState::Failed).await);
    let reason = handle.status().reason.unwrap();
    assert!(reason.contains("cut 2"), "{reason}");
    assert!(handle.cut().await.is_err());
}

#[actix::test]
async fn a_full_store_aborts_the_round_and_the_next_cut_succeeds() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let handle = start(Arc::clone(&store) as _);
    let mut worker = Scripted::join(&handle, Arc::clone(&store) as _).await;
    worker.reset().await;
    worker.cut(&handle).await;
    store.fail_writes(1);
    handle.cut().await.unwrap();
    let stamp = worker.drain().await;
    assert!(!worker.checkpoint(stamp).await);
    assert_eq!(worker.reset().await, 1);
    let (seq, _) = worker.cut(&handle).await;
    assert!(seq > stamp.seq, "an aborted number is never used again");
}

#[actix::test]
async fn a_stopped_region_takes_a_final_cut_and_ends() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let handle = start(Arc::clone(&store));
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    worker.reset().await;
    handle.stop().await.unwrap();
    let notice = worker.next().await;
    assert!(matches!(notice.order, Order::Drain { last: true, .. }));
    worker.checkpoint(notice.stamp).await;
    let notice = worker.next().await;
    assert!(
        matches!(notice.order, Order::Checkpointed { seq: 1, .. }),
        "{notice:?}"
    );
    worker
        .say(notice.stamp, ProgressEvent::Committed { seq: 1 })
        .await;
    assert_eq!(worker.next().await.order, Order::End);
    assert!(handle.reached(RegionState::Completed).await);
    assert!(handle.status().finished);
}

#[actix::test]
async fn an_elected_coordinator_answers_only_while_it_leads() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let elect = |store: &Arc<dyn CheckpointStore>| {
        let store = Arc::clone(store);
        RegionCoordinator::start_elected(settings(), store, Hook::default(), || true).unwrap()
    };
    let (one, other) = (elect(&store), elect(&store));
    assert!(one.cut().await.is_err());
    one.grant(3).await;
    let mut worker = Scripted::join(&one, Arc::clone(&store)).await;
    assert_eq!(worker.registered.term, 3);
    worker.reset().await;
    worker.cut(&one).await;

    // The other one is elected; the first does not know yet, and publishes nothing any more.
    other.grant(4).await;
    assert!(other.reached(RegionState::Started).await);
    one.cut().await.unwrap();
    assert_eq!(
        one.ended().await,
        super::CoordinatorEnd::SteppedDown { highest: 4 }
    );
    assert!(one.cut().await.is_err());
}

#[actix::test]
async fn the_hook_is_told_of_every_point_of_the_coordinator() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hook = Hook::new({
        let seen = Arc::clone(&seen);
        move |point| seen.lock().unwrap().push(point)
    });
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let handle = RegionCoordinator::start_local(settings(), Arc::clone(&store), hook).unwrap();
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    worker.reset().await;
    worker.cut(&handle).await;
    let seen = seen.lock().unwrap().clone();
    for point in [
        Point::BetweenRecordAndMessage,
        Point::BeforeManifest,
        Point::AfterManifest,
    ] {
        assert!(seen.contains(&point), "{point}: {seen:?}");
    }
}

#[cfg(feature = "remote")]
mod elected {
    use lockkeeper_core::RpcService;
    use lockkeeper_fencing::driver::InProcessElection;
    use lockkeeper_fencing::election::{ComponentId, LeaderElectionOptions, LeaderElectionService};
    use lockkeeper_fencing::retrieval::LeaderRetrievalService;
    use lockkeeper_remote::RemoteBuilderExt as _;

    use super::super::ElectedCoordinator;
    use super::*;
    use crate::link::remote::{NoticeEndpoint, RemoteLink};

    async fn service() -> RpcService {
        RpcService::builder()
            .bind("127.0.0.1:0")
            .start()
            .await
            .unwrap()
    }

    async fn contend(
        election: &InProcessElection,
        store: &Arc<dyn CheckpointStore>,
    ) -> (RpcService, ElectedCoordinator) {
        let service = service().await;
        let options = LeaderElectionOptions::default();
        let elections = LeaderElectionService::start(election.clone(), options).unwrap();
        let election = elections.election(component());
        let (store, hook) = (Arc::clone(store), Hook::default());
        let coordinator = ElectedCoordinator::start(settings(), store, hook, &service, election)
            .await
            .unwrap();
        (service, coordinator)
    }

    fn component() -> ComponentId {
        ComponentId::new("region").unwrap()
    }

    #[actix::test]
    async fn workers_in_other_processes_follow_the_leader_and_nothing_is_reset() {
        let election = InProcessElection::new();
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        let (one_service, one) = contend(&election, &store).await;
        let mut led = one.token();
        led.wait_for(Option::is_some).await.unwrap();
        let (other_service, other) = contend(&election, &store).await;

        let worker_service = service().await;
        let (endpoint, inbox) = NoticeEndpoint::new();
        let server = worker_service
            .start_server("worker", endpoint)
            .await
            .unwrap();
        server.start().await.unwrap();
        let retrieval = LeaderRetrievalService::new(election.clone())
            .retrieve(component())
            .unwrap();
        let link = RemoteLink::new(worker_service.clone(), retrieval, Duration::from_secs(2));
        let address = server.address().to_string();
        let mut worker =
            Scripted::join_by(Arc::new(link), inbox, address, Arc::clone(&store)).await;
        worker.reset().await;
        let (seq, _) = worker.cut(one.handle()).await;
        let before = one.handle().status();

        // Another one is elected: the worker says how it stands, and all goes on.
        assert!(election.depose_leader());
        let mut led = other.token();
        led.wait_for(Option::is_some).await.unwrap();
        let standing = Standing {
            stamp: Stamp {
                term: before.term,
                seq: before.seq,
                attempt: before.attempt,
            },
            completed: seq,
            instances: vec![instance()],
            ended: Vec::new(),
            cut_wanted: false,
        };
        worker.register(Some(standing)).await;
        let resume = worker.next().await;
        assert_eq!(resume.order, Order::Resume);
        assert_eq!(
            (resume.stamp.seq, resume.stamp.attempt),
            (before.seq, before.attempt)
        );
        assert!(resume.stamp.term > before.term);
        let (next, _) = worker.cut(other.handle()).await;
        assert_eq!(next, seq + 1);
        assert!(
            one.handle().cut().await.is_err(),
            "the deposed one does nothing"
        );

        for coordinator in [one, other] {
            coordinator.close().await.unwrap();
        }
        for service in [one_service, other_service, worker_service] {
            service.terminate().await.unwrap();
        }
    }
}

#[actix::test]
async fn a_drain_names_the_cut_before_it_although_its_completion_may_not_be_known_yet() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let handle = start(Arc::clone(&store));
    let mut worker = Scripted::join(&handle, Arc::clone(&store)).await;
    worker.reset().await;
    let mut before = 0;
    for _ in 0..3 {
        handle.cut().await.unwrap();
        let notice = loop {
            let notice = worker.next().await;
            if matches!(notice.order, Order::Drain { .. }) {
                break notice;
            }
        };
        let drain = Order::Drain {
            last: false,
            completed: before,
        };
        assert_eq!(notice.order, drain);
        worker.checkpoint(notice.stamp).await;
        before = notice.stamp.seq;
    }
}
