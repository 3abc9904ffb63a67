//! A region whose sources are paused by hand, as a console shows it.

use lockkeeper_canal::testing::CanalServer;
use lockkeeper_consistent_region::coordinator::RegionEvent;
use lockkeeper_consistent_region::worker::WorkerConfig;
use lockkeeper_core::status::StatusRegistry;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::canal::{insert, region};
use crate::numbers::output;
use crate::place::{LIMIT, Place, cut_completed};

const ROWS: u64 = 2_000;

/// The state on the card of the Canal source, if it has one by now.
fn shown(registry: &StatusRegistry) -> Option<String> {
    let mut sources = registry.sources().into_iter();
    let source = sources.find(|source| source.name() == "canal source numbers[0]")?;
    source.snapshot().state.map(|state| state.text)
}

/// Looks after each cut until the card says `state`.
async fn says(
    registry: &StatusRegistry,
    events: &mut broadcast::Receiver<RegionEvent>,
    state: &str,
) {
    let saying = async {
        while shown(registry).as_deref() != Some(state) {
            cut_completed(events).await;
        }
    };
    let said = timeout(LIMIT, saying).await;
    said.unwrap_or_else(|_| panic!("it says {:?}, not {state:?}", shown(registry)));
}

#[actix::test]
async fn the_source_of_a_paused_region_says_that_it_is_paused_and_why() {
    let server = CanalServer::builder().start().unwrap();
    let address = server.address().to_string();
    insert(&server.handle(), 0, ROWS / 2);
    let mut place = Place::with(|output| region(&address, ROWS, output));
    // a worker learns of a pause four times in a lease
    place.lease = std::time::Duration::from_secs(4);
    let coordinator = place.coordinator();
    let mut events = coordinator.events();
    let registry = StatusRegistry::default();
    let config = WorkerConfig {
        status: Some(registry.clone()),
        ..WorkerConfig::new("worker")
    };
    let mut worker = place.worker_as(&coordinator, config);
    says(&registry, &mut events, "streaming").await;

    coordinator.pause_sources().await.unwrap();
    says(&registry, &mut events, "paused: the region's sources are").await;
    insert(&server.handle(), ROWS / 2, ROWS - 100);
    // also of an instance that is reset
    coordinator.reset(false, "the test").await.unwrap();
    says(&registry, &mut events, "paused: the region's sources are").await;

    coordinator.resume_sources().await.unwrap();
    says(&registry, &mut events, "streaming").await;
    insert(&server.handle(), ROWS - 100, ROWS);
    place.wait(&coordinator, &mut worker).await;
    assert_eq!(output(&place.output()).values().sum::<u64>(), ROWS);
}
