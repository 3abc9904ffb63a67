//! A store on an etcd cluster.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, ConnectOptions, Error, GetOptions, Txn, TxnOp};

use super::client_thread::ClientThread;
use super::memory::check_size_below;
use super::store::{Creation, GuardStore};
use super::{GuardError, name};
use crate::driver::EtcdTls;

/// What an etcd server takes by default (1.5 MiB a request), less what surrounds the record.
const LIMIT: usize = 1024 * 1024;

/// Records as keys of an etcd cluster; the largest has 1 MiB.
///
/// A creation is a transaction on "create revision is 0"; listings and reads are linearizable
/// (etcd's default). The largest record is what a server takes by default; keep manifests small and
/// let them name the data. Not to be used with compaction of *keys* by hand or a restored backup: what
/// was taken back is no history any longer.
pub struct EtcdGuardStore {
    endpoints: Vec<String>,
    prefix: String,
    user: Option<(String, String)>,
    tls: Option<EtcdTls>,
    timeout: Duration,
    client: Mutex<Option<Client>>,
    thread: ClientThread,
}

impl EtcdGuardStore {
    /// A store at endpoints such as `http://host:2379`, whose keys begin with `prefix`. Nothing is
    /// connected before the first call. A call waits at most 5 s.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] when no thread can be started.
    pub fn new(
        endpoints: impl IntoIterator<Item = impl Into<String>>,
        prefix: impl Into<String>,
    ) -> Result<Self, GuardError> {
        let thread = ClientThread::start("lockkeeper-guard").map_err(|source| {
            let what = "starting its thread".to_owned();
            GuardError::Unavailable { what, source }
        })?;
        Ok(EtcdGuardStore {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: prefix.into(),
            user: None,
            tls: None,
            timeout: Duration::from_secs(5),
            client: Mutex::new(None),
            thread,
        })
    }

    /// Authenticates as this user.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Connects by TLS; the endpoints then begin with `https://`.
    #[must_use]
    pub fn with_tls(mut self, tls: EtcdTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How long a call waits (5 s).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn client(&self) -> io::Result<Client> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*slot {
            return Ok(client.clone());
        }
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.timeout)
            .with_timeout(self.timeout);
        if let Some((name, password)) = &self.user {
            options = options.with_user(name, password);
        }
        if let Some(tls) = &self.tls {
            // The client would speak in the clear, and say nothing.
            if let Some(plain) = self
                .endpoints
                .iter()
                .find(|end| !end.starts_with("https://"))
            {
                let reason = format!("{plain} must begin with https:// where TLS is set");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
            options = options.with_tls(tls.options());
        }
        let endpoints = self.endpoints.clone();
        let connecting = async move { Client::connect(endpoints, Some(options)).await };
        let client = self.thread.run(self.timeout, connecting)?;
        let client = client.map_err(io::Error::other)?;
        *slot = Some(client.clone());
        Ok(client)
    }

    fn get(&self, key: String, options: GetOptions) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut client = self.client()?;
        let answer = self.thread.run(self.timeout, async move {
            let mut answer = client.get(key, Some(options)).await?;
            let found = answer.take_kvs().into_iter();
            Ok::<_, Error>(found.map(|found| found.into_key_value()).collect())
        })?;
        answer.map_err(io::Error::other)
    }
}

impl GuardStore for EtcdGuardStore {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        name::validate(name)?;
        check_size_below(LIMIT, name, bytes.len())?;
        let record = name.to_owned();
        let mut client = self.client().map_err(|source| GuardError::NotWritten {
            name: record.clone(),
            source,
        })?;
        let (key, bytes) = (self.key(name), bytes.to_vec());
        let answer = self.thread.run(self.timeout, async move {
            let absent = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
            let create = TxnOp::put(key, bytes, None);
            client
                .txn(Txn::new().when([absent]).and_then([create]))
                .await
        });
        match answer {
            Ok(Ok(answer)) if answer.succeeded() => Ok(Creation::Created),
            Ok(Ok(_)) => Ok(Creation::AlreadyExists),
            Ok(Err(error)) if is_refusal(&error) => Err(GuardError::NotWritten {
                name: record,
                source: io::Error::other(error),
            }),
            Ok(Err(error)) => Err(GuardError::Unknown {
                name: record,
                source: io::Error::other(error),
            }),
            Err(source) => Err(GuardError::Unknown {
                name: record,
                source,
            }),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        let options = GetOptions::new().with_prefix().with_keys_only();
        let found = self.get(self.key(prefix), options);
        let found = found.map_err(|source| GuardError::Unavailable {
            what: format!("listing {prefix}*"),
            source,
        })?;
        let names = found.into_iter().filter_map(|(key, _)| {
            let key = String::from_utf8(key).ok()?;
            key.strip_prefix(&self.prefix).map(str::to_owned)
        });
        Ok(names.collect())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        name::validate(name)?;
        let found = self.get(self.key(name), GetOptions::new());
        let found = found.map_err(|source| GuardError::Unavailable {
            what: format!("reading {name}"),
            source,
        })?;
        Ok(found.into_iter().next().map(|(_, bytes)| bytes))
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        name::validate(name)?;
        let key = self.key(name);
        let removed = self.client().and_then(|mut client| {
            let removing = async move { client.delete(key, None).await };
            self.thread
                .run(self.timeout, removing)?
                .map_err(io::Error::other)
        });
        removed
            .map(|_| ())
            .map_err(|source| GuardError::Unavailable {
                what: format!("removing {name}"),
                source,
            })
    }
}

impl fmt::Debug for EtcdGuardStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EtcdGuardStore")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Whether the server refused the request before it did anything. The codes are gRPC's.
fn is_refusal(error: &Error) -> bool {
    const INVALID_ARGUMENT: i32 = 3;
    const PERMISSION_DENIED: i32 = 7;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const UNAUTHENTICATED: i32 = 16;
    let Error::GRpcStatus(status) = error else {
        return matches!(error, Error::InvalidArgs(_) | Error::InvalidUri(_));
    };
    matches!(
        i32::from(status.code()),
        INVALID_ARGUMENT | PERMISSION_DENIED | RESOURCE_EXHAUSTED | UNAUTHENTICATED
    )
}
