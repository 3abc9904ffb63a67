//! What listener, dialling and sessions of one service have in common.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use lockkeeper_core::error::TimeoutPhase;
use lockkeeper_core::{Authority, RpcError};
use tokio::net::TcpStream;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::connection::Settings;
use crate::errors;
use crate::io::IoTasks;
use crate::link::{
    BoxStream, Endpoints, IntroductionError, LinkHandle, LinkTask, Peer, Role, WHOLE_LIMIT,
    introduce, secure_dialled,
};
use crate::lost::Lost;
use crate::peers::Peers;
use crate::quiet_log::QuietLog;
use crate::refusals::Refusals;
use crate::security::Security;
use crate::settings::{MIN_FRAME_LIMIT_BYTES, RemoteSettings};
use crate::wire::{Grant, Preface, WireError};

/// The common state; behind an `Arc`.
pub(crate) struct Shared {
    pub(crate) settings: RemoteSettings,
    pub(crate) authority: Authority,
    /// The bound address, which may differ from the advertised one.
    pub(crate) bound: SocketAddr,
    pub(crate) preface: Preface,
    pub(crate) security: Security,
    /// Strangers that were not let in, by reason.
    pub(crate) refusals: Refusals,
    pub(crate) endpoints: Endpoints,
    pub(crate) peers: Peers,
    /// Warnings that peers can cause at will.
    pub(crate) log: Arc<QuietLog>,
    pub(crate) lost: Arc<Lost>,
    /// Where the sockets live.
    pub(crate) io: IoTasks,
    /// Cancelled when the service shuts down.
    pub(crate) shut: CancellationToken,
}

/// Why an attempt to dial failed.
enum DialError {
    Connect(std::io::Error),
    Introduction(IntroductionError),
    TimedOut,
}

/// A connection's place in the tables, and among the accepted ones; given back even if its task
/// panics or goes down with its thread.
struct Admitted {
    shared: Arc<Shared>,
    handle: Arc<LinkHandle>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.peers.remove(&self.handle);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("authority", &self.authority)
            .field("bound", &self.bound)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A connection to the process at `authority`: the present one, or a new one.
    ///
    /// One attempt: a refused connection is reported at once, and later attempts keep a pause that
    /// grows, within which callers wait.
    pub(crate) async fn link(
        self: &Arc<Self>,
        authority: &Authority,
        deadline: Instant,
    ) -> Result<Arc<LinkHandle>, RpcError> {
        if self.shut.is_cancelled() {
            return Err(errors::shut_down());
        }
        if let Some(link) = self.peers.usable(authority) {
            return Ok(link);
        }
        let begun = Instant::now();
        let limit = deadline.into();
        let too_late = || {
            let call = format_args!("connecting to {authority}");
            let waited = begun.elapsed();
            RpcError::timeout(&call, waited, TimeoutPhase::Connecting)
        };
        let gate = self.peers.dialling(authority);
        let mut pause = timeout_at(limit, gate.lock())
            .await
            .map_err(|_| too_late())?;
        if let Some(link) = self.peers.usable(authority) {
            return Ok(link);
        }
        if let Some(until) = pause.until {
            timeout_at(limit, sleep_until(until.into()))
                .await
                .map_err(|_| too_late())?;
        }
        let shared = Arc::clone(self);
        let target = authority.clone();
        // Beside the sockets, and to its end even if this caller gives up: others wait for it too.
        let attempt = self.io.spawn(async move { shared.dial(target).await });
        let Ok(attempt) = timeout_at(limit, attempt).await else {
            return Err(too_late());
        };
        let failed = match attempt {
            Err(_) | Ok(None) => return Err(errors::shut_down()),
            Ok(Some(Ok(link))) => {
                pause.succeeded();
                return Ok(link);
            }
            Ok(Some(Err(failed))) => failed,
        };
        let RemoteSettings {
            reconnect_pause,
            reconnect_pause_limit,
            ..
        } = self.settings;
        pause.failed(Instant::now(), reconnect_pause, reconnect_pause_limit);
        Err(match failed {
            DialError::Connect(error) => errors::undialled(authority, pause.attempts, &error),
            DialError::Introduction(error) => errors::unintroduced(authority, &error),
            DialError::TimedOut => {
                let call = format_args!("connecting to {authority}");
                RpcError::timeout(
                    &call,
                    self.settings.handshake_timeout,
                    TimeoutPhase::Connecting,
                )
            }
        })
    }

