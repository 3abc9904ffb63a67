//! The server to start: its builder, its thread, its end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;

use super::destination::{Destination, Script};
use super::handle::CanalServerHandle;
use super::machine::{ServerMachine, ServerSettings};
use super::shell::{self, Shared};
use super::source::RowSource;
use super::store::StoreLimits;
use super::version::ServerVersion;

/// The name of the destination if the builder is told none; Canal's own example has it too.
const DEFAULT_DESTINATION: &str = "example";

/// How often the real server writes its cursors (`canal.zookeeper.flush.period`).
const DEFAULT_CURSOR_FLUSH: Duration = Duration::from_secs(1);

/// A Canal server within this process: see the [module](super).
///
/// It runs on a thread of its own and ends when it is dropped.
#[derive(Debug)]
pub struct CanalServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    destinations: Vec<String>,
    thread: Option<JoinHandle<()>>,
}

/// Settings of a [`CanalServer`].
pub struct CanalServerBuilder {
    settings: ServerSettings,
    limits: StoreLimits,
    cursor_flush: Duration,
    address: SocketAddr,
    destinations: Vec<(String, Option<Box<dyn RowSource>>)>,
}

impl CanalServer {
    /// A server on a free port of 127.0.0.1, with one destination `example`, that lets anyone in.
    #[must_use]
    pub fn builder() -> CanalServerBuilder {
        CanalServerBuilder {
            settings: ServerSettings::default(),
            limits: StoreLimits::default(),
            cursor_flush: DEFAULT_CURSOR_FLUSH,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            destinations: Vec::new(),
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The handle of the first destination.
    #[must_use]
    pub fn handle(&self) -> CanalServerHandle {
        let first = self.destinations.first().map_or("", String::as_str);
        CanalServerHandle::new(Arc::clone(&self.shared), first)
    }

    /// The handle of a destination by its name; `None` for one that the server does not have.
    #[must_use]
    pub fn destination(&self, name: &str) -> Option<CanalServerHandle> {
        self.destinations
            .iter()
            .any(|known| known == name)
            .then(|| CanalServerHandle::new(Arc::clone(&self.shared), name))
    }

    /// Closes all connections and ends the server's thread. Dropping the server does the same.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the embedded Canal server has panicked");
        }
    }
}

impl Drop for CanalServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl CanalServerBuilder {
    /// Adds a destination. Without any, there is one named `example`.
    #[must_use]
    pub fn destination(mut self, name: impl Into<String>) -> Self {
        self.destinations.push((name.into(), None));
        self
    }

    /// Gives the last added destination a script.
    #[must_use]
    pub fn source(mut self, source: impl RowSource + 'static) -> Self {
        if self.destinations.is_empty() {
            self = self.destination(DEFAULT_DESTINATION);
        }
        if let Some((_, slot)) = self.destinations.last_mut() {
            *slot = Some(Box::new(source));
        }
        self
    }

    /// Asks clients for this user and password. An empty user means any name, an empty password none.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.settings.user = name.into();
        self.settings.password = password.into();
        self
    }

    /// Behaves like a server of this version.
    #[must_use]
    pub fn version(mut self, version: ServerVersion) -> Self {
        self.settings.version = version;
        self
    }

    /// The limits of each destination's store.
    #[must_use]
    pub fn store(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How long after an ack the cursor is written, which is what a
    /// [`Restart::Killed`](super::Restart::Killed) finds. Default 1 second, as the real server's.
    /// Entries are kept in memory from the written cursor on.
    #[must_use]
    pub fn cursor_flush(mut self, period: Duration) -> Self {
        self.cursor_flush = period;
        self
    }

    /// Listens here instead of a free port of 127.0.0.1.
    #[must_use]
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Listens, and serves on a thread of its own.
    ///
    /// # Errors
    ///
    /// The address cannot be bound, the thread cannot be started, or two destinations have one name.
    pub fn start(mut self) -> io::Result<CanalServer> {
        if self.destinations.is_empty() {
            self = self.destination(DEFAULT_DESTINATION);
        }
        let names: Vec<String> = self
            .destinations
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        if let Some(name) = first_repeated(&names) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("destination {name} is named twice: give each its own name"),
            ));
        }
        let destinations = self.destinations.into_iter().map(|(name, source)| {
            Destination::new(name, self.limits, self.cursor_flush, Script::new(source))
        });
        let machine = ServerMachine::new(self.settings, destinations.collect());
        let (shared, orders) = Shared::new(machine);

        let listener = std::net::TcpListener::bind(self.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("canal-server".to_owned())
            .spawn(move || runtime.block_on(shell::run(served, listener, address, orders)))?;
        Ok(CanalServer {
            address,
            shared,
            destinations: names,
            thread: Some(thread),
        })
    }
}

fn first_repeated(names: &[String]) -> Option<&String> {
    names
        .iter()
        .enumerate()
        .find(|(index, name)| names.iter().take(*index).any(|earlier| earlier == *name))
        .map(|(_, name)| name)
}

impl std::fmt::Debug for CanalServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self
            .destinations
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        f.debug_struct("CanalServerBuilder")
            .field("address", &self.address)
            .field("version", &self.settings.version)
            .field("destinations", &names)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
