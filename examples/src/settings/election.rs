//! `[election]`: what decides who leads.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use lockkeeper_fencing::driver::{LeaseFiles, SuspensionPolicy, ZooKeeper};
use lockkeeper_fencing::election::LeaderElectionOptions;
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::secret::Secret;

/// What decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ElectionDriver {
    /// Lease files in a folder.
    #[default]
    File,
    /// A ZooKeeper ensemble.
    Zookeeper,
    /// An etcd cluster (feature `etcd`).
    Etcd,
    /// A Lease of a Kubernetes cluster (feature `kubernetes`).
    Kubernetes,
}

/// What happens to a leader that can't reach what decides; see [`SuspensionPolicy`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Suspension {
    /// It is revoked and contends anew.
    #[default]
    Stop,
    /// It stays, without effects.
    KeepWorkingWithoutEffects,
}

impl From<Suspension> for SuspensionPolicy {
    fn from(suspension: Suspension) -> Self {
        match suspension {
            Suspension::Stop => Self::Stop,
            Suspension::KeepWorkingWithoutEffects => Self::KeepWorkingWithoutEffects,
        }
    }
}

/// See the drivers of `lockkeeper_fencing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ElectionSettings {
    /// What decides.
    pub driver: ElectionDriver,
    /// The folder of driver `file`, on a disk that all candidates share.
    pub folder: Option<PathBuf>,
    /// The servers of the other drivers, `host:port`.
    pub servers: Vec<String>,
    /// What its nodes or keys begin with there.
    pub root: String,
    /// The user there.
    pub user: Option<String>,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// The password; by the environment only.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// How long leadership holds without renewal; none: the driver's own (2 s with files, 15 s with
    /// Kubernetes, 10 s).
    pub session: Option<Duration>,
    /// How often driver `file` looks into its folder. 20 ms.
    pub poll_interval: Duration,
    /// What happens to a leader that can't reach what decides. Not for driver `file`.
    pub suspension: Suspension,
    /// How long a close waits for the leader to end its work. 1 s.
    pub revoke_timeout: Duration,
    /// What only driver `kubernetes` needs.
    pub kubernetes: KubernetesSettings,
}

/// See `Kubernetes` of [`lockkeeper_fencing::driver`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KubernetesSettings {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name; it is made if needed.
    pub lease: String,
    /// The API server, without credentials, such as `kubectl proxy`; none: that of the pod's service
    /// account or of the user's kubeconfig.
    pub url: Option<String>,
    /// How often standbys and retrievals read it.
    pub poll_interval: Duration,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            lease: "lockkeeper".to_owned(),
            url: None,
            poll_interval: Duration::from_secs(1),
        }
    }
}

impl Default for ElectionSettings {
    fn default() -> Self {
        Self {
            driver: ElectionDriver::default(),
            folder: None,
            servers: Vec::new(),
            root: "/lockkeeper".to_owned(),
            user: None,
            password_file: None,
            password: None,
            session: None,
            poll_interval: Duration::from_millis(20),
            suspension: Suspension::default(),
            revoke_timeout: Duration::from_secs(1),
            kubernetes: KubernetesSettings::default(),
        }
    }
}

impl ElectionSettings {
    /// How an election works, whatever decides.
    #[must_use]
    pub fn options(&self) -> LeaderElectionOptions {
        LeaderElectionOptions::default().with_revoke_timeout(self.revoke_timeout)
    }

    /// Driver `file`, in its folder or in another one if none is set.
    #[must_use]
    pub fn files(&self, otherwise: impl Into<PathBuf>) -> LeaseFiles {
        let folder = self.folder.clone().unwrap_or_else(|| otherwise.into());
        let files = LeaseFiles::new(folder).with_poll_interval(self.poll_interval);
        match self.session {
            Some(session) => files.with_session(session),
            None => files,
        }
    }