    async fn dial(self: Arc<Self>, authority: Authority) -> Result<Arc<LinkHandle>, DialError> {
        let attempt = async {
            let address = (authority.host(), authority.port());
            let socket = TcpStream::connect(address)
                .await
                .map_err(DialError::Connect)?;
            socket.set_nodelay(true).map_err(DialError::Connect)?;
            let from = socket.peer_addr().map_err(DialError::Connect)?;
            let met = self.meet(socket, authority.host()).await;
            let (stream, theirs) = met.map_err(DialError::Introduction)?;
            Ok((stream, from, theirs))
        };
        let (stream, from, theirs) = timeout(self.settings.handshake_timeout, attempt)
            .await
            .unwrap_or(Err(DialError::TimedOut))?;
        self.adopt(stream, from, theirs, Role::Dialler, Some(&authority), None)
            .map_err(DialError::Introduction)
    }

    /// Secures a dialled socket and introduces the two sides.
    async fn meet(
        &self,
        socket: TcpStream,
        host: &str,
    ) -> Result<(BoxStream, Preface), IntroductionError> {
        let mut stream = secure_dialled(socket, host, &self.security).await?;
        let theirs = introduce(&mut stream, Role::Dialler, &self.preface, &self.security).await?;
        Ok((stream, theirs))
    }

    /// Runs an introduced connection and returns the one to be used for its process.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        stream: BoxStream,
        socket: SocketAddr,
        theirs: Preface,
        role: Role,
        dialled: Option<&Authority>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Arc<LinkHandle>, IntroductionError> {
        if theirs.frame_limit < MIN_FRAME_LIMIT_BYTES {
            return Err(WireError::BadValue {
                frame: "preface",
                field: "frame limit",
                value: u64::from(theirs.frame_limit),
            }
            .into());
        }
        let frame_limit = theirs.frame_limit.min(self.settings.frame_limit_bytes);
        let ours = self.preface.versions;
        let Some(version) = ours.highest_common(theirs.versions) else {
            let theirs = theirs.versions;
            return Err(IntroductionError::Versions { ours, theirs });
        };
        let peer = Peer {
            version,
            incarnation: theirs.incarnation,
            listening: theirs.listening.parse().ok(),
            application: theirs.application,
            socket,
            role,
        };
        tracing::debug!(
            socket = %peer.socket,
            application = peer.application,
            incarnation = %peer.incarnation,
            role = ?peer.role,
            frame_limit,
            "connection made"
        );
        let (handle, requests) =
            LinkHandle::new(peer, frame_limit, self.settings.outgoing_limit_bytes);
        let handle = Arc::new(handle);
        let settings = self.machine_settings(version, frame_limit);
        let endpoints = Arc::clone(&self.endpoints);
        let log = Arc::clone(&self.log);
        let task = LinkTask::new(
            stream,
            Arc::clone(&handle),
            requests,
            settings,
            endpoints,
            log,
            Arc::clone(&self.lost),
        );
        let used = self.peers.admit(&handle, dialled);
        let admitted = Admitted {
            shared: Arc::clone(self),
            handle,
            _permit: permit,
        };
        self.io.spawn(async move {
            task.run().await;
            drop(admitted);
        });
        Ok(used)
    }

    fn machine_settings(&self, version: u16, frame_limit: u32) -> Settings {
        let settings = &self.settings;
        Settings {
            version,
            frame_limit,
            whole_limit: WHOLE_LIMIT,
            in_flight_limit: settings.in_flight_limit,
            session_limit: settings.session_limit,
            grant: Grant {
                messages: settings.credit_messages,
                bytes: settings.credit_bytes,
            },
            unsent_limit: usize::try_from(settings.outgoing_limit_bytes).unwrap_or(usize::MAX),
            ping_interval: settings.ping_interval,
            ping_timeout: settings.ping_timeout,
        }
    }
}
