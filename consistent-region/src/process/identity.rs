//! Which operating-system process a worker is, so that its death can be proved on the same host.
//!
//! A process that was killed can't act any more, whatever its lease says: the coordinator places
//! its operators anew at once. A stopped process (SIGSTOP) is not gone: its lease must run out.

use std::fs;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A process of one boot of one host (Linux). Process ids are used again, start times of a boot
/// are not, so that the three together name one process for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The kernel's boot id, and the process id namespace: where `pid` has a meaning.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub started: u64,
}

impl ProcessIdentity {
    /// This process; `None` where `/proc` does not tell.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this id now, on this host; `None` when there is none, or where `/proc`
    /// does not tell.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let started = Stat::read(pid)?.started;
        Some(Self {
            host: this_host()?.clone(),
            pid,
            started,
        })
    }

    /// Needs no look at `/proc`: a worker beside its coordinator is asked about many times a second.
    fn is_this_process(&self) -> bool {
        static STARTED: OnceLock<Option<u64>> = OnceLock::new();
        let started = || Stat::read(std::process::id()).map(|stat| stat.started);
        self.pid == std::process::id() && *STARTED.get_or_init(started) == Some(self.started)
    }

    /// Whether it is, or was, a process of this boot of this host.
    #[must_use]
    pub fn is_of_this_host(&self) -> bool {
        this_host() == Some(&self.host)
    }

    /// Whether that process is known to have ended: only a process of this host can be known so,
    /// and in doubt it lives.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        if this_host() != Some(&self.host) || self.is_this_process() {
            return false;
        }
        match fs::read_to_string(stat_path(self.pid)) {
            Ok(text) => {
                Stat::parse(&text).is_some_and(|stat| stat.started != self.started || stat.ended())
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }
}

/// Read once: neither the boot nor the namespace of a process changes.
fn this_host() -> Option<&'static String> {
    static HOST: OnceLock<Option<String>> = OnceLock::new();
    HOST.get_or_init(read_host).as_ref()
}

fn read_host() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), namespace.display()))
}

fn stat_path(pid: u32) -> String {
    format!("/proc/{pid}/stat")
}

struct Stat {
    state: char,
    threads: u64,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(stat_path(pid)).ok()?)
    }

    /// The command's name may hold spaces and parentheses: what counts comes after the last one.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            threads: fields.get(17)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// A zombie acts no more, unless only its first thread ended.
    fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_child_is_gone_once_killed_and_this_process_is_not() {
        let me = ProcessIdentity::of_this_process().unwrap();
        assert!(!me.is_gone());
        assert!(
            !ProcessIdentity {
                host: "elsewhere".to_owned(),
                ..me.clone()
            }
            .is_gone()
        );
        assert!(
            ProcessIdentity {
                started: me.started + 1,
                ..me.clone()
            }
            .is_gone()
        );

        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity {
            pid: child.id(),
            started: Stat::read(child.id()).unwrap().started,
            ..me
        };
        assert!(!identity.is_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(identity.is_gone());
    }

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let text = "7 (a) b) Z 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.state, stat.threads, stat.started), ('Z', 1, 4242));
        assert!(stat.ended());
    }
}
