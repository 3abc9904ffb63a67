//! How a service gets its transport: `RpcService::builder().bind(..)…start()`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lockkeeper_core::status::StatusSource;
use lockkeeper_core::{Authority, RpcError, RpcErrorKind, RpcService, RpcServiceBuilder};
use tokio::net::{TcpListener, lookup_host};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::io::Io;
use crate::link::Endpoints;
use crate::listener::listen;
use crate::lost::Lost;
use crate::peers::Peers;
use crate::quiet_log::QuietLog;
use crate::refusals::Refusals;
use crate::security::Security;
use crate::settings::RemoteSettings;
use crate::shared::Shared;
use crate::transport::TcpTransport;
use crate::wire::{Preface, VERSIONS, VersionRange};

/// Adds [`bind`](Self::bind) to core's [`RpcServiceBuilder`].
pub trait RemoteBuilderExt {
    /// The service listens on this address (`host:port`) and can call other processes. Port 0
    /// takes any free port.
    fn bind(self, address: impl Into<String>) -> RemoteBuilder;
}

impl RemoteBuilderExt for RpcServiceBuilder {
    fn bind(self, address: impl Into<String>) -> RemoteBuilder {
        RemoteBuilder {
            service: self,
            bind: address.into(),
            advertise: None,
            ports: None,
            allow_insecure: false,
            security: Security::default(),
            application: String::new(),
            versions: VERSIONS,
            on_this_thread: false,
            settings: RemoteSettings::default(),
        }
    }
}

/// Settings of a service that talks to other processes.
///
/// ```
/// use lockkeeper_core::RpcService;
/// use lockkeeper_remote::RemoteBuilderExt;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
/// # Ok::<(), lockkeeper_core::RpcError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct RemoteBuilder {
    service: RpcServiceBuilder,
    bind: String,
    advertise: Option<String>,
    ports: Option<RangeInclusive<u16>>,
    allow_insecure: bool,
    security: Security,
    application: String,
    versions: VersionRange,
    settings: RemoteSettings,
    on_this_thread: bool,
}

impl RemoteBuilder {
    /// The address (`host:port`) that other processes dial, if it is not the bound one: behind NAT
    /// or in a container. Port 0 stands for the bound port.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Encrypts all connections, and demands a certificate of both sides. Both have to set it.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.security.tls = Some(tls);
        self
    }

    /// Demands of every peer that it knows one of these keys, and proves that this side does. Both
    /// have to set it.
    #[cfg(feature = "shared-key")]
    pub fn shared_keys(mut self, keys: crate::SharedKeys) -> Self {
        self.security.keys = Some(keys);
        self
    }

    /// Allows listening beyond loopback without TLS and shared key. Whoever reaches the port can then call every endpoint and
    /// read along: only for networks in which every host and every user is trusted. Default: false.
    pub fn allow_insecure(mut self, allow: bool) -> Self {
        self.allow_insecure = allow;
        self
    }

    /// Binds the first free port of these instead of the address' own: for firewalls that let a
    /// range through. Another program may hold some of them.
    pub fn port_range(mut self, ports: RangeInclusive<u16>) -> Self {
        self.ports = Some(ports);
        self
    }

    /// The largest frame in bytes, see [`RemoteSettings::frame_limit_bytes`].
    pub fn frame_limit(mut self, bytes: u32) -> Self {
        self.settings.frame_limit_bytes = bytes;
        self
    }

    /// The application's version, which peers see in their logs. Default: empty.
    pub fn application_version(mut self, version: impl Into<String>) -> Self {
        self.application = version.into();
        self
    }

    /// All limits and times at once.
    pub fn settings(mut self, settings: RemoteSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Keeps the sockets on the thread that calls [`start`](Self::start), which must run a Tokio
    /// runtime (every arbiter does), instead of on a thread of their own. A call between an
    /// endpoint of this thread and another process then crosses no thread, which is worth some
    /// ten microseconds at one call in flight.
    ///
    /// Not for a thread whose handlers compute or block for long: while one does, no connection
    /// of the service reads, writes or answers pings, and peers take it for dead after their
    /// `ping_timeout`.
    pub fn io_on_this_thread(mut self) -> Self {
        self.on_this_thread = true;
        self
    }

    /// Pretends to speak only these protocol versions; for tests of peers of other ages.
    #[doc(hidden)]
    pub fn protocol_versions(mut self, min: u16, max: u16) -> Self {
        self.versions = VersionRange { min, max };
        self
    }

    /// Binds the address and starts the service, with a thread for its sockets unless
    /// [`io_on_this_thread`](Self::io_on_this_thread) was said.
    ///
    /// # Errors
    /// `InvalidConfiguration` for a setting that is not allowed, which includes an address beyond
    /// loopback without TLS, shared keys or [`allow_insecure`](Self::allow_insecure);
    /// `InvalidAddress`; `Unreachable` if the address can't be bound.
    pub async fn start(self) -> Result<RpcService, RpcError> {
        let bound = self.listen().await?;
        let Self {
            service,
            application,
            versions,
            settings,
            security,
            ..
        } = self;
        let mut shared = None;
        let service = service.build_with(|table| {
            let preface = bound.preface(&settings, versions, table.incarnation(), application);
            let endpoints = Arc::new(move |id: &str| table.endpoint(id));
            let transport = bound.serve(settings, security, preface, endpoints);
            shared = Some(Arc::clone(transport.shared()));
            Ok(Arc::new(transport))
        })?;
        if let Some(shared) = shared {
            shared.lost.tell_to(service.dead_letters());
            let source: Arc<dyn StatusSource> = shared;
            service.status().register(&source);
        }
        Ok(service)
    }

    /// Serves stand-ins instead of a service's endpoints.
    #[cfg(test)]
    pub(crate) fn serve_for_tests(
        self,
        bound: Bound,
        incarnation: Uuid,
        endpoints: Endpoints,
    ) -> TcpTransport {
        let Self {
            application,
            versions,
            settings,
            security,
            ..
        } = self;
        let preface = bound.preface(&settings, versions, incarnation, application);
        bound.serve(settings, security, preface, endpoints)
    }

    pub(crate) async fn listen(&self) -> Result<Bound, RpcError> {
        self.settings.validate()?;
        if self.application.len() > MAX_APPLICATION_BYTES {
            return Err(invalid(format!(
                "application_version has {} bytes, the limit is {MAX_APPLICATION_BYTES} bytes",
                self.application.len()
            )));
        }
        let bind: Authority = self.bind.parse()?;
        let unbound = |error: &dyn std::fmt::Display| {
            RpcError::new(
                RpcErrorKind::Unreachable,
                format!("cannot bind {bind}: {error}"),
            )
        };
        let io = if self.on_this_thread {
            Io::this_thread()
        } else {
            Io::own_thread()
        };
        let io = io.map_err(|error| unbound(&error))?;
        let host = bind.host().to_owned();
        let ports = self.ports.clone().unwrap_or(bind.port()..=bind.port());
        if ports.is_empty() {
            return Err(invalid(format!("port_range {ports:?} is empty")));
        }
        let allow_open = self.allow_insecure || self.security.keeps_strangers_out();
        let bound = async move { bind_first(&host, ports, allow_open).await };
        let listener = io.tasks().spawn(bound).await;
        let listener = listener.map_err(|error| unbound(&error))?;
        let listener = listener.ok_or_else(|| unbound(&"the service was stopped"))??;
        let local = listener.local_addr().map_err(|error| unbound(&error))?;
        let authority = self.advertised(&bind, local)?;
        tracing::info!(%local, %authority, "listening");
        Ok(Bound {
            listener,
            local,
            authority,
            io,
        })
    }

    /// Where others dial: as advertised, else the bound host as it was written (a name stays a
    /// name) with the real port.
    fn advertised(&self, bind: &Authority, local: SocketAddr) -> Result<Authority, RpcError> {
        let wanted = match &self.advertise {
            Some(text) => text.parse()?,
            None if local.ip().is_unspecified() => {
                return Err(invalid(format!(
                    "{} is no address that others can dial: set advertise(\"host:port\")",
                    self.bind
                )));
            }
            None => Authority::new(bind.host(), local.port())?,
        };
        let port = if wanted.port() == 0 {
            local.port()
        } else {
            wanted.port()
        };
        Authority::new(wanted.host(), port)
    }
}

