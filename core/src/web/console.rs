//! The console as an app holds it, and its settings.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::Scope;

use super::{
    action::ActionToken,
    board::{Board, Gatherer},
    routes,
    sampler::Sampler,
};
use crate::status::StatusRegistry;

/// The time between two values of a plot.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_millis(500);
/// A board that is younger than this is shown to the next viewer too.
const FRESH: Duration = Duration::from_millis(100);
/// The longest title, in bytes.
const LONGEST_TITLE: usize = 100;

/// Shows how a program is. Cheap to clone: build it once, outside the factory of the `HttpServer`,
/// and mount its [`scope`](Self::scope) in every app. Ends its thread when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Console {
    pub(super) inner: Arc<Inner>,
}

/// Prometheus' text, as of now.
type Metrics = Box<dyn Fn() -> String + Send + Sync>;
/// What is done for the recorder from time to time.
type Upkeep = Box<dyn Fn() + Send + Sync>;

pub(super) struct Inner {
    pub(super) title: String,
    pub(super) metrics: Option<Metrics>,
    pub(super) upkeep: Option<Upkeep>,
    pub(super) token: Option<ActionToken>,
    registry: StatusRegistry,
    gatherer: Mutex<Gatherer>,
    /// Ends the thread when it is dropped.
    _sampler: Option<Sampler>,
}

impl Inner {
    /// How everything is now.
    pub(super) fn board(&self) -> Arc<Board> {
        self.lock().gather(&self.registry, FRESH)
    }

    /// Takes the next value of each plot.
    pub(super) fn sample(&self) {
        let mut gatherer = self.lock();
        let board = gatherer.gather(&self.registry, Duration::ZERO);
        gatherer.sample(&board);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Gatherer> {
        self.gatherer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn registry(&self) -> &StatusRegistry {
        &self.registry
    }
}

impl Console {
    /// The console of this registry, such as [`RpcService::status`](crate::RpcService::status)
    /// returns.
    #[must_use]
    pub fn builder(registry: &StatusRegistry) -> ConsoleBuilder {
        ConsoleBuilder {
            registry: registry.clone(),
            title: "Lockkeeper".to_owned(),
            metrics: None,
            upkeep: None,
            token: None,
        }
    }

    /// The routes below `path`, such as `/console`; it may be empty. Everything that is answered
    /// forbids caching, framing, and scripts and styles that are not the console's own.
    #[must_use]
    pub fn scope(&self, path: &str) -> Scope {
        routes::scope(path, self.clone())
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console")
            .field("title", &self.inner.title)
            .field("registry", &self.inner.registry)
            .field("metrics", &self.inner.metrics.is_some())
            .field("actions", &self.inner.token.is_some())
            .finish_non_exhaustive()
    }
}

/// The settings of a [`Console`].
pub struct ConsoleBuilder {
    registry: StatusRegistry,
    title: String,
    metrics: Option<Metrics>,
    upkeep: Option<Upkeep>,
    token: Option<String>,
}

impl ConsoleBuilder {
    /// What the page is headed with; at most 100 bytes. Default: `Lockkeeper`.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Serves at `/metrics` what `render` gives: Prometheus' text, such as that of
    /// `metrics_exporter_prometheus::PrometheusHandle::render`.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Box::new(render));
        self
    }

    /// Is called every five seconds, on the console's thread: for a recorder that needs it, such as by
    /// `PrometheusHandle::run_upkeep`, without which a histogram that nobody asks for grows.
    #[must_use]
    pub fn upkeep(mut self, upkeep: impl Fn() + Send + Sync + 'static) -> Self {
        self.upkeep = Some(Box::new(upkeep));
        self
    }

    /// Offers the actions of the sources to whoever has this token: 16 to 512 visible ASCII
    /// characters, drawn by chance. It is asked for with each action, and compared in constant
    /// time. Default: no actions, their route answers 404.
    #[must_use]
    pub fn actions(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The console; its plots begin now, on a thread of their own.
    ///
    /// # Errors
    /// [`ConsoleError`], when a setting can't be or no thread can be started.
    pub fn build(self) -> Result<Console, ConsoleError> {
        if self.title.len() > LONGEST_TITLE {
            return Err(ConsoleError::Title {
                bytes: self.title.len(),
                limit: LONGEST_TITLE,
            });
        }
        let token = self.token.map(ActionToken::new).transpose()?;
        let offers_actions = token.is_some();
        let (title, registry) = (self.title, self.registry);
        let (metrics, upkeep) = (self.metrics, self.upkeep);
        let mut failed = None;
        let inner = Arc::new_cyclic(|inner| Inner {
            title,
            metrics,
            upkeep,
            token,
            registry,
            gatherer: Mutex::new(Gatherer::new(offers_actions)),
            _sampler: Sampler::start(inner.clone())
                .map_err(|error| failed = Some(error))
                .ok(),
        });
        match failed {
            Some(error) => Err(ConsoleError::Thread(error)),
            None => Ok(Console { inner }),
        }
    }
}

impl std::fmt::Debug for ConsoleBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleBuilder")
            .field("title", &self.title)
            .field("metrics", &self.metrics.is_some())
            .field("actions", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

/// Why a console can't be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The title is too long.
    #[error("the console's title has {bytes} bytes, the limit is {limit}: give a shorter one")]
    Title {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The token can be guessed, or can't be sent in a header.
    #[error(
        "the console's token must have {least} to {most} visible ASCII characters, and has \
         {characters}, or others among them: draw one by chance, such as with `openssl rand -hex 32`"
    )]
    Token {
        /// The token's characters.
        characters: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// No thread can be started for the plots.
    #[error("the console's thread can't be started: {0}")]
    Thread(#[source] std::io::Error),
}
