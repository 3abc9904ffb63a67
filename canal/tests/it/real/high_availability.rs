//! Several clients of one destination, two Canal servers, one ZooKeeper: exactly one client is
//! active, whatever happens to whom.

mod cluster;
mod late;
mod line;
mod mixed;
mod outage;
mod process;
mod pushed;

use std::time::{Duration, Instant};

use lockkeeper_canal::{
    CanalConnectorBuilder, CanalError, ClientRole, ClientRunningData, ClientRunningListener,
    ClientRunningMonitor,
};
use zookeeper_client::{Acls, CreateMode};

use crate::peer::Peer;
use cluster::{HANG, SESSION, on_the_cluster};
use line::Line;
use process::Process;

#[test]
fn a_killed_client_is_replaced_and_nothing_is_lost() {
    on_the_cluster("a_killed_client", async |cluster, database| {
        let mut first = Process::start(cluster, database);
        first.until("active").await;
        let mut second = Process::start(cluster, database);
        second.until("standby").await;
        cluster.insert(database, 1..=20);
        first.rows(1..=20).await;
        first.kill();
        let killed = Instant::now();
        cluster.insert(database, 21..=40);
        second.until("active").await;
        eprintln!("taken over after {:?}", killed.elapsed());
        assert!(killed.elapsed() < (SESSION + Duration::from_secs(1)) * 5);
        second.rows(21..=40).await;
    });
}

#[test]
fn a_client_that_is_held_does_nothing_more_once_its_turn_is_over() {
    on_the_cluster("a_client_that_is_held", async |cluster, database| {
        let mut first = Process::start(cluster, database);
        first.until("active").await;
        let mut second = Process::start(cluster, database);
        second.until("standby").await;
        cluster.insert(database, 1..=5);
        first.rows(1..=5).await;
        first.hold();
        second.until("active").await;
        cluster.insert(database, 6..=10);
        first.go_on();
        first.until("standby").await;
        cluster.insert(database, 11..=30);
        second.rows(6..=30).await;
        let late = first.rows_seen().into_iter().find(|row| *row > 5);
        assert_eq!(late, None, "nothing came to the former one");
        second.kill();
        first.until("active").await;
        cluster.insert(database, 31..=35);
        first.rows(31..=35).await;
    });
}

#[test]
fn a_client_that_ends_in_order_is_replaced_at_once() {
    on_the_cluster("ends_in_order", async |cluster, database| {
        let mut first = cluster.connector().await;
        assert_eq!(first.connect().await.unwrap(), ClientRole::Active);
        first.subscribe(&cluster.filter(database)).await.unwrap();
        let mut second = cluster.connector().await;
        assert_eq!(second.connect().await.unwrap(), ClientRole::Standby);
        second.subscribe(&cluster.filter(database)).await.unwrap();
        assert!(!second.check_valid());
        let error = second.get_without_ack(10, None).await.unwrap_err();
        assert!(
            matches!(
                error,
                CanalError::Standby {
                    holder: Some(_),
                    ..
                }
            ),
            "{error}"
        );
        let limit = Duration::from_millis(50);
        let error = second.wait_active(limit).await.unwrap_err();
        assert!(matches!(error, CanalError::Standby { .. }), "{error}");
        cluster.insert(database, 1..=5);
        let (batch, ids) = cluster.batch(&mut first, database).await;
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        // Not acknowledged: it comes to the other one.
        first.disconnect().await;
        let error = first.ack(batch).await.unwrap_err();
        assert!(
            matches!(error, CanalError::Standby { .. } | CanalError::NotConnected),
            "{error}"
        );
        second.wait_active(HANG).await.unwrap();
        let (batch, ids) = cluster.batch(&mut second, database).await;
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        second.ack(batch).await.unwrap();
        second.confirm_acks().await.unwrap();
        second.disconnect().await;
    });
}

#[test]
fn a_client_whose_node_an_administrator_deletes_takes_it_again() {
    on_the_cluster("deletes_it", async |cluster, database| {
        let mut first = cluster.connector().await;
        first.wait_active(HANG).await.unwrap();
        first.subscribe(&cluster.filter(database)).await.unwrap();
        let mut second = cluster.connector().await;
        assert_eq!(second.connect().await.unwrap(), ClientRole::Standby);
        let epoch = first.epoch();
        let zookeeper = cluster.zookeeper().await;
        let (_, deleted) = zookeeper.get_data(&cluster.running()).await.unwrap();
        zookeeper.delete(&cluster.running(), None).await.unwrap();
        // It may be taken again before anybody could see the client without its role.
        loop {
            let (node, watcher) = zookeeper
                .check_and_watch_stat(&cluster.running())
                .await
                .unwrap();
            if node.is_some_and(|node| node.czxid > deleted.czxid) {
                break;
            }
            let changed = tokio::time::timeout(HANG, watcher.changed()).await;
            changed.expect("the node is not taken again");
        }
        first.wait_active(HANG).await.unwrap();
        assert_eq!(second.role(), ClientRole::Standby);
        cluster.insert(database, 1..=5);
        let (batch, ids) = cluster.batch(&mut first, database).await;
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        assert!(
            first.epoch() > epoch,
            "everything that was handed out before is void"
        );
        first.ack(batch).await.unwrap();
        first.confirm_acks().await.unwrap();
        first.disconnect().await;
        second.disconnect().await;
    });
}

