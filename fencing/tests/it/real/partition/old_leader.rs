//! A leader that is cut off its etcd tells what it does itself: it refuses its own effect before another
//! one is granted, and nothing of it takes hold later.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::network::{Network, Way};
use super::stage::{LEADER, SERVER, STANDBY, between};
use crate::real::address;
use crate::real::servers::{self, Server};
use crate::stopped::{Place, Process};

const LIMIT: Duration = Duration::from_secs(60);

struct Stage {
    etcd: Server,
    network: Network,
}

impl Stage {
    /// `None` after saying that the test is skipped.
    fn new(test: &str) -> Option<Self> {
        address("LOCKKEEPER_ETCD", test)?;
        let network = Network::new(test, &[SERVER, LEADER, STANDBY])?;
        let address = format!("{}:2379", Network::address(SERVER));
        let mut etcd = servers::etcd(address, Some(network.namespace(SERVER)), None);
        etcd.start();
        Some(Stage { etcd, network })
    }

    fn contending(&self, host: usize) -> Process {
        let place = Place {
            driver: "etcd",
            address: self.etcd.address.clone(),
            root: "/partitions".to_owned(),
        };
        Process::start_within(&place, Some(&self.network.namespace(host)))
    }
}

/// The leader is cut off in these directions: another one leads and acts, and nothing of the old one takes
/// hold, neither during the cut nor after it.
fn a_leader_that_is_cut_off_has_no_effect(test: &str, cuts: &[Way]) {
    let Some(stage) = Stage::new(test) else {
        return;
    };
    let mut old = stage.contending(LEADER);
    old.expect("granted");
    old.enter();
    let first = old.acted();
    let mut new = stage.contending(STANDBY);
    stage.network.cut(cuts);
    new.expect("granted");
    new.enter();
    let second = new.acted();
    assert!(second.epoch > first.epoch && second.sequence > first.sequence);
    old.order("act never");
    let verdict = old.verdict();
    assert_eq!(
        verdict, "refused",
        "the deadline has passed before the other one was granted"
    );
    stage.network.mend(cuts);
    old.order("act never");
    let verdict = old.verdict();
    assert!(!verdict.starts_with("acted"), "{verdict}");
    let third = new.acted();
    assert_eq!(third.sequence, second.sequence + 1, "nothing came between");
}

#[test]
fn a_leader_that_is_cut_off_its_server_has_no_effect() {
    let test = "a_leader_that_is_cut_off_its_server_has_no_effect";
    a_leader_that_is_cut_off_has_no_effect(test, &between(LEADER, SERVER));
}

#[test]
fn a_leader_that_its_server_does_not_hear_has_no_effect() {
    let test = "a_leader_that_its_server_does_not_hear_has_no_effect";
    a_leader_that_is_cut_off_has_no_effect(test, &[(LEADER, SERVER)]);
}

#[test]
fn a_leader_that_does_not_hear_its_server_has_no_effect_once_the_other_one_leads() {
    let test = "a_leader_that_does_not_hear_its_server_has_no_effect_once_the_other_one_leads";
    a_leader_that_is_cut_off_has_no_effect(test, &[(SERVER, LEADER)]);
}

/// While the server is away nobody acts; when it is back with its data, one does.
#[test]
fn nobody_acts_while_the_server_is_away_and_one_does_after_its_restart() {
    let test = "nobody_acts_while_the_server_is_away_and_one_does_after_its_restart";
    let Some(mut stage) = Stage::new(test) else {
        return;
    };
    let mut old = stage.contending(LEADER);
    old.expect("granted");
    old.enter();
    let first = old.acted();
    stage.etcd.kill();
    let began = Instant::now();
    loop {
        old.order("act never");
        let verdict = old.verdict();
        assert!(!verdict.starts_with("acted"), "{verdict}");
        if verdict == "refused" {
            break;
        }
        assert!(began.elapsed() < LIMIT, "it does not stop");
    }
    stage.etcd.start();
    old.expect("granted");
    old.enter();
    let second = old.acted();
    assert!(second.epoch > first.epoch && second.sequence > first.sequence);
    old.signal(Signal::TERM);
}
