//! What an operator can do to a running region by its admin endpoint.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_consistent_region::admin::{
    AdminRefused, ForgetSavepoint, GetRegion, PauseSources, RegionAdmin, RegionAdminGateway,
    ResetRegion, RestoreSavepoint, ResumeSources, StopRegion, TakeCut, TakeSavepoint,
};
use lockkeeper_consistent_region::coordinator::{
    CommandRefused, CoordinatorHandle, RegionCoordinator, RegionEvent, RegionState,
};
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::store::MemoryStore;
use lockkeeper_consistent_region::worker::WorkerHandle;
use lockkeeper_core::{Gateway, RpcService};
use tokio::time::timeout;

use crate::numbers::Upstream;
use crate::place::{LIMIT, NUMBERS, Place, event};

/// A region that waits for more numbers, and takes cuts only when it is asked.
struct Running {
    _place: Place,
    coordinator: CoordinatorHandle,
    _worker: WorkerHandle,
    service: RpcService,
    gateway: Gateway<RegionAdminGateway>,
    told: Arc<AtomicBool>,
}

impl Running {
    async fn start() -> Self {
        let mut place = Place::of(&Upstream::new(NUMBERS, 1_000));
        place.period = None;
        place.lease = LIMIT;
        let coordinator = place.coordinator();
        let worker = place.worker(&coordinator);
        // as calls of another process would pass
        let service = RpcService::builder().force_serialization(true);
        let service = service.default_timeout(LIMIT).build().unwrap();
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let admin = RegionAdmin::new(coordinator.clone())
            .before_stop(move || tell.store(true, Ordering::SeqCst))
            .serve(&service)
            .await
            .unwrap();
        let gateway = service.connect(&admin.address()).await.unwrap();
        assert!(coordinator.reached(RegionState::Processing).await);
        Self {
            _place: place,
            coordinator,
            _worker: worker,
            service,
            gateway,
            told,
        }
    }
}

/// The answer, or a hang.
async fn done<T>(call: impl IntoFuture<Output = T>) -> T {
    let call = timeout(LIMIT, call.into_future());
    call.await.expect("the command is answered in time")
}

#[actix::test]
async fn a_cut_is_answered_when_it_is_complete_and_is_one_that_began_afterwards() {
    let running = Running::start().await;
    let report = done(running.gateway.send(GetRegion)).await.unwrap();
    assert!(report.leads);
    assert_eq!(report.status.state, RegionState::Processing);
    let first = done(running.gateway.send(TakeCut)).await.unwrap().unwrap();
    let second = done(running.gateway.send(TakeCut)).await.unwrap().unwrap();
    assert!(first.seq > report.status.completed, "{first:?}, {report:?}");
    assert!(second.seq > first.seq, "{first:?}, {second:?}");
    assert!(second.pause <= second.took);
    assert_eq!(running.coordinator.status().completed, second.seq);
}

#[actix::test]
async fn a_reset_is_answered_when_the_operators_go_on() {
    let running = Running::start().await;
    let cut = done(running.gateway.send(TakeCut)).await.unwrap().unwrap();
    let before = running.coordinator.status().attempt;
    let reset = ResetRegion {
        force: false,
        reason: "an operator wanted it".to_owned(),
    };
    let reset = done(running.gateway.send(reset)).await.unwrap().unwrap();
    assert_eq!((reset.attempt, reset.restored), (before + 1, cut.seq));
    assert_eq!(running.coordinator.status().attempt, before + 1);
}

#[actix::test]
async fn sources_are_paused_and_resumed_and_a_second_time_is_no_error() {
    let running = Running::start().await;
    let since = || running.coordinator.status().sources_paused_since_unix_ms;
    let mut events = running.coordinator.events();
    for _ in 0..2 {
        let paused = done(running.gateway.send(PauseSources)).await.unwrap();
        assert_eq!(paused, Ok(()));
    }
    event(&mut events, |event| *event == RegionEvent::SourcesPaused).await;
    let began = since().expect("it is paused");
    // cuts go on
    let cut = done(running.gateway.send(TakeCut)).await.unwrap();
    assert!(cut.is_ok(), "{cut:?}");
    let report = done(running.gateway.send(GetRegion)).await.unwrap();
    assert_eq!(report.status.sources_paused_since_unix_ms, Some(began));
    for _ in 0..2 {
        let resumed = done(running.gateway.send(ResumeSources)).await.unwrap();
        assert_eq!(resumed, Ok(()));
    }
    event(&mut events, |event| *event == RegionEvent::SourcesResumed).await;
    assert_eq!(since(), None);
}