/// A listening socket with its thread, before anything is accepted.
pub(crate) struct Bound {
    listener: TcpListener,
    local: SocketAddr,
    authority: Authority,
    io: Io,
}

impl Bound {
    fn preface(
        &self,
        settings: &RemoteSettings,
        versions: VersionRange,
        incarnation: Uuid,
        application: String,
    ) -> Preface {
        Preface {
            versions,
            incarnation,
            frame_limit: settings.frame_limit_bytes,
            application,
            listening: self.authority.to_string(),
            nonce: None,
        }
    }

    /// Starts to accept.
    fn serve(
        self,
        settings: RemoteSettings,
        security: Security,
        preface: Preface,
        endpoints: Endpoints,
    ) -> TcpTransport {
        let Self {
            listener,
            local,
            authority,
            io,
        } = self;
        let log = Arc::new(QuietLog::new());
        let shared = Arc::new(Shared {
            peers: Peers::new(preface.incarnation),
            lost: Arc::new(Lost::new(Arc::clone(&log))),
            log,
            preface,
            security,
            refusals: Refusals::default(),
            io: io.tasks().clone(),
            shut: CancellationToken::new(),
            bound: local,
            settings,
            authority,
            endpoints,
        });
        let accepting = io.tasks().spawn(listen(listener, Arc::clone(&shared)));
        TcpTransport::new(shared, io, accepting)
    }
}

/// The longest application version, in bytes.
const MAX_APPLICATION_BYTES: usize = 255;

fn invalid(text: String) -> RpcError {
    RpcError::new(RpcErrorKind::InvalidConfiguration, text)
}

/// Binds the first port of the host's addresses that can be bound.
async fn bind_first(
    host: &str,
    ports: RangeInclusive<u16>,
    allow_open: bool,
) -> Result<TcpListener, RpcError> {
    let (first, last) = (*ports.start(), *ports.end());
    let unbound = |error: std::io::Error| {
        let what = if first == last {
            format!("{host}:{first}")
        } else {
            format!("any port from {first} to {last} of {host}")
        };
        RpcError::new(
            RpcErrorKind::Unreachable,
            format!("cannot bind {what}: {error}"),
        )
    };
    let addresses: Vec<_> = lookup_host((host, first)).await.map_err(unbound)?.collect();
    if let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        && !allow_open
    {
        return Err(invalid(format!(
            "{open} is reachable from other hosts, and whoever reaches it could call every \
             endpoint: bind a loopback address, set tls or shared_keys (features tls and \
             shared-key), or say allow_insecure(true) if every host and user of that network is \
             trusted"
        )));
    }
    let mut failed = std::io::ErrorKind::AddrNotAvailable.into();
    for port in ports {
        let at_port = |address: &SocketAddr| SocketAddr::new(address.ip(), port);
        let addresses: Vec<_> = addresses.iter().map(at_port).collect();
        match TcpListener::bind(addresses.as_slice()).await {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(unbound(failed))
}