    /// Driver `zookeeper`.
    ///
    /// # Errors
    /// A root that can't be one; a password file that can't be read.
    pub fn zookeeper(&self) -> anyhow::Result<ZooKeeper> {
        let mut ensemble = ZooKeeper::new(self.servers.join(","), &self.root)?
            .with_suspension(self.suspension.into());
        if let Some((user, password)) = self.credentials()? {
            ensemble = ensemble.with_digest(user, password.reveal());
        }
        Ok(match self.session {
            Some(session) => ensemble.with_session(session),
            None => ensemble,
        })
    }

    /// Driver `etcd`.
    ///
    /// # Errors
    /// A password file that can't be read.
    #[cfg(feature = "etcd")]
    pub fn etcd(&self) -> anyhow::Result<lockkeeper_fencing::driver::Etcd> {
        let servers = self.servers.iter().map(|server| format!("http://{server}"));
        let mut cluster = lockkeeper_fencing::driver::Etcd::new(servers, &self.root)
            .with_suspension(self.suspension.into());
        if let Some((user, password)) = self.credentials()? {
            cluster = cluster.with_user(user, password.reveal());
        }
        Ok(match self.session {
            Some(session) => cluster.with_session(session),
            None => cluster,
        })
    }

    /// Driver `kubernetes`.
    #[cfg(feature = "kubernetes")]
    #[must_use]
    pub fn kubernetes(&self) -> lockkeeper_fencing::driver::Kubernetes {
        let KubernetesSettings {
            namespace,
            lease,
            url,
            poll_interval,
        } = &self.kubernetes;
        let mut cluster = lockkeeper_fencing::driver::Kubernetes::new(namespace, lease)
            .with_poll_interval(*poll_interval)
            .with_suspension(self.suspension.into());
        if let Some(url) = url {
            cluster = cluster.with_url(url);
        }
        match self.session {
            Some(session) => cluster.with_session(session),
            None => cluster,
        }
    }

    fn credentials(&self) -> anyhow::Result<Option<(&str, Secret)>> {
        let Some(user) = &self.user else {
            return Ok(None);
        };
        match Secret::given(self.password.as_ref(), self.password_file.as_deref())? {
            Some(password) => Ok(Some((user, password))),
            None => bail!(
                "election.user needs election.password_file, or a password in LOCKKEEPER__ELECTION__PASSWORD"
            ),
        }
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        let driver = self.driver;
        let by_server = matches!(driver, ElectionDriver::Zookeeper | ElectionDriver::Etcd);
        rules.must(
            "election.servers",
            !by_server || !self.servers.is_empty(),
            "must name a server, host:port, for the drivers zookeeper and etcd",
        );
        rules.text("election.root", &self.root, 1_000);
        if let Some(session) = self.session {
            let least = Duration::from_millis(100);
            rules.times(
                "election.session",
                session,
                least..=Duration::from_secs(3_600),
            );
        }
        rules.time("election.poll_interval", self.poll_interval);
        let session = self.session.unwrap_or(Duration::from_secs(2));
        rules.must(
            "election.poll_interval",
            driver != ElectionDriver::File || self.poll_interval <= session / 4,
            "must be at most a quarter of the session",
        );
        if driver == ElectionDriver::Kubernetes {
            let session = self.session.unwrap_or(Duration::from_secs(15));
            let rule = "must be at least 1s for the driver kubernetes";
            rules.must("election.session", session >= Duration::from_secs(1), rule);
            let (key, poll) = (
                "election.kubernetes.poll_interval",
                self.kubernetes.poll_interval,
            );
            let rule = "must be at most a quarter of the session";
            rules.must(key, poll <= session / 4, rule);
        }
        rules.text(
            "election.kubernetes.namespace",
            &self.kubernetes.namespace,
            63,
        );
        rules.text("election.kubernetes.lease", &self.kubernetes.lease, 253);
        rules.time(
            "election.kubernetes.poll_interval",
            self.kubernetes.poll_interval,
        );
        rules.time("election.revoke_timeout", self.revoke_timeout);
    }
}
