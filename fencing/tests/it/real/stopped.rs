//! Leaders on real servers that are stopped beyond their session, and continued.

use uuid::Uuid;

use super::address;
use crate::stopped::{Place, stopped_before_the_check, stopped_between_check_and_write};

fn place(driver: &'static str, variable: &str, test: &str) -> Option<Place> {
    Some(Place {
        driver,
        address: address(variable, test)?,
        root: format!("/lockkeeper-test-{}", Uuid::new_v4()),
    })
}

#[cfg(feature = "zookeeper")]
#[test]
fn a_leader_on_zookeeper_that_was_stopped_before_the_check_refuses() {
    let test = "a_leader_on_zookeeper_that_was_stopped_before_the_check_refuses";
    if let Some(place) = place("zookeeper", "LOCKKEEPER_ZOOKEEPER", test) {
        stopped_before_the_check(&place);
    }
}

#[cfg(feature = "zookeeper")]
#[test]
fn a_leader_on_zookeeper_that_was_stopped_in_a_write_has_no_effect() {
    let test = "a_leader_on_zookeeper_that_was_stopped_in_a_write_has_no_effect";
    if let Some(place) = place("zookeeper", "LOCKKEEPER_ZOOKEEPER", test) {
        stopped_between_check_and_write(&place);
    }
}

#[cfg(feature = "etcd")]
#[test]
fn a_leader_on_etcd_that_was_stopped_before_the_check_refuses() {
    let test = "a_leader_on_etcd_that_was_stopped_before_the_check_refuses";
    if let Some(place) = place("etcd", "LOCKKEEPER_ETCD", test) {
        stopped_before_the_check(&place);
    }
}

#[cfg(feature = "etcd")]
#[test]
fn a_leader_on_etcd_that_was_stopped_in_a_write_has_no_effect() {
    let test = "a_leader_on_etcd_that_was_stopped_in_a_write_has_no_effect";
    if let Some(place) = place("etcd", "LOCKKEEPER_ETCD", test) {
        stopped_between_check_and_write(&place);
    }
}