#[test]
fn a_client_that_an_administrator_releases_makes_room() {
    on_the_cluster("releases_it", async |cluster, database| {
        let mut first = cluster.connector().await;
        first.wait_active(HANG).await.unwrap();
        let mut second = cluster.connector().await;
        assert_eq!(second.connect().await.unwrap(), ClientRole::Standby);
        cluster.release().await;
        second.wait_active(HANG).await.unwrap();
        assert_eq!(first.role(), ClientRole::Standby);
        second.subscribe(&cluster.filter(database)).await.unwrap();
        cluster.insert(database, 1..=3);
        let (batch, ids) = cluster.batch(&mut second, database).await;
        assert_eq!(ids, [1, 2, 3]);
        second.ack(batch).await.unwrap();
        second.confirm_acks().await.unwrap();
        // And back, in the same way.
        second.disconnect().await;
        first.wait_active(HANG).await.unwrap();
        first.disconnect().await;
    });
}

#[test]
fn the_node_is_the_java_clients_and_cursor_and_filter_are_shown() {
    on_the_cluster("the_node", async |cluster, database| {
        let monitor = cluster.monitor().start().unwrap();
        let mut connector = cluster.connector_with(&monitor).await;
        connector.wait_active(HANG).await.unwrap();
        connector
            .subscribe(&cluster.filter(database))
            .await
            .unwrap();
        cluster.insert(database, 1..=3);
        let (batch, _) = cluster.batch(&mut connector, database).await;
        connector.ack(batch).await.unwrap();
        connector.confirm_acks().await.unwrap();
        let zookeeper = cluster.zookeeper().await;
        let until = Instant::now() + HANG;
        loop {
            let (data, _) = zookeeper.get_data(&cluster.running()).await.unwrap();
            let data = ClientRunningData::from_json(&data).unwrap();
            assert!(data.active);
            assert_eq!(data.client_id, 1001);
            let state = monitor.state();
            let wanted = cluster.filter(database).to_string();
            if data.address.contains(':')
                && state.cursor.is_some()
                && state.filter.as_deref() == Some(&*wanted)
            {
                assert!(state.connected);
                assert_eq!(state.role, ClientRole::Active);
                break;
            }
            assert!(Instant::now() < until, "{data:?} {state:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        connector.disconnect().await;
        let until = Instant::now() + HANG;
        while zookeeper
            .check_stat(&cluster.running())
            .await
            .unwrap()
            .is_some()
        {
            assert!(Instant::now() < until, "the node stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_node_without_a_session_is_reported_and_waited_for() {
    on_the_cluster("without_a_session", async |cluster, _| {
        let zookeeper = cluster.zookeeper().await;
        let root = format!("/lockkeeper-leftover-{}", std::process::id());
        let folder = format!("{root}/destinations/{}/1001", cluster.destination);
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        zookeeper.mkdir(&folder, &persistent).await.unwrap();
        let running = format!("{folder}/running");
        let data = br#"{"active":true,"address":"10.9.9.9","clientId":1001}"#;
        zookeeper.create(&running, data, &persistent).await.unwrap();
        let monitor = cluster.monitor().root(&*root).start().unwrap();
        monitor.join();
        let mut state = monitor.watch();
        let reported = state.wait_for(|state| state.leftover);
        tokio::time::timeout(HANG, reported).await.unwrap().unwrap();
        assert_eq!(monitor.state().holder.unwrap().address, "10.9.9.9");
        zookeeper.delete(&running, None).await.unwrap();
        let active = state.wait_for(|state| state.role == ClientRole::Active);
        tokio::time::timeout(HANG, active).await.unwrap().unwrap();
        monitor.resign();
        let gone = state.wait_for(|state| !state.connected);
        tokio::time::timeout(HANG, gone).await.unwrap().unwrap();
        let parents = folder.match_indices('/').map(|(at, _)| &folder[..at]);
        let parents: Vec<_> = parents
            .chain([&*folder])
            .filter(|path| !path.is_empty())
            .collect();
        for path in parents.into_iter().rev() {
            zookeeper.delete(path, None).await.unwrap();
        }
    });
}

#[test]
fn a_canal_server_that_is_down_costs_few_writes_and_others_get_their_turn() {
    on_the_cluster("is_down", async |cluster, _| {
        let nobody = Peer::nobody().await;
        let build = |monitor: &ClientRunningMonitor| {
            CanalConnectorBuilder::new(monitor.identity().clone())
                .address(&nobody)
                .running_monitor(monitor)
                .build()
                .unwrap()
        };
        let patience = Duration::from_millis(500);
        let monitors: Vec<_> = (0..2)
            .map(|_| cluster.monitor().patience(patience).start().unwrap())
            .collect();
        let (mut first, mut second) = (build(&monitors[0]), build(&monitors[1]));
        let mut turns = [0, 0];
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(8) || turns.contains(&0) {
            assert!(started.elapsed() < HANG, "{turns:?}");
            for (index, connector) in [&mut first, &mut second].into_iter().enumerate() {
                // An application that tries as often as it can.
                match connector.connect().await {
                    Ok(role) => assert_eq!(role, ClientRole::Standby),
                    Err(CanalError::Unreachable(_)) => turns[index] += 1,
                    Err(CanalError::Standby { .. } | CanalError::ZooKeeper(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let writes: u64 = monitors.iter().map(|monitor| monitor.state().writes).sum();
        // The Java client: more than a hundred a second.
        let allowed = 3 * started.elapsed().as_secs();
        assert!(writes <= allowed, "{writes} in {:?}", started.elapsed());
        first.disconnect().await;
        second.disconnect().await;
    });
}

#[test]
fn without_zookeeper_a_turn_ends_by_its_own_clock_and_comes_again() {
    on_the_cluster("without_zookeeper", async |cluster, _| {
        struct Counts(tokio::sync::mpsc::UnboundedSender<bool>);
        impl ClientRunningListener for Counts {
            fn process_active_enter(&mut self) {
                let _ = self.0.send(true);
            }
            fn process_active_exit(&mut self) {
                let _ = self.0.send(false);
            }
        }
        let line = Line::to(&cluster.ensemble).await;
        let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let monitor = ClientRunningMonitor::builder(&line.address, cluster.identity())
            .session(SESSION)
            .listener(Counts(heard))
            .start()
            .unwrap();
        monitor.join();
        let mut state = monitor.watch();
        let active = state.wait_for(|state| state.role == ClientRole::Active);
        tokio::time::timeout(HANG, active).await.unwrap().unwrap();
        line.cut();
        let cut = Instant::now();
        let standby = state.wait_for(|state| state.role == ClientRole::Standby);
        tokio::time::timeout(HANG, standby).await.unwrap().unwrap();
        assert!(cut.elapsed() < SESSION * 5);
        line.mend();
        let active = state.wait_for(|state| state.role == ClientRole::Active);
        tokio::time::timeout(HANG, active).await.unwrap().unwrap();
        monitor.resign();
        let standby = state.wait_for(|state| state.role == ClientRole::Standby);
        tokio::time::timeout(HANG, standby).await.unwrap().unwrap();
        drop((monitor, state));
        let mut heard = Vec::new();
        while let Some(active) = tokio::time::timeout(HANG, hears.recv()).await.unwrap() {
            heard.push(active);
        }
        assert_eq!(heard, [true, false, true, false]);
    });
}

#[test]
fn clients_follow_the_destination_to_another_canal_server() {
    on_the_cluster("another_canal_server", async |cluster, database| {
        let mut connector = cluster.connector().await;
        connector.wait_active(HANG).await.unwrap();
        connector
            .subscribe(&cluster.filter(database))
            .await
            .unwrap();
        let mut standby = cluster.connector().await;
        assert_eq!(standby.connect().await.unwrap(), ClientRole::Standby);
        cluster.insert(database, 1..=5);
        let (batch, _) = cluster.batch(&mut connector, database).await;
        connector.ack(batch).await.unwrap();
        connector.confirm_acks().await.unwrap();
        cluster.kill_the_server(connector.address().unwrap()).await;
        cluster.insert(database, 6..=20);
        let mut seen = std::collections::BTreeSet::new();
        let until = Instant::now() + HANG;
        while !(6..=20).all(|id| seen.contains(&id)) {
            assert!(Instant::now() < until, "{seen:?}");
            match connector.get_without_ack(1000, None).await {
                Ok(Some(message)) => {
                    seen.extend(cluster.ids(&message, database));
                    connector.ack(message.id()).await.unwrap();
                }
                Ok(None) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(CanalError::Standby { .. }) => connector.wait_active(HANG).await.unwrap(),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
        connector.confirm_acks().await.unwrap();
        connector.disconnect().await;
        standby.disconnect().await;
    });
}

/// Not a test of its own: what [`Process`] runs.
#[test]
#[ignore = "run by other tests, as a process of its own"]
fn a_client_process() {
    process::run();
}
