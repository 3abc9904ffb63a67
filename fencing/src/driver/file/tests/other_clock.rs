//! A lease whose expiry was read from another clock: another boot's, another time namespace's.

use super::*;

/// What a candidate does next about a lease that expires at tick 10, at that tick of its own clock.
fn about_a_lease_of(clock: ClockIdentity, tick: u64) -> Access {
    let lease = Lease {
        session: Uuid::from_u128(7),
        clock,
        expires: at(10),
    };
    let settings = Settings {
        session: Duration::from_secs(SESSION),
        poll_interval: Duration::from_secs(1),
        epochs_above: 0,
    };
    let mut candidate = Candidate::new(settings, identity());
    let mut access = candidate.begin();
    loop {
        let answer = match access {
            Access::NewSession => Answer::Session(Uuid::from_u128(8)),
            Access::ListLeases => Answer::Leases(vec![5]),
            Access::ReadClock => Answer::Clock(at(tick)),
            Access::ReadLease { .. } => Answer::Lease(Some(lease.clone())),
            decided => return decided,
        };
        access = candidate.step(answer);
    }
}

fn takes_over(access: &Access) -> bool {
    matches!(access, Access::CreateLease { epoch: 6, .. })
}

/// Only whether the holder's lock can be taken tells more.
fn asks_for_the_lock(access: &Access) -> bool {
    let holder = Uuid::from_u128(7);
    *access == Access::TryAlive { session: holder }
}

#[test]
fn a_lease_of_the_same_clock_is_over_when_it_has_expired() {
    assert!(asks_for_the_lock(&about_a_lease_of(identity(), 9)));
    assert!(takes_over(&about_a_lease_of(identity(), 10)));
}

#[test]
fn a_lease_of_another_boot_is_over() {
    let other = ClockIdentity {
        boot: "the boot before".to_owned(),
        ..identity()
    };
    assert!(takes_over(&about_a_lease_of(other, 0)));
}

#[test]
fn a_lease_of_another_time_namespace_is_never_over_by_its_expiry() {
    let other = ClockIdentity {
        time_namespace: "another".to_owned(),
        ..identity()
    };
    assert!(asks_for_the_lock(&about_a_lease_of(other, 1_000_000)));
}
