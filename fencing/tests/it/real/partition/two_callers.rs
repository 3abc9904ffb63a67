//! The old leader and a caller are on one side of a cut, the server, the standby and another caller on
//! the other: the first caller goes on to ask the old leader, whom it cannot know to be one.

use std::time::Duration;

use super::history;
use super::network::Way;
use super::place::Driver;
use super::register::CARELESS;
use super::stage::{CALLER_HOST, LEADER, SERVER, STANDBY, Setting, Stage, between};

/// The two sides, all ways between them cut.
fn sides() -> Vec<Way> {
    let other_side = [SERVER, STANDBY, CALLER_HOST + 1];
    let across = |host: usize| other_side.map(|other| between(host, other));
    [LEADER, CALLER_HOST]
        .into_iter()
        .flat_map(across)
        .flatten()
        .collect()
}

fn two_callers(driver: Driver) -> Setting {
    Setting {
        callers: 2,
        ..Setting::of(driver)
    }
}

fn nobody_is_answered_by_the_old_leader(test: &str, driver: Driver) {
    let Some(mut stage) = Stage::open(test, &two_callers(driver)) else {
        return;
    };
    stage.let_the_first_lead();
    stage.network.cut(&sides());
    stage.await_standby();
    stage.await_calls_of(1, 20);
    stage.await_silence(6);
    stage.network.mend(&sides());
    stage.await_calls_of(0, 20);
    stage.await_calls_of(1, 20);
    stage.judge(2);
}

#[test]
fn a_caller_on_the_old_leaders_side_of_etcd_reads_nothing_stale() {
    let test = "a_caller_on_the_old_leaders_side_of_etcd_reads_nothing_stale";
    nobody_is_answered_by_the_old_leader(test, Driver::Etcd);
}

#[test]
fn a_caller_on_the_old_leaders_side_of_zookeeper_reads_nothing_stale() {
    let test = "a_caller_on_the_old_leaders_side_of_zookeeper_reads_nothing_stale";
    nobody_is_answered_by_the_old_leader(test, Driver::ZooKeeper);
}

/// These tests can fail: a leader that does not look at its deadline, and does not hear that it is
/// revoked, answers with what is not true any longer.
#[test]
fn a_leader_that_looks_at_no_deadline_is_found_out() {
    let setting = Setting {
        environment: vec![(CARELESS, "1".to_owned())],
        // The first one has to lead until the cut, however busy the machine is.
        session: Duration::from_secs(8),
        ..two_callers(Driver::Etcd)
    };
    let test = "a_leader_that_looks_at_no_deadline_is_found_out";
    let Some(mut stage) = Stage::open(test, &setting) else {
        return;
    };
    stage.let_the_first_lead();
    stage.network.cut(&sides());
    stage.await_standby();
    stage.await_calls_of(1, 20);
    // The old leader reads from its memory, and a new value is there.
    stage.await_calls_of(0, 10);
    let fault = history::check(&stage.finish(2)).unwrap_err();
    println!("{fault}");
}
