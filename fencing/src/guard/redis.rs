//! A store on one Redis primary.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Client, Cmd, Connection, ErrorKind, FromRedisValue, RedisError, cmd};

use super::memory::check_size;
use super::store::{Creation, GuardStore, MAX_RECORD_BYTES};
use super::{GuardError, name};

/// How many keys one `SCAN` step looks at.
const SCAN_COUNT: usize = 1_000;

/// Records as keys of one Redis server: `SET … NX`, `SCAN`, `GET`, `DEL`.
///
/// - **One primary, `appendonly yes`, `appendfsync always`.** Redis then answers only after its
///   log is synced, and nobody is shown earlier what a loss of power could take back. With any other
///   setting a crash takes back what was answered: a fence that comes to be missing lets two leaders
///   publish. That is checked at each connection, together with `maxmemory-policy noeviction` and
///   the role; [`with_unchecked_durability`](Self::with_unchecked_durability) is for servers that
///   forbid `CONFIG`.
/// - **Fail-over can lose records.** Replication is asynchronous, also under Sentinel, Cluster and with
///   `WAIT`: a promoted replica may lack fences and manifests that were answered. Do not use this
///   store where a replica may be promoted; ZooKeeper, etcd and object stores do not have that
///   problem.
/// - **A listing has everything that was created before it began.** `SCAN` returns each key that
///   is there from its begin to its end, on the one server that also carries out the creations. It
///   passes over all keys of the database: give the guard a database (`redis://host/3`) of its own.
///
/// A connection that breaks is opened anew by the next call.
pub struct RedisGuardStore {
    client: Client,
    prefix: String,
    timeout: Duration,
    check_durability: bool,
    connection: Mutex<Option<Connection>>,
}

impl RedisGuardStore {
    /// A store at a URL such as `redis://user:password@host:6379/3`, whose keys begin with `prefix`.
    /// Nothing is connected before the first call. A call waits at most 5 s for each answer.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`] for a URL that cannot be read.
    pub fn new(url: &str, prefix: impl Into<String>) -> Result<Self, GuardError> {
        let client = Client::open(url).map_err(|error| GuardError::Unavailable {
            what: "reading the server's URL".to_owned(),
            source: into_io(error),
        })?;
        Ok(RedisGuardStore {
            client,
            prefix: prefix.into(),
            timeout: Duration::from_secs(5),
            check_durability: true,
            connection: Mutex::new(None),
        })
    }

    /// How long each answer of the server is waited for (5 s).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Does not ask the server how durable its answers are: you have made sure of it.
    #[must_use]
    pub fn with_unchecked_durability(mut self) -> Self {
        self.check_durability = false;
        self
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        // After a panic in the middle of an answer the connection is not to be used again.
        self.connection.lock().unwrap_or_else(|poisoned| {
            self.connection.clear_poison();
            let mut connection = PoisonError::into_inner(poisoned);
            *connection = None;
            connection
        })
    }

    fn open(&self) -> Result<Connection, Failed> {
        let opened = self.client.get_connection_with_timeout(self.timeout);
        let mut connection = opened.map_err(Failed::before_sending)?;
        let limited = connection
            .set_read_timeout(Some(self.timeout))
            .and_then(|()| connection.set_write_timeout(Some(self.timeout)));
        limited.map_err(Failed::before_sending)?;
        if self.check_durability {
            check_durability(&mut connection)?;
        }
        Ok(connection)
    }

    fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failed> {
        let mut slot = self.connection();
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let answer = command.query(&mut connection);
        match &answer {
            // The answer to this command could be taken for that of the next one.
            Err(error) if !is_refusal(error) => {}
            _ => *slot = Some(connection),
        }
        answer.map_err(Failed::after_sending)
    }

    /// # Errors
    /// As `ask`.
    fn scan(&self, prefix: &str) -> Result<Vec<String>, Failed> {
        let pattern = format!("{}*", escaped(&self.key(prefix)));
        // SCAN may return a key more than once.
        let mut names = BTreeSet::new();
        let mut cursor = 0_u64;
        loop {
            let mut step = cmd("SCAN");
            step.arg(cursor)
                .arg("MATCH")
                .arg(&pattern)
                .arg("COUNT")
                .arg(SCAN_COUNT);
            let (next, keys): (u64, Vec<String>) = self.ask(&step)?;
            let found = keys.iter().filter_map(|key| key.strip_prefix(&self.prefix));
            names.extend(found.map(str::to_owned));
            if next == 0 {
                return Ok(names.into_iter().collect());
            }
            cursor = next;
        }
    }
}

