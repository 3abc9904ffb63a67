//! Leader, standby and etcd in network namespaces of their own, with cuts between them.
//!
//! Each has one cable to a router in a fourth namespace; a cut is a rule there that swallows what goes
//! one way, so that both ends see silence. Where namespaces are not permitted these tests are
//! skipped, say so, and print how many.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use uuid::Uuid;

use super::address;
use crate::stopped::{Place, Process};

const SERVER: usize = 1;
const LEADER: usize = 2;
const STANDBY: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Carried out as a shell would; whether it succeeded.
fn ip(arguments: &str) -> bool {
    let ip = Command::new("ip")
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ip.is_ok_and(|status| status.success())
}

/// A router and three hosts, taken down with it.
struct Network {
    name: String,
    etcd: Option<Child>,
    data: tempfile::TempDir,
}

impl Network {
    /// `None` after saying that the test is skipped.
    fn new(test: &str) -> Option<Self> {
        address("LOCKKEEPER_ETCD", test)?;
        let name = format!("lk{}", &Uuid::new_v4().simple().to_string()[..6]);
        let network = Network {
            name: name.clone(),
            etcd: None,
            data: tempfile::tempdir().unwrap(),
        };
        let made = ip(&format!("netns add {name}r"))
            && ip(&format!("-n {name}r link set lo up"))
            && [SERVER, LEADER, STANDBY]
                .iter()
                .all(|&host| network.add(host))
            && Command::new("ip")
                .args(["netns", "exec", &format!("{name}r"), "sh", "-c"])
                .arg("echo 1 > /proc/sys/net/ipv4/ip_forward")
                .status()
                .is_ok_and(|status| status.success());
        if !made {
            let count = SKIPPED.fetch_add(1, Ordering::SeqCst) + 1;
            println!("SKIPPED {test}: network namespaces are not permitted here ({count} so far)");
            return None;
        }
        Some(network)
    }

    fn host(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }

    fn add(&self, host: usize) -> bool {
        let (router, name) = (format!("{}r", self.name), self.host(host));
        ip(&format!("netns add {name}"))
            && ip(&format!(
                "-n {router} link add c{host} type veth peer name c0 netns {name}"
            ))
            && ip(&format!(
                "-n {router} addr add 10.71.{host}.1/24 dev c{host}"
            ))
            && ip(&format!("-n {router} link set c{host} up"))
            && ip(&format!("-n {name} addr add 10.71.{host}.2/24 dev c0"))
            && ip(&format!("-n {name} link set c0 up"))
            && ip(&format!("-n {name} link set lo up"))
            && ip(&format!("-n {name} route add default via 10.71.{host}.1"))
    }

    /// Swallows what goes from one host to another, silently.
    fn cut(&self, from: usize, to: usize) {
        self.rule("add", from, to);
    }

    fn mend(&self, from: usize, to: usize) {
        self.rule("del", from, to);
    }

    fn rule(&self, verb: &str, from: usize, to: usize) {
        let rule = format!("from 10.71.{from}.2 to 10.71.{to}.2 blackhole");
        assert!(ip(&format!("-n {}r rule {verb} {rule}", self.name)));
    }

    fn start_etcd(&mut self) {
        let url = "http://10.71.1.2:2379";
        let etcd = Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.host(SERVER),
                "etcd",
                "--log-level",
                "error",
            ])
            .args(["--listen-client-urls", url, "--advertise-client-urls", url])
            .args(["--listen-peer-urls", "http://127.0.0.1:0"])
            .arg("--data-dir")
            .arg(self.data.path().join("etcd"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.etcd = Some(etcd.unwrap());
    }

    fn kill_etcd(&mut self) {
        if let Some(mut etcd) = self.etcd.take() {
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
    }

    fn place(&self) -> Place {
        Place {
            driver: "etcd",
            address: "10.71.1.2:2379".to_owned(),
            root: "/partitions".to_owned(),
        }
    }

    fn leading(&self, host: usize) -> Process {
        let mut process = self.contending(host);
        process.expect("granted");
        process.enter();
        process
    }

    fn contending(&self, host: usize) -> Process {
        Process::start_within(&self.place(), Some(&self.host(host)))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.kill_etcd();
        for host in [SERVER, LEADER, STANDBY] {
            ip(&format!("netns del {}", self.host(host)));
        }
        ip(&format!("netns del {}r", self.name));
    }
}

/// The leader is cut off in these directions: another one leads and acts, and nothing of the old one takes
/// hold, neither during the cut nor after it.
fn a_leader_that_is_cut_off_has_no_effect(test: &str, cuts: &[(usize, usize)]) {
    let Some(mut network) = Network::new(test) else {
        return;
    };
    network.start_etcd();
    let mut old = network.leading(LEADER);
    let first = old.acted();
    let mut new = network.contending(STANDBY);
    for (from, to) in cuts {
        network.cut(*from, *to);
    }
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
    for (from, to) in cuts {
        network.mend(*from, *to);
    }
    old.order("act never");
    let verdict = old.verdict();
    assert!(!verdict.starts_with("acted"), "{verdict}");
    let third = new.acted();
    assert_eq!(third.sequence, second.sequence + 1, "nothing came between");
}

#[test]
fn a_leader_that_is_cut_off_its_server_has_no_effect() {
    let test = "a_leader_that_is_cut_off_its_server_has_no_effect";
    a_leader_that_is_cut_off_has_no_effect(test, &[(LEADER, SERVER), (SERVER, LEADER)]);
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
    let Some(mut network) = Network::new(test) else {
        return;
    };
    network.start_etcd();
    let mut old = network.leading(LEADER);
    let first = old.acted();
    network.kill_etcd();
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
    network.start_etcd();
    old.expect("granted");
    old.enter();
    let second = old.acted();
    assert!(second.epoch > first.epoch && second.sequence > first.sequence);
    old.signal(Signal::TERM);
}
