//! A faulty network for tests, between services of any processes (feature `testing`).
//!
//! [`FaultProxy`] forwards connections to a service and does to them what networks do, when a test
//! says so. Nothing in the services knows of it: what is tested is what runs in production.
//!
//! ```
//! use std::time::Duration;
//! use lockkeeper_core::RpcService;
//! use lockkeeper_remote::{RemoteBuilderExt, testing::FaultProxy};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
//! let proxy = FaultProxy::start("127.0.0.1", service.port().unwrap()).await?;
//! // Clients connect to proxy.through(&address) instead of the endpoint's address.
//! proxy.delay(Duration::from_millis(5));
//! proxy.cut();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod pump;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::{Authority, RpcAddress};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Forwards connections to a service, with faults. Ends when it is dropped.
///
/// [`drop_messages`](Self::drop_messages) and [`duplicate_messages`](Self::duplicate_messages) look
/// at the protocol and need a connection without TLS and shared keys; all else works with them.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    host: String,
    port: u16,
    faults: watch::Sender<Faults>,
    /// Cancelled by a cut, and replaced.
    connections: Mutex<CancellationToken>,
}

/// What is done to connections now.
#[derive(Clone, Debug, Default)]
struct Faults {
    delay: Duration,
    /// Messages still to be lost.
    lost: u32,
    /// Messages still to be sent twice.
    doubled: u32,
    is_half_open: bool,
    bytes_per_second: Option<u32>,
    refuses: bool,
}

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1 and forwards to that host and port. Needs a tokio
    /// runtime, on which it runs.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn start(host: &str, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            host: host.to_owned(),
            port,
            faults: watch::Sender::default(),
            connections: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self {
            address,
            state,
            accepting,
        })
    }

    /// Where the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same endpoint, reached through the proxy.
    #[must_use]
    pub fn through(&self, endpoint: &RpcAddress) -> RpcAddress {
        RpcAddress::remote(Authority::from(self.address), endpoint.endpoint().clone())
    }

    /// Each piece of data arrives that much later, in both directions. Zero: as soon as it can.
    pub fn delay(&self, delay: Duration) {
        self.state.change(|faults| faults.delay = delay);
    }

    /// Loses the next so many calls, one-way messages and answers, in either direction. TCP does
    /// not do that; a broken peer does.
    pub fn drop_messages(&self, count: u32) {
        self.state.change(|faults| faults.lost = count);
    }

    /// Sends the next so many calls, one-way messages and answers twice. TCP does not do that
    /// either: a peer that gets a call twice while it runs ends the connection.
    pub fn duplicate_messages(&self, count: u32) {
        self.state.change(|faults| faults.doubled = count);
    }

    /// Forwards nothing, in either direction, while all connections stay: a cable pulled somewhere
    /// on the way. With `false` all that was held goes on.
    pub fn half_open(&self, is_half_open: bool) {
        self.state
            .change(|faults| faults.is_half_open = is_half_open);
    }

    /// Takes at most so many bytes a second from each side, as a peer does that reads slowly.
    pub fn read_slowly(&self, bytes_per_second: Option<u32>) {
        self.state
            .change(|faults| faults.bytes_per_second = bytes_per_second);
    }

    /// Closes new connections at once, as long as it is set.
    pub fn refuse(&self, refuses: bool) {
        self.state.change(|faults| faults.refuses = refuses);
    }

    /// Cuts all connections that there are.
    pub fn cut(&self) {
        let mut connections = self.state.connections();
        connections.cancel();
        *connections = CancellationToken::new();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl State {
    fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, CancellationToken> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of the next message.
    fn next_message(&self) -> Copies {
        let mut copies = Copies::One;
        self.faults.send_if_modified(|faults| {
            if faults.lost > 0 {
                faults.lost -= 1;
                copies = Copies::None;
            } else if faults.doubled > 0 {
                faults.doubled -= 1;
                copies = Copies::Two;
            }
            copies != Copies::One
        });
        copies
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    None,
    One,
    Two,
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        if state.faults.borrow().refuses {
            continue;
        }
        let (state, cut) = (Arc::clone(&state), state.connections().clone());
        tokio::spawn(async move {
            tokio::select! {
                () = cut.cancelled() => {}
                _ = forward(client, state) => {}
            }
        });
    }
}

/// Until either side closes.
async fn forward(client: TcpStream, state: Arc<State>) -> std::io::Result<()> {
    let server = TcpStream::connect((&*state.host, state.port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        ended = pump::pump(from_client, to_server, &state) => ended,
        ended = pump::pump(from_server, to_client, &state) => ended,
    }
}