#[actix::test]
async fn a_savepoint_is_kept_restored_and_forgotten() {
    let running = Running::start().await;
    let take = |name: &str| TakeSavepoint {
        name: name.to_owned(),
    };
    let kept = done(running.gateway.send(take("before-upgrade"))).await;
    let kept = kept.unwrap().unwrap();
    assert_eq!(kept.name, "before-upgrade");
    let taken = done(running.gateway.send(take("before-upgrade"))).await;
    let taken = taken.unwrap().unwrap_err();
    assert!(
        matches!(taken, AdminRefused::Command(CommandRefused::NameTaken { ref name }) if *name == kept.name),
        "{taken:?}"
    );
    let restore = |name: &str| RestoreSavepoint {
        name: name.to_owned(),
    };
    let restored = done(running.gateway.send(restore("before-upgrade"))).await;
    assert_eq!(restored.unwrap().unwrap().restored, kept.seq);
    let forget = ForgetSavepoint {
        name: kept.name.clone(),
    };
    assert_eq!(done(running.gateway.send(forget)).await.unwrap(), Ok(()));
    let missing = done(running.gateway.send(restore("before-upgrade"))).await;
    let missing = missing.unwrap().unwrap_err();
    assert!(
        matches!(
            missing,
            AdminRefused::Command(CommandRefused::NoSavepoint { .. })
        ),
        "{missing:?}"
    );
}

#[actix::test]
async fn a_stop_is_answered_with_the_final_cut_although_the_service_ends_at_once() {
    let running = Running::start().await;
    let cut = done(running.gateway.send(TakeCut)).await.unwrap().unwrap();
    let mut events = running.coordinator.events();
    let gateway = running.gateway.clone();
    let stop = StopRegion { savepoint: None };
    let stopping = actix::spawn(async move { gateway.send(stop).await });
    let is_end = |event: &RegionEvent| matches!(event, RegionEvent::Completed { .. });
    event(&mut events, is_end).await;
    // as a program does that has nothing left to do
    done(running.service.terminate()).await.unwrap();
    let ended = done(stopping).await.unwrap().unwrap().unwrap();
    assert!(ended.seq > cut.seq, "{ended:?}, {cut:?}");
    assert!(
        running.told.load(Ordering::SeqCst),
        "the program was told before"
    );
}

#[actix::test]
async fn a_stop_with_a_savepoint_keeps_the_final_cut() {
    let running = Running::start().await;
    let stop = StopRegion {
        savepoint: Some("the-end".to_owned()),
    };
    let ended = done(running.gateway.send(stop)).await.unwrap().unwrap();
    assert_eq!(running.coordinator.status().completed, ended.seq);
    let late = done(running.gateway.send(TakeCut)).await.unwrap();
    assert_eq!(late, Err(AdminRefused::Command(CommandRefused::Ended)));
}

#[actix::test]
async fn a_coordinator_that_ends_answers_those_who_wait() {
    let place = Place::of(&Upstream::new(NUMBERS, 0));
    // no worker: the cut waits for tuples that never flow
    let coordinator = RegionCoordinator::start_local(
        place.settings(),
        Arc::new(MemoryStore::default()),
        Hook::default(),
    )
    .unwrap();
    assert!(coordinator.reached(RegionState::Started).await);
    let service = RpcService::builder()
        .default_timeout(LIMIT)
        .build()
        .unwrap();
    let admin = RegionAdmin::new(coordinator.clone());
    let admin = admin.serve(&service).await.unwrap();
    let gateway = admin.gateway::<RegionAdminGateway>();
    let waiting = gateway.send(TakeCut);
    let (answer, ()) = done(futures_util::future::join(
        waiting.into_future(),
        coordinator.halt(),
    ))
    .await;
    let refused = answer.unwrap().unwrap_err();
    assert!(
        matches!(
            refused,
            AdminRefused::LeadershipLost | AdminRefused::Command(CommandRefused::NotLeading)
        ),
        "{refused:?}"
    );
}
