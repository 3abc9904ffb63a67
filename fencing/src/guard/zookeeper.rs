//! A store on a ZooKeeper ensemble.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::client_thread::ClientThread;
use super::memory::check_size_below;
use super::store::{Creation, GuardStore};
use super::{GuardError, name};

/// A ZooKeeper server takes 1 MiB a packet (`jute.maxbuffer`), less what surrounds the record.
const LIMIT: usize = 1_000_000;

/// Records as persistent nodes under one node of a ZooKeeper ensemble; the largest has 1,000,000
/// bytes, and a listing's names must fit into 1 MiB: some 30,000 records.
///
/// A read of ZooKeeper may show what is old, since any server answers it from its own memory. Each
/// listing and read therefore begins with a write of the same session (of nothing, to the root
/// node), which the majority has to carry out: the server that answers afterwards has seen everything
/// before it. `sync` alone would not do: a deposed leader of the ensemble may answer it.
pub struct ZooKeeperGuardStore {
    cluster: String,
    root: String,
    digest: Option<(String, String)>,
    timeout: Duration,
    client: Mutex<Option<Client>>,
    thread: ClientThread,
}

impl ZooKeeperGuardStore {
    /// A store at an ensemble `host:port[,host:port…]` under a node such as
    /// `/lockkeeper/checkpoints`, which is created if needed. Nothing is connected before the
    /// first call. A call waits at most 5 s.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] when no thread can be started.
    pub fn new(cluster: impl Into<String>, root: impl Into<String>) -> Result<Self, GuardError> {
        let thread = ClientThread::start("lockkeeper-guard").map_err(|source| {
            let what = "starting its thread".to_owned();
            GuardError::Unavailable { what, source }
        })?;
        Ok(ZooKeeperGuardStore {
            cluster: cluster.into(),
            root: root.into(),
            digest: None,
            timeout: Duration::from_secs(5),
            client: Mutex::new(None),
            thread,
        })
    }

    /// Authenticates with scheme `digest` and lets only this user touch what is created.
    #[must_use]
    pub fn with_digest(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.digest = Some((user.into(), password.into()));
        self
    }

    /// How long a call waits, and the session that is asked for (5 s).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn acls(&self) -> Acls<'static> {
        if self.digest.is_some() {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// The client of the present session, or a new one.
    fn client(&self) -> io::Result<Client> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = slot
            .as_ref()
            .filter(|client| !client.state().is_terminated())
        {
            return Ok(client.clone());
        }
        let mut connector = Client::connector().with_session_timeout(self.timeout);
        if let Some((user, password)) = &self.digest {
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        let (cluster, root, acls) = (self.cluster.clone(), self.root.clone(), self.acls());
        let client = self.thread.run(self.timeout, async move {
            let client = connector.connect(&cluster).await?;
            let folder = CreateMode::Persistent.with_acls(acls);
            client.mkdir(&root, &folder).await?;
            Ok::<_, Error>(client)
        })?;
        let client = client.map_err(io::Error::other)?;
        *slot = Some(client.clone());
        Ok(client)
    }

    /// Asks something after a write that the majority has carried out.
    fn ask<T, F>(&self, what: String, ask: impl FnOnce(Client) -> F) -> Result<T, GuardError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let answer = self.client().and_then(|client| {
            let root = self.root.clone();
            let asking = ask(client.clone());
            let answer = self.thread.run(self.timeout, async move {
                client.set_data(&root, b"", None).await?;
                asking.await
            })?;
            answer.map_err(io::Error::other)
        });
        answer.map_err(|source| GuardError::Unavailable { what, source })
    }
}

impl GuardStore for ZooKeeperGuardStore {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        name::validate(name)?;
        check_size_below(LIMIT, name, bytes.len())?;
        let record = name.to_owned();
        let client = self.client().map_err(|source| GuardError::NotWritten {
            name: record.clone(),
            source,
        })?;
        let (path, bytes, acls) = (self.path(name), bytes.to_vec(), self.acls());
        let answer = self.thread.run(self.timeout, async move {
            let persistent = CreateMode::Persistent.with_acls(acls);
            client.create(&path, &bytes, &persistent).await.map(|_| ())
        });
        let unknown = |name, source| Err(GuardError::Unknown { name, source });
        match answer {
            Ok(Ok(())) => Ok(Creation::Created),
            Ok(Err(Error::NodeExists)) => Ok(Creation::AlreadyExists),
            Ok(Err(error)) if is_refusal(&error) => Err(GuardError::NotWritten {
                name: record,
                source: io::Error::other(error),
            }),
            Ok(Err(error)) => unknown(record, io::Error::other(error)),
            Err(source) => unknown(record, source),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        let root = self.root.clone();
        let list = |client: Client| async move { client.list_children(&root).await };
        let mut names = self.ask(format!("listing {prefix}*"), list)?;
        names.retain(|name| name.starts_with(prefix));
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        name::validate(name)?;
        let path = self.path(name);
        self.ask(format!("reading {name}"), |client| async move {
            match client.get_data(&path).await {
                Ok((bytes, _)) => Ok(Some(bytes)),
                Err(Error::NoNode) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        name::validate(name)?;
        let path = self.path(name);
        self.ask(format!("removing {name}"), |client| async move {
            match client.delete(&path, None).await {
                Ok(()) | Err(Error::NoNode) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl fmt::Debug for ZooKeeperGuardStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ZooKeeperGuardStore")
            .field("cluster", &self.cluster)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// Whether the ensemble refused the request before it did anything.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::NoNode
            | Error::NoAuth
            | Error::AuthFailed
            | Error::InvalidAcl
            | Error::BadArguments(_)
            | Error::NoChildrenForEphemerals
            | Error::QuotaExceeded
            | Error::NotReadOnly
    )
}
