//! The example `leader`: processes are killed and the counter goes on.

use std::process::Command;

#[cfg(feature = "kubernetes")]
use crate::api_server::ApiServer;
use crate::support::output;

/// What it prints, line by line.
fn run(arguments: &[&str]) -> Vec<String> {
    let mut leader = Command::new(env!("CARGO_BIN_EXE_leader"));
    leader.args(["--calls", "30", "--kills", "2", "--pause-ms", "1"]);
    let ran = output(leader.args(arguments));
    let text = String::from_utf8(ran.stdout).unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{text}\n{errors}");
    text.lines().map(str::to_owned).collect()
}

fn check(lines: &[String]) {
    let leaders: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains(" leads: epoch "))
        .collect();
    assert!(leaders.len() >= 3, "each kill has its successor: {lines:?}");
    let last = lines.last().unwrap();
    assert_eq!(last, "counter 30 after 30 calls, 2 leaders killed");
}

#[test]
fn the_counter_goes_on_over_killed_leaders() {
    check(&run(&[]));
}

#[test]
fn a_server_driver_without_its_server_is_told() {
    let ran = Command::new(env!("CARGO_BIN_EXE_leader"))
        .args(["--driver", "zookeeper"])
        .output()
        .unwrap();
    assert!(!ran.status.success());
    let errors = String::from_utf8(ran.stderr).unwrap();
    assert!(errors.contains("needs --server"), "{errors}");
}

#[cfg(feature = "kubernetes")]
#[test]
fn the_counter_goes_on_over_killed_leaders_by_a_lease_of_kubernetes() {
    let server = ApiServer::start();
    let lease = ["--namespace", "lockkeeper", "--lease", "counter"];
    let on = ["--driver", "kubernetes", "--server", &server.address];
    check(&run(&[on.as_slice(), &lease].concat()));
    let leases = server.leases.lock().unwrap();
    let transitions = &leases.by_name["counter"]["spec"]["leaseTransitions"];
    assert!(transitions.as_i64() >= Some(3), "{transitions}");
}

#[cfg(not(feature = "kubernetes"))]
#[test]
fn a_driver_that_was_not_built_in_is_told() {
    let mut leader = Command::new(env!("CARGO_BIN_EXE_leader"));
    let ran = leader.args(["--driver", "kubernetes"]).output().unwrap();
    let errors = String::from_utf8(ran.stderr).unwrap();
    assert!(errors.contains("--features kubernetes"), "{errors}");
}

/// On servers; their addresses are in the environment (`tests/services/up` prints them).
mod real {
    use super::{check, run};
    use crate::support::given;

    fn on(driver: &str, variable: &str) {
        let Some(server) = given(variable) else {
            return;
        };
        let root = format!("/lockkeeper-test-leader-{}", std::process::id());
        check(&run(&[
            "--driver", driver, "--server", &server, "--root", &root,
        ]));
    }

    #[test]
    fn the_counter_goes_on_over_killed_leaders_on_zookeeper() {
        on("zookeeper", "LOCKKEEPER_ZOOKEEPER");
    }

    #[cfg(feature = "etcd")]
    #[test]
    fn the_counter_goes_on_over_killed_leaders_on_etcd() {
        on("etcd", "LOCKKEEPER_ETCD");
    }
}
