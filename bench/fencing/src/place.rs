//! What decides, and where.

use std::process::Command;
use std::time::Duration;

use uuid::Uuid;

use bench_harness::Failure;

/// What the shared ZooKeeper grants at most is 4 s, what etcd wants is five times its election's 1 s; a
/// fail-over takes as long, fifty times.
const SESSION: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverName {
    File,
    ZooKeeper,
    Etcd,
}

impl DriverName {
    pub fn as_str(self) -> &'static str {
        match self {
            DriverName::File => "file",
            DriverName::ZooKeeper => "zookeeper",
            DriverName::Etcd => "etcd",
        }
    }
}

#[derive(Debug)]
pub struct Place {
    pub driver: DriverName,
    /// The server's address.
    pub server: String,
    /// The folder, or what nodes and keys begin with.
    pub root: String,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub fn in_a_folder() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().to_str().ok_or("a folder that is no text")?;
        Ok(Place {
            driver: DriverName::File,
            server: String::new(),
            root: root.to_owned(),
            _folder: Some(folder),
        })
    }

    pub fn on(driver: DriverName, server: &str) -> Self {
        Place {
            driver,
            server: server.to_owned(),
            root: format!("/lockkeeper-bench-{}", Uuid::new_v4()),
            _folder: None,
        }
    }

    /// As [`contender`](Self::contender) writes them.
    pub fn from_arguments(driver: &str, place: &str) -> Result<Self, Failure> {
        let known = [DriverName::File, DriverName::ZooKeeper, DriverName::Etcd];
        let driver = known.into_iter().find(|known| known.as_str() == driver);
        let (server, root) = place.split_once('|').ok_or("no place")?;
        Ok(Place {
            driver: driver.ok_or("no such driver")?,
            server: server.to_owned(),
            root: root.to_owned(),
            _folder: None,
        })
    }

    /// The command that contends there.
    pub fn contender(&self) -> Result<Command, Failure> {
        let mut node = Command::new(std::env::current_exe()?);
        let place = format!("{}|{}", self.server, self.root);
        node.args(["node", self.driver.as_str(), &place]);
        Ok(node)
    }

    pub fn session(&self) -> Duration {
        SESSION
    }

    pub fn session_ms(&self) -> f64 {
        SESSION.as_secs_f64() * 1_000.0
    }
}
