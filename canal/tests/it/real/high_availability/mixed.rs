//! Clients of ours and Canal's own Java client on one destination: they exclude each other.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::cluster::{HANG, SESSION, on_the_cluster};
use super::process::Process;
use futures_util::future::select_all;
use lockkeeper_canal::CanalNodeAccessStrategy as _;

/// Which of them gets these rows: one alone.
async fn who_gets(clients: &mut [Process], rows: RangeInclusive<u64>) -> usize {
    let mut got: Vec<BTreeSet<u64>> = clients.iter().map(|_| BTreeSet::new()).collect();
    while !got
        .iter()
        .any(|seen| rows.clone().all(|row| seen.contains(&row)))
    {
        let next = clients.iter_mut().map(|client| Box::pin(client.row()));
        let (row, index, _) = select_all(next).await;
        got[index].insert(row);
    }
    for (client, seen) in clients.iter_mut().zip(&mut got) {
        seen.extend(client.rows_seen());
    }
    let active: Vec<_> = (0..clients.len())
        .filter(|index| got[*index].iter().any(|row| rows.contains(row)))
        .collect();
    assert_eq!(active.len(), 1, "exactly one is active: {got:?}");
    active[0]
}

#[test]
fn javas_client_waits_for_ours_and_goes_on_when_it_is_killed() {
    on_the_cluster("java_waits_for_ours", async |cluster, database| {
        let mut ours = Process::start(cluster, database);
        ours.until("active").await;
        let mut java = Process::java(cluster, database);
        java.until("standby").await;
        cluster.insert(database, 1..=20);
        ours.rows(1..=20).await;
        let before = cluster.holder().await;
        ours.kill();
        cluster.insert(database, 21..=40);
        java.until("active").await;
        java.rows(21..=40).await;
        assert_ne!(cluster.holder().await.address, before.address);
    });
}

#[test]
fn ours_waits_for_javas_client_and_goes_on_when_it_is_killed() {
    on_the_cluster("ours_waits_for_java", async |cluster, database| {
        let mut java = Process::java(cluster, database);
        java.until("active").await;
        let mut ours = Process::start(cluster, database);
        ours.until("standby").await;
        cluster.insert(database, 1..=20);
        java.rows(1..=20).await;
        java.kill();
        let killed = Instant::now();
        cluster.insert(database, 21..=40);
        ours.until("active").await;
        eprintln!("taken over after {:?}", killed.elapsed());
        assert!(killed.elapsed() < (SESSION + Duration::from_secs(1)) * 5);
        ours.rows(21..=40).await;
    });
}

#[test]
fn of_clients_of_both_kinds_exactly_one_is_active_whoever_is_killed() {
    on_the_cluster("of_both_kinds", async |cluster, database| {
        let mut first = Process::start(cluster, database);
        // Rows from before a subscription may not pass the filter of the one before.
        first.until("active").await;
        let mut clients = vec![
            first,
            Process::java(cluster, database),
            Process::start(cluster, database),
            Process::java(cluster, database),
        ];
        for round in 0..4 {
            let rows = round * 10 + 1..=round * 10 + 10;
            cluster.insert(database, rows.clone());
            let active = who_gets(&mut clients, rows).await;
            clients.remove(active).kill();
        }
    });
}

#[test]
fn ours_that_is_held_does_nothing_more_once_javas_client_took_over() {
    on_the_cluster("held_and_java", async |cluster, database| {
        let mut ours = Process::start(cluster, database);
        ours.until("active").await;
        let mut java = Process::java(cluster, database);
        java.until("standby").await;
        cluster.insert(database, 1..=5);
        ours.rows(1..=5).await;
        ours.hold();
        java.until("active").await;
        cluster.insert(database, 6..=10);
        ours.go_on();
        ours.until("standby").await;
        cluster.insert(database, 11..=30);
        java.rows(6..=30).await;
        let late: Vec<_> = ours
            .rows_seen()
            .into_iter()
            .filter(|row| *row > 5)
            .collect();
        assert!(late.is_empty(), "{late:?} came to the former one");
    });
}

/// Inserts rows one by one, and waits until each came to one of the two.
async fn each_comes_to_one_of(
    clients: [&mut Process; 2],
    insert: impl Fn(u64),
    rows: RangeInclusive<u64>,
) {
    let mut missing: BTreeSet<_> = rows.clone().collect();
    rows.for_each(insert);
    let [one, other] = clients;
    while !missing.is_empty() {
        let row = tokio::select! {
            row = one.row() => row,
            row = other.row() => row,
        };
        missing.remove(&row);
    }
}

#[test]
fn what_a_client_without_turns_takes_is_noticed_and_nothing_is_lost() {
    on_the_cluster("without_turns", async |cluster, database| {
        let mut ours = Process::start(cluster, database);
        ours.until("active").await;
        cluster.insert(database, 1..=5);
        ours.rows(1..=5).await;
        let noticed = ours.noticed();
        let server = cluster.servers().await.next_node().unwrap();
        let mut thief = Process::java_without_turns(&server, cluster, database);
        thief.until("active").await;
        let insert = |id| cluster.insert(database, id..=id);
        let (mut last, until) = (5, Instant::now() + HANG);
        // Until it has taken something, and ours has noticed.
        while ours.noticed() == noticed {
            assert!(
                Instant::now() < until,
                "it takes nothing, or nobody notices"
            );
            each_comes_to_one_of([&mut ours, &mut thief], insert, last + 1..=last + 10).await;
            last += 10;
        }
        thief.kill();
        let rest = last + 1..=last + 10;
        cluster.insert(database, rest.clone());
        ours.rows(rest).await;
    });
}

#[test]
fn javas_client_that_was_held_and_goes_on_loses_nothing_of_ours() {
    on_the_cluster("java_after_a_pause", async |cluster, database| {
        let mut java = Process::java(cluster, database);
        java.until("active").await;
        let mut ours = Process::start(cluster, database);
        ours.until("standby").await;
        java.hold();
        ours.until("active").await;
        cluster.insert(database, 1..=10);
        ours.rows(1..=10).await;
        // It may go on as if its turn were not over, and may take some: they come to one of them.
        java.go_on();
        let insert = |id| cluster.insert(database, id..=id);
        each_comes_to_one_of([&mut java, &mut ours], insert, 11..=60).await;
    });
}

#[test]
fn an_administrator_moves_the_turn_from_javas_client_to_ours() {
    on_the_cluster("moves_the_turn", async |cluster, database| {
        let mut java = Process::java(cluster, database);
        java.until("active").await;
        let mut ours = Process::start(cluster, database);
        ours.until("standby").await;
        cluster.release().await;
        ours.until("active").await;
        cluster.insert(database, 1..=5);
        ours.rows(1..=5).await;
        // A deleted node goes back to the one that had it: Java's client waits five seconds.
        let zookeeper = cluster.zookeeper().await;
        zookeeper.delete(&cluster.running(), None).await.unwrap();
        cluster.insert(database, 6..=10);
        ours.rows(6..=10).await;
        // Released, both would wait five seconds; so it ends. Java's client goes on without a word.
        ours.kill();
        cluster.insert(database, 11..=15);
        java.rows(11..=15).await;
    });
}
