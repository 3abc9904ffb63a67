//! Hosts as namespaces: each has a network of its own, with one cable to a router, and processes of
//! its own, which end all at once.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use uuid::Uuid;

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// The numbers of the hosts.
const HOSTS: [u8; 2] = [1, 2];

/// A router and its hosts, taken down with it.
pub(super) struct Network {
    name: String,
}

/// Carried out as a shell would; whether it succeeded.
fn run(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let status = Command::new(program)
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Begins a host's first process, with which all others of the host end.
const FIRST: &str = "unshare --pid --fork --kill-child --mount-proc";

impl Network {
    /// `None` after saying that the test is skipped: namespaces are not permitted everywhere, so
    /// that is no failure in CI either.
    pub(super) fn new(test: &str) -> Option<Self> {
        let network = Self {
            name: format!("lr{}", &Uuid::new_v4().simple().to_string()[..6]),
        };
        let router = network.router();
        let forward = "sysctl -q -w net.ipv4.ip_forward=1";
        let made = run(&format!("ip netns add {router}"))
            && run(&format!("ip -n {router} link set lo up"))
            && run(&format!("ip netns exec {router} {forward}"))
            && HOSTS.iter().all(|&host| network.add(host))
            && HOSTS.iter().all(|&host| {
                let namespace = network.namespace(host);
                run(&format!("ip netns exec {namespace} {FIRST} true"))
            });
        if made {
            return Some(network);
        }
        let count = SKIPPED.fetch_add(1, Ordering::SeqCst) + 1;
        // Also where the test passes: what is printed then is not shown.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED {test}: network namespaces are not permitted here ({count} so far)"
        );
        None
    }

    fn router(&self) -> String {
        format!("{}r", self.name)
    }

    fn namespace(&self, host: u8) -> String {
        format!("{}h{host}", self.name)
    }

    /// Where a host's processes listen.
    pub(super) fn address(host: u8) -> String {
        format!("10.72.{host}.2")
    }

    fn add(&self, host: u8) -> bool {
        let (router, name) = (self.router(), self.namespace(host));
        let cable = format!("link add c{host} type veth peer name c0 netns {name}");
        run(&format!("ip netns add {name}"))
            && run(&format!("ip -n {router} {cable}"))
            && run(&format!(
                "ip -n {router} addr add 10.72.{host}.1/24 dev c{host}"
            ))
            && run(&format!("ip -n {router} link set c{host} up"))
            && run(&format!("ip -n {name} addr add 10.72.{host}.2/24 dev c0"))
            && run(&format!("ip -n {name} link set c0 up"))
            && run(&format!("ip -n {name} link set lo up"))
            && run(&format!(
                "ip -n {name} route add default via 10.72.{host}.1"
            ))
    }

    /// The command as the first process of a host.
    pub(super) fn on(&self, host: u8, command: &Command) -> Command {
        let mut wrapped = Command::new("ip");
        wrapped.args(["netns", "exec", &self.namespace(host)]);
        wrapped.args(FIRST.split_whitespace());
        wrapped.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            wrapped.env(name, value.unwrap_or_default());
        }
        wrapped
    }

    /// Takes the host's network away.
    pub(super) fn remove(&self, host: u8) {
        let namespace = self.namespace(host);
        assert!(run(&format!("ip netns del {namespace}")));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in HOSTS {
            run(&format!("ip netns del {}", self.namespace(host)));
        }
        run(&format!("ip netns del {}", self.router()));
    }
}
