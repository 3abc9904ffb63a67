//! A region whose source keeps its rows in the region's store: parts of it die and go on.

use lockkeeper_canal::testing::CanalServer;
use lockkeeper_consistent_region::coordinator::RegionState;

use crate::canal::{insert, region_with};
use crate::place::{Place, comes_into, cut_completed};

const ROWS: u64 = 12_000;

#[actix::test]
async fn a_region_with_a_spool_counts_everything_once_although_its_parts_die() {
    let server = CanalServer::builder().start().unwrap();
    let address = server.address().to_string();
    let mut place =
        Place::with(|output| region_with(&address, ROWS, output, |config| config.spool = true));
    place.numbers = ROWS;
    for part in 0..3 {
        let coordinator = place.coordinator();
        let mut events = coordinator.events();
        let worker = place.worker(&coordinator);
        comes_into(&mut events, RegionState::Processing).await;
        insert(&server.handle(), ROWS / 4 * part, ROWS / 4 * (part + 1));
        for _ in 0..2 {
            cut_completed(&mut events).await;
        }
        // In the middle of whatever it does.
        worker.stop();
        coordinator.halt().await;
    }
    let coordinator = place.coordinator();
    let mut worker = place.worker(&coordinator);
    insert(&server.handle(), ROWS / 4 * 3, ROWS);
    place.finish(&coordinator, &mut worker).await;
    coordinator.halt().await;
}
