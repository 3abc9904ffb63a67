//! Finding servers by ZooKeeper.

use std::time::{Duration, Instant};

use lockkeeper_canal::{
    CanalConnectorBuilder, CanalError, CanalNodeAccessStrategy as _, ClientIdentity,
    ClusterNodeAccessStrategy,
};
use zookeeper_client::{Acls, Client, CreateMode};

use super::{on_the_real_server_with, variable};

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(120);

/// Asks until the answer is the expected one.
async fn names(strategy: &mut ClusterNodeAccessStrategy, node: Option<&str>) {
    let until = Instant::now() + HANG;
    while strategy.next_node().ok().as_deref() != node {
        assert!(Instant::now() < until, "{node:?} is not named");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_running_server_is_found_followed_and_connected_to() {
    on_the_real_server_with("the_running_server", async |subject, _| {
        let Some(ensemble) = variable("LOCKKEEPER_ZOOKEEPER") else {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "no ZooKeeper"
            );
            eprintln!("skipped: no ZooKeeper, set LOCKKEEPER_ZOOKEEPER");
            return;
        };
        let root = format!("/lockkeeper-canal-{}", std::process::id());
        let folder = format!("{root}/destinations/{}", subject.destination);
        let client = Client::connect(&ensemble).await.unwrap();
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let connect =
            || ClusterNodeAccessStrategy::connect_below(&ensemble, &root, &subject.destination);
        // Before any server was there.
        let mut strategy = connect().await.unwrap();
        assert!(matches!(
            strategy.next_node(),
            Err(CanalError::Unreachable(_))
        ));
        client
            .mkdir(&format!("{folder}/cluster"), &persistent)
            .await
            .unwrap();
        let server = format!("{folder}/cluster/{}", subject.address);
        client.create(&server, b"", &persistent).await.unwrap();
        names(&mut strategy, Some(&subject.address)).await;
        let running = format!("{folder}/running");
        let data = br#"{"active":true,"address":"10.1.2.3:11111"}"#;
        client.create(&running, data, &persistent).await.unwrap();
        names(&mut strategy, Some("10.1.2.3:11111")).await;
        assert_eq!(strategy.current_node().as_deref(), Some("10.1.2.3:11111"));
        let data = format!(r#"{{"active":true,"address":"{}"}}"#, subject.address);
        client
            .set_data(&running, data.as_bytes(), None)
            .await
            .unwrap();
        names(&mut strategy, Some(&subject.address)).await;
        client.delete(&running, None).await.unwrap();
        client.delete(&server, None).await.unwrap();
        names(&mut strategy, None).await;
        client
            .create(&running, data.as_bytes(), &persistent)
            .await
            .unwrap();
        names(&mut strategy, Some(&subject.address)).await;
        let mut connector = CanalConnectorBuilder::new(ClientIdentity::new(&subject.destination))
            .access_strategy(strategy)
            .credentials(&subject.user, &*subject.password)
            .build()
            .unwrap();
        connector.connect().await.unwrap();
        connector.subscribe(&subject.filter()).await.unwrap();
        connector.confirm_acks().await.unwrap();
        for node in [
            running,
            format!("{folder}/cluster"),
            folder,
            format!("{root}/destinations"),
            root.clone(),
        ] {
            client.delete(&node, None).await.unwrap();
        }
    });
}

#[tokio::test]
async fn a_destination_that_is_no_nodes_name_is_refused() {
    for destination in ["", "a/b"] {
        let refused = ClusterNodeAccessStrategy::connect("127.0.0.1:1", destination).await;
        assert!(matches!(
            refused.unwrap_err(),
            CanalError::InvalidArgument(_)
        ));
    }
}
