//! Hosts as network namespaces, each with one cable to a router in a namespace of its own.
//!
//! A cut is a rule in the router that swallows what goes one way, so that both ends see silence.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use uuid::Uuid;

use crate::real::say;

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// A router and its hosts, taken down with it.
pub(super) struct Network {
    name: String,
    hosts: Vec<usize>,
    wires: Vec<Child>,
}

/// A way from one host to another.
pub(super) type Way = (usize, usize);

/// Carried out as a shell would; whether it succeeded.
fn ip(arguments: &str) -> bool {
    let ip = Command::new("ip")
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ip.is_ok_and(|status| status.success())
}

impl Network {
    /// `None` after saying that the test is skipped: namespaces are not permitted everywhere, so
    /// that is no failure in CI either.
    pub(super) fn new(test: &str, hosts: &[usize]) -> Option<Self> {
        let network = Network {
            name: format!("lk{}", &Uuid::new_v4().simple().to_string()[..6]),
            hosts: hosts.to_vec(),
            wires: Vec::new(),
        };
        let router = network.router();
        let made = ip(&format!("netns add {router}"))
            && ip(&format!("-n {router} link set lo up"))
            && hosts.iter().all(|&host| network.add(host))
            && network.set("ip_forward", 1)
            && network.set("conf/all/rp_filter", 0)
            && network.set("conf/default/rp_filter", 0);
        if !made {
            let count = SKIPPED.fetch_add(1, Ordering::SeqCst) + 1;
            say(&format!(
                "SKIPPED {test}: network namespaces are not permitted here ({count} so far)"
            ));
            return None;
        }
        Some(network)
    }

    fn router(&self) -> String {
        format!("{}r", self.name)
    }

    /// The namespace of a host.
    pub(super) fn namespace(&self, host: usize) -> String {
        format!("{}h{host}", self.name)
    }

    pub(super) fn address(host: usize) -> String {
        format!("10.71.{host}.2")
    }

    fn set(&self, name: &str, value: u8) -> bool {
        let file = format!("/proc/sys/net/ipv4/{name}");
        let set = self
            .in_router("sh")
            .args(["-c", &format!("echo {value} > {file}")])
            .status();
        set.is_ok_and(|status| status.success())
    }

    fn in_router(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.router(), program]);
        command
    }

    fn add(&self, host: usize) -> bool {
        let (router, name) = (self.router(), self.namespace(host));
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

    /// Swallows what goes these ways, silently.
    pub(super) fn cut(&self, ways: &[Way]) {
        self.rules("add", ways);
    }

    pub(super) fn mend(&self, ways: &[Way]) {
        self.rules("del", ways);
    }

    fn rules(&self, verb: &str, ways: &[Way]) {
        for (from, to) in ways {
            let rule = format!("from 10.71.{from}.2 to 10.71.{to}.2 blackhole");
            assert!(ip(&format!("-n {} rule {verb} {rule}", self.router())));
        }
    }

    /// Delays what goes these ways by 20 to 40 ms, and loses so many of a hundred packets.
    pub(super) fn spoil(&mut self, ways: &[Way], loss_percent: u32) {
        let number = self.wires.len() + 1;
        let (device, router) = (format!("wire{number}"), self.router());
        let program = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/real/partition/wire.py"
        );
        let mut wire = self
            .in_router("python3")
            .args([program, &device, "20", "20", &loss_percent.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut told = BufReader::new(wire.stdout.take().unwrap());
        self.wires.push(wire);
        told.read_line(&mut ready).unwrap();
        assert_eq!(ready.trim(), "ready", "the spoiled wire did not start");
        let table = 100 + number;
        assert!(ip(&format!("-n {router} link set {device} up")));
        assert!(ip(&format!(
            "-n {router} route add default dev {device} table {table}"
        )));
        for (from, to) in ways {
            // Only on the way in: what comes back from the wire goes on as ever.
            let rule = format!("iif c{from} from 10.71.{from}.2 to 10.71.{to}.2 lookup {table}");
            assert!(ip(&format!("-n {router} rule add {rule}")));
        }
    }

    /// The wires are sound again; what was under way on them is lost.
    pub(super) fn repair(&mut self) {
        for mut wire in self.wires.drain(..) {
            let _ = wire.kill();
            let _ = wire.wait();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.repair();
        for host in &self.hosts {
            ip(&format!("netns del {}", self.namespace(*host)));
        }
        ip(&format!("netns del {}", self.router()));
    }
}