impl GuardStore for RedisGuardStore {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        name::validate(name)?;
        check_size(name, bytes.len())?;
        let answer: Result<Option<String>, Failed> =
            self.ask(cmd("SET").arg(self.key(name)).arg(bytes).arg("NX"));
        match answer {
            Ok(Some(_)) => Ok(Creation::Created),
            Ok(None) => Ok(Creation::AlreadyExists),
            Err(Failed { is_certain, source }) => {
                let name = name.to_owned();
                Err(if is_certain {
                    GuardError::NotWritten { name, source }
                } else {
                    GuardError::Unknown { name, source }
                })
            }
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        self.scan(prefix)
            .map_err(|failed| failed.unavailable(format!("listing {prefix}*")))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        name::validate(name)?;
        let unavailable = |failed: Failed| failed.unavailable(format!("reading {name}"));
        let size: usize = self
            .ask(cmd("STRLEN").arg(self.key(name)))
            .map_err(unavailable)?;
        check_size(name, size)?;
        debug_assert!(size <= MAX_RECORD_BYTES);
        self.ask(cmd("GET").arg(self.key(name)))
            .map_err(unavailable)
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        name::validate(name)?;
        self.ask::<u64>(cmd("DEL").arg(self.key(name)))
            .map(|_| ())
            .map_err(|failed| failed.unavailable(format!("removing {name}")))
    }
}

impl fmt::Debug for RedisGuardStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the client: its URL may hold a password.
        formatter
            .debug_struct("RedisGuardStore")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// A command that has no answer, and whether it certainly had no effect.
struct Failed {
    is_certain: bool,
    source: io::Error,
}

impl Failed {
    fn before_sending(error: RedisError) -> Self {
        Failed {
            is_certain: true,
            source: into_io(error),
        }
    }

    fn after_sending(error: RedisError) -> Self {
        Failed {
            is_certain: is_refusal(&error),
            source: into_io(error),
        }
    }

    fn unavailable(self, what: String) -> GuardError {
        GuardError::Unavailable {
            what,
            source: self.source,
        }
    }
}

/// Whether the server itself said no; all else may have come after the effect.
fn is_refusal(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed
    )
}

fn into_io(error: RedisError) -> io::Error {
    io::Error::other(error)
}

fn check_durability(connection: &mut Connection) -> Result<(), Failed> {
    for (option, wanted) in [
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("maxmemory-policy", "noeviction"),
    ] {
        let answer: Vec<String> = cmd("CONFIG")
            .arg("GET")
            .arg(option)
            .query(connection)
            .map_err(Failed::before_sending)?;
        let found = answer.get(1).map_or("unknown", String::as_str);
        if found != wanted {
            return Err(refused(format!(
                "the Redis server has {option} {found}, and a guard needs {option} {wanted}: \
                 otherwise a crash or a full memory takes records back"
            )));
        }
    }
    let role: redis::Value = cmd("ROLE")
        .query(connection)
        .map_err(Failed::before_sending)?;
    let name = match role {
        redis::Value::Array(parts) => parts.into_iter().next(),
        _ => None,
    };
    let name = name.and_then(|name| redis::from_redis_value::<String>(name).ok());
    if name.as_deref() != Some("master") {
        return Err(refused(format!(
            "the Redis server is no primary ({name:?}): a replica shows what is old"
        )));
    }
    Ok(())
}

fn refused(problem: String) -> Failed {
    Failed {
        is_certain: true,
        source: io::Error::new(io::ErrorKind::Unsupported, problem),
    }
}

/// A pattern that fits this text only.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(escaped("a[b]*?:"), "a\\[b\\]\\*\\?:");
    }

    #[test]
    fn a_password_is_not_printed() {
        let store = RedisGuardStore::new("redis://user:secret@127.0.0.1:1/0", "p:").unwrap();
        assert!(!format!("{store:?}").contains("secret"));
    }

    #[test]
    fn what_was_never_sent_was_not_written() {
        // Port 1: nobody listens there.
        let store = RedisGuardStore::new("redis://127.0.0.1:1/", "p:").unwrap();
        let error = store.create_if_absent("fence-1", b"").unwrap_err();
        assert!(matches!(error, GuardError::NotWritten { .. }), "{error}");
        let error = store.list("fence-").unwrap_err();
        assert!(matches!(error, GuardError::Unavailable { .. }), "{error}");
    }
}
