//! One coordination server: cuts, a lossy wire, a restart.

use super::network::Way;
use super::place::Driver;
use super::stage::{CALLER_HOST, LEADER, SERVER, STANDBY, Setting, Stage, between};

/// The leader loses its server: the standby takes over while the old one is cut off, and nothing that
/// the old one does is seen.
fn the_leader_is_cut_off_its_server(test: &str, driver: Driver, ways: &[Way]) {
    let Some(mut stage) = Stage::open(test, &Setting::of(driver)) else {
        return;
    };
    stage.let_the_first_lead();
    stage.network.cut(ways);
    stage.await_standby();
    stage.await_calls(20);
    stage.network.mend(ways);
    stage.await_calls(20);
    stage.judge(2);
}

#[test]
fn etcd_is_cut_off_the_leader() {
    let ways = between(LEADER, SERVER);
    the_leader_is_cut_off_its_server("etcd_is_cut_off_the_leader", Driver::Etcd, &ways);
}

#[test]
fn etcd_does_not_hear_the_leader() {
    let ways = [(LEADER, SERVER)];
    the_leader_is_cut_off_its_server("etcd_does_not_hear_the_leader", Driver::Etcd, &ways);
}

#[test]
fn the_leader_does_not_hear_etcd() {
    let ways = [(SERVER, LEADER)];
    the_leader_is_cut_off_its_server("the_leader_does_not_hear_etcd", Driver::Etcd, &ways);
}

#[test]
fn zookeeper_is_cut_off_the_leader() {
    let test = "zookeeper_is_cut_off_the_leader";
    the_leader_is_cut_off_its_server(test, Driver::ZooKeeper, &between(LEADER, SERVER));
}

#[test]
fn zookeeper_does_not_hear_the_leader() {
    let test = "zookeeper_does_not_hear_the_leader";
    the_leader_is_cut_off_its_server(test, Driver::ZooKeeper, &[(LEADER, SERVER)]);
}

#[test]
fn the_leader_does_not_hear_zookeeper() {
    let test = "the_leader_does_not_hear_zookeeper";
    the_leader_is_cut_off_its_server(test, Driver::ZooKeeper, &[(SERVER, LEADER)]);
}

/// The caller loses the leader, whichever of the two leads: calls fail, and go on when it is back.
fn the_caller_is_cut_off_the_leader(test: &str, ways: impl Fn(usize) -> Vec<Way>) {
    let Some(mut stage) = Stage::open(test, &Setting::of(Driver::Etcd)) else {
        return;
    };
    let ways = [ways(LEADER), ways(STANDBY)].concat();
    stage.network.cut(&ways);
    stage.await_failures(6);
    stage.network.mend(&ways);
    stage.await_calls(20);
    stage.judge(1);
}

#[test]
fn the_leader_is_cut_off_the_caller() {
    let test = "the_leader_is_cut_off_the_caller";
    the_caller_is_cut_off_the_leader(test, |member| between(CALLER_HOST, member).to_vec());
}

#[test]
fn the_leader_does_not_hear_the_caller() {
    let test = "the_leader_does_not_hear_the_caller";
    the_caller_is_cut_off_the_leader(test, |member| vec![(CALLER_HOST, member)]);
}

/// Writes take hold whose answers are lost: their outcome is unknown.
#[test]
fn the_caller_does_not_hear_the_leader() {
    let test = "the_caller_does_not_hear_the_leader";
    the_caller_is_cut_off_the_leader(test, |member| vec![(member, CALLER_HOST)]);
}

/// The server is there and nobody hears from it: nobody serves once the leader's deadline has passed.
fn the_server_is_a_black_hole(test: &str, driver: Driver) {
    let Some(mut stage) = Stage::open(test, &Setting::of(driver)) else {
        return;
    };
    let hosts = [LEADER, STANDBY, CALLER_HOST];
    let ways: Vec<Way> = hosts
        .iter()
        .flat_map(|&host| between(host, SERVER))
        .collect();
    stage.network.cut(&ways);
    stage.await_silence(6);
    stage.network.mend(&ways);
    stage.await_calls(20);
    stage.judge(1);
}

#[test]
fn etcd_is_a_black_hole() {
    the_server_is_a_black_hole("etcd_is_a_black_hole", Driver::Etcd);
}

#[test]
fn zookeeper_is_a_black_hole() {
    the_server_is_a_black_hole("zookeeper_is_a_black_hole", Driver::ZooKeeper);
}

/// Everything that the leader sends and gets comes late, out of order, or not at all.
#[test]
fn the_leaders_wires_delay_and_lose() {
    let test = "the_leaders_wires_delay_and_lose";
    let Some(mut stage) = Stage::open(test, &Setting::of(Driver::Etcd)) else {
        return;
    };
    stage.network.spoil(&between(LEADER, SERVER), 5);
    stage.network.spoil(&between(LEADER, CALLER_HOST), 5);
    stage.await_calls(60);
    // Worse: leadership may go to and fro.
    stage.network.spoil(&between(LEADER, SERVER), 40);
    stage.await_calls(30);
    stage.network.repair();
    stage.await_calls(20);
    stage.judge(1);
}

fn the_server_is_killed_and_started_again(test: &str, driver: Driver) {
    let Some(mut stage) = Stage::open(test, &Setting::of(driver)) else {
        return;
    };
    stage.servers[0].kill();
    stage.await_silence(6);
    stage.servers[0].start();
    stage.await_calls(20);
    stage.judge(1);
}

#[test]
fn etcd_is_killed_and_started_again() {
    the_server_is_killed_and_started_again("etcd_is_killed_and_started_again", Driver::Etcd);
}

#[test]
fn zookeeper_is_killed_and_started_again() {
    let test = "zookeeper_is_killed_and_started_again";
    the_server_is_killed_and_started_again(test, Driver::ZooKeeper);
}
