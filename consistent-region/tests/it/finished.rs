//! A region that has ended leaves its destination to the next client.

use lockkeeper_canal::testing::CanalServer;
use lockkeeper_consistent_region::store::MemoryStore;

use crate::canal::{insert, region};
use crate::numbers::{KEYS, output};
use crate::place::{LIMIT, Place};

const ROWS: u64 = 4_000;

#[actix::test]
async fn a_job_that_has_ended_leaves_nothing_of_its_last_cut_to_the_next_one() {
    let server = CanalServer::builder().start().unwrap();
    let address = server.address().to_string();
    for job in [1, 2] {
        let (from, to) = (ROWS * (job - 1), ROWS * job);
        insert(&server.handle(), from, to);
        // A store of its own: another job.
        let folder = tempfile::tempdir().unwrap();
        let store = std::sync::Arc::new(MemoryStore::new());
        let mut place = Place::in_store(folder, |output| region(&address, to, output), store);
        // A lease that ends on a busy machine, at the last cut, leaves its rows to the next client.
        place.lease = LIMIT;
        let coordinator = place.coordinator();
        let mut worker = place.worker(&coordinator);
        place.wait(&coordinator, &mut worker).await;
        // When the region has ended, not some time afterwards.
        let statistics = server.handle().statistics();
        assert_eq!(statistics.acked_rows, to, "{statistics:?}");
        let counted: u64 = output(&place.output()).values().sum();
        assert_eq!(counted, ROWS, "job {job} counts another one's rows");
        assert_eq!(output(&place.output()).len() as u64, KEYS);
        coordinator.halt().await;
    }
}
