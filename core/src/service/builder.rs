//! The settings of a service, with their defaults.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{RpcService, ServiceInner, Settings, Shared};
use crate::{
    dead_letter::{DeadLetterSink, DeadLetters},
    endpoint::inbox::InboxLimits,
    error::{RpcError, RpcErrorKind},
    status::{StatusRegistry, StatusSource},
    transport::{EndpointTable, Transport},
    watchdog::Watchdog,
};

/// Settings of an [`RpcService`]. Crates with a transport put their own builder around it and end
/// with [`build_with`](Self::build_with).
#[derive(Debug)]
pub struct RpcServiceBuilder {
    settings: Settings,
    sink: Option<Arc<dyn DeadLetterSink>>,
    watchdog: Option<Duration>,
}

impl Default for RpcServiceBuilder {
    fn default() -> Self {
        Self {
            settings: Settings {
                default_timeout: Duration::from_secs(10),
                hook_timeout: Duration::from_secs(60),
                revoke_timeout: Duration::from_secs(1),
                force_serialization: false,
                check_shapes: true,
                inbox: InboxLimits::default(),
            },
            sink: None,
            watchdog: Some(Duration::from_secs(1)),
        }
    }
}

impl RpcServiceBuilder {
    /// The limit of a `send` without `.timeout(..)`, and of `connect`. Default: 10 s.
    #[must_use]
    pub fn default_timeout(mut self, limit: Duration) -> Self {
        self.settings.default_timeout = limit;
        self
    }

    /// The limit of `on_start`, `on_resume` and `on_stop`, each. Default: 60 s.
    #[must_use]
    pub fn hook_timeout(mut self, limit: Duration) -> Self {
        self.settings.hook_timeout = limit;
        self
    }

    /// How long [`revoke`](crate::RpcServer::revoke) waits for calls in flight before it ends the
    /// endpoint. Default: 1 s.
    #[must_use]
    pub fn revoke_timeout(mut self, limit: Duration) -> Self {
        self.settings.revoke_timeout = limit;
        self
    }

    /// How much may wait at each endpoint.
    #[must_use]
    pub fn inbox_limits(mut self, limits: InboxLimits) -> Self {
        self.settings.inbox = limits;
        self
    }

    /// Makes calls inside the process go through the codec as remote ones do, but for `local`
    /// messages. For tests. Default: false.
    #[must_use]
    pub fn force_serialization(mut self, force: bool) -> Self {
        self.settings.force_serialization = force;
        self
    }

    /// Sees every dead letter. They are counted with or without a sink.
    #[must_use]
    pub fn dead_letter_sink(mut self, sink: Arc<dyn DeadLetterSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Whether a caller of another process is refused with `GatewayVersionMismatch` if a message or
    /// reply of its gateway has another shape there than here: other fields or variants, in another
    /// order, or of other types. MessagePack would have the one read what the other never wrote.
    ///
    /// Switch it off at the serving side for a rolling upgrade whose builds do read each other's
    /// bytes, such as one that adds a last field with `#[serde(default)]`. Types that read
    /// themselves in ways of their own (a date in a text) are compared only in part. Default: true.
    #[must_use]
    pub fn check_shapes(mut self, checks: bool) -> Self {
        self.settings.check_shapes = checks;
        self
    }

    /// How long a handler may hold its arbiter before it is named: in a warning, in the endpoint's
    /// status events, and in `lockkeeper_rpc_stalls_total`. `None` switches the watchdog, a thread
    /// that wakes up four times in this time, off. Default: 1 s.
    #[must_use]
    pub fn watchdog(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.watchdog = limit.into();
        self
    }

    /// A service for calls inside this process.
    ///
    /// # Errors
    /// `InvalidConfiguration` for a setting that is not allowed, or outside a tokio runtime.
    pub fn build(self) -> Result<RpcService, RpcError> {
        let shared = self.shared()?;
        Ok(RpcService {
            inner: Arc::new(ServiceInner {
                shared,
                transport: None,
            }),
        })
    }

    /// A service with a transport, which is made with the table of the service's endpoints.
    ///
    /// # Errors
    /// As [`build`](Self::build), and what `transport` returns.
    pub fn build_with<T, F>(self, transport: F) -> Result<RpcService, RpcError>
    where
        T: Transport,
        F: FnOnce(EndpointTable) -> Result<Arc<T>, RpcError>,
    {
        let shared = self.shared()?;
        let transport: Arc<dyn Transport> = transport(shared.table.clone())?;
        Ok(RpcService {
            inner: Arc::new(ServiceInner {
                shared,
                transport: Some(transport),
            }),
        })
    }

    fn shared(self) -> Result<Arc<Shared>, RpcError> {
        let invalid = |text: &str| Err(RpcError::new(RpcErrorKind::InvalidConfiguration, text));
        if cfg!(panic = "abort") {
            return invalid("built with panic = \"abort\": a panic must unwind to be answered");
        }
        if self.settings.inbox.messages == 0 || self.settings.inbox.bytes == 0 {
            return invalid("inbox_limits: both limits must be at least 1");
        }
        if self.settings.default_timeout.is_zero() || self.settings.hook_timeout.is_zero() {
            return invalid("default_timeout and hook_timeout must be longer than zero");
        }
        let Ok(runtime) = Handle::try_current() else {
            return invalid("build the service inside a tokio runtime or an actix System");
        };
        let dead_letters = DeadLetters::new(self.sink);
        let source: Arc<dyn StatusSource> = Arc::new(dead_letters.clone());
        let status = StatusRegistry::default();
        status.register(&source);
        Ok(Arc::new(Shared {
            settings: self.settings,
            table: EndpointTable::new(),
            dead_letters,
            dead_letter_status: source,
            status,
            runtime,
            is_stopped: AtomicBool::new(false),
            watchdog: self.watchdog.map(Watchdog::new),
        }))
    }
}
