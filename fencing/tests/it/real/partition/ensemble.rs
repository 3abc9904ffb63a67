//! Three ZooKeepers: one is lost, then two; and the one that the leader is connected to is cut off the
//! others.

use super::network::Way;
use super::place::Driver;
use super::stage::{LEADER, SERVER, STANDBY, Setting, Stage, between};

fn three() -> Setting {
    Setting {
        servers: 3,
        ..Setting::of(Driver::ZooKeeper)
    }
}

/// With two of three it goes on, with one nobody serves, with two again it goes on.
#[test]
fn an_ensemble_loses_one_and_then_two() {
    let Some(mut stage) = Stage::open("an_ensemble_loses_one_and_then_two", &three()) else {
        return;
    };
    stage.servers[0].kill();
    stage.await_calls(20);
    stage.servers[1].kill();
    stage.await_silence(6);
    stage.servers[0].start();
    stage.await_calls(20);
    stage.judge(1);
}

/// The leader reaches one server, which has lost the others: that one goes on to answer for a while.
/// What it answers must not count.
#[test]
fn the_leaders_own_server_is_cut_off_the_ensemble() {
    let test = "the_leaders_own_server_is_cut_off_the_ensemble";
    let Some(mut stage) = Stage::open(test, &three()) else {
        return;
    };
    // It can be connected to the first only; so that it is, its session moves there.
    let (first, second, third) = (SERVER, SERVER + 1, SERVER + 2);
    let elsewhere: Vec<Way> = [second, third]
        .iter()
        .flat_map(|&server| between(LEADER, server))
        .collect();
    stage.network.cut(&elsewhere);
    stage.await_calls(20);
    // And the standby reaches the others only.
    stage.network.cut(&between(STANDBY, first));
    let alone: Vec<Way> = [second, third]
        .iter()
        .flat_map(|&server| between(first, server))
        .collect();
    stage.network.cut(&alone);
    stage.await_calls(20);
    stage.network.mend(&alone);
    stage.network.mend(&elsewhere);
    stage.network.mend(&between(STANDBY, first));
    stage.await_calls(20);
    stage.judge(1);
}
