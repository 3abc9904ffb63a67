//! An acknowledgement that arrives after its client's turn.

use lockkeeper_canal::ClientRole;

use super::cluster::{HANG, on_the_cluster};
use super::line::Line;
use lockkeeper_canal::CanalNodeAccessStrategy as _;

#[test]
fn an_ack_that_comes_late_takes_no_hold() {
    on_the_cluster("comes_late", async |cluster, database| {
        let server = cluster.servers().await.next_node().unwrap();
        let line = Line::to(&server).await;
        let monitor = cluster.monitor().start().unwrap();
        let builder = cluster.builder(&monitor).await.address(&line.address);
        let mut first = builder.build_cluster().unwrap();
        first.wait_active(HANG).await.unwrap();
        first.subscribe(&cluster.filter(database)).await.unwrap();
        let mut second = cluster.connector().await;
        assert_eq!(second.connect().await.unwrap(), ClientRole::Standby);
        second.subscribe(&cluster.filter(database)).await.unwrap();
        cluster.insert(database, 1..=5);
        let (batch, ids) = cluster.batch(&mut first, database).await;
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        line.hold();
        first.ack(batch).await.unwrap();
        cluster.release().await;
        second.wait_active(HANG).await.unwrap();
        let (_, ids) = cluster.batch(&mut second, database).await;
        assert_eq!(
            ids,
            [1, 2, 3, 4, 5],
            "what is not acknowledged comes to the other one"
        );
        // Now the server hears it, and refuses.
        line.mend_and_hear().await;
        second.disconnect().await;
        first.wait_active(HANG).await.unwrap();
        let (batch, ids) = cluster.batch(&mut first, database).await;
        assert_eq!(ids, [1, 2, 3, 4, 5], "nothing was acknowledged");
        first.ack(batch).await.unwrap();
        first.confirm_acks().await.unwrap();
        first.disconnect().await;
    });
}
