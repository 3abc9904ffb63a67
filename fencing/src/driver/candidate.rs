//! The shell of drivers whose leadership is a lease at a server: one session after another.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::token::{FencingToken, Lineage};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::SuspensionPolicy;
use super::renewal::first_pause;
use crate::clock::{BootTime, Clock, LocalDeadline};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderInformation, Leadership,
};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// How long a connection and its first requests may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the release of a session is waited for; it ends by itself later.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens sessions at a coordination store.
pub(crate) trait SessionFactory: Send + Sync + 'static {
    type Session: Session;

    fn open(&self, id: Uuid) -> impl Future<Output = Result<Self::Session, ElectionError>> + Send;
}

/// One candidate in the store, from its registration to its release. Each of its calls may be
/// dropped before its end.
pub(crate) trait Session: Send {
    /// Waits until this candidate leads, keeping it alive meanwhile.
    fn campaign(&mut self) -> impl Future<Output = Result<Turn, Ended>> + Send;

    /// Asks the store to prolong the leadership. An answer proves that it was held at some moment
    /// after the call began, and that nobody else can have it before that moment plus
    /// [`Turn::length`].
    fn renew(&mut self) -> impl Future<Output = Result<(), Ended>> + Send;

    /// Writes or removes what is published of a component, only while the leadership is held.
    fn write(
        &mut self,
        component: &ComponentId,
        information: Option<&LeaderInformation>,
    ) -> impl Future<Output = Result<(), Ended>> + Send;

    /// What is published of a component now.
    fn read(
        &mut self,
        component: &ComponentId,
    ) -> impl Future<Output = Result<Option<LeaderInformation>, Ended>> + Send;

    /// Lets another one lead.
    fn release(self) -> impl Future<Output = ()> + Send;
}

/// A candidate leads.
pub(crate) struct Turn {
    pub(crate) lineage: Lineage,
    pub(crate) epoch: u64,
    /// How long the store leaves it the leadership after a renewal.
    pub(crate) length: Duration,
    /// When the request was sent that the store answered with "you lead".
    pub(crate) counts_from: BootTime,
}

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The store says that it is over.
    Lost,
    /// The store could not be asked; it may be asked again.
    Failed(ElectionError),
}

impl From<ElectionError> for Ended {
    fn from(error: ElectionError) -> Self {
        Ended::Failed(error)
    }
}

#[derive(Debug)]
enum Command {
    Publish(ComponentId, LeaderInformation),
    Withdraw(ComponentId),
    Close(oneshot::Sender<()>),
}

/// The handle of a candidate; dropping it closes the candidate.
#[derive(Debug)]
struct Handle {
    commands: mpsc::UnboundedSender<Command>,
}

impl LeaderElectionDriver for Handle {
    fn publish(&mut self, component: &ComponentId, information: &LeaderInformation) {
        let command = Command::Publish(component.clone(), information.clone());
        let _ = self.commands.send(command);
    }

    fn withdraw(&mut self, component: &ComponentId) {
        let _ = self.commands.send(Command::Withdraw(component.clone()));
    }

    fn close(&mut self) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        let _ = self.commands.send(Command::Close(done));
        closed
    }
}

/// Starts a candidate on a thread of its own.
pub(crate) fn start<F: SessionFactory>(
    thread: &str,
    factory: F,
    clock: Arc<dyn Clock>,
    policy: SuspensionPolicy,
    listener: DriverListener,
) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
    // Few commands, from one service: they wait for the session, not for a bound.
    let (commands, inbox) = mpsc::unbounded_channel();
    let candidate = Candidate {
        factory,
        clock,
        policy,
        listener,
        lineage: None,
    };
    super::on_own_thread(thread, candidate.run(inbox))?;
    Ok(Box::new(Handle { commands }))
}

struct Candidate<F> {
    factory: F,
    clock: Arc<dyn Clock>,
    policy: SuspensionPolicy,
    listener: DriverListener,
    /// Of the first leadership: epochs of another one cannot be compared with it.
    lineage: Option<Lineage>,
}

type Commands = mpsc::UnboundedReceiver<Command>;

/// Why a session is over.
enum Over {
    /// The service has closed the candidate; it may wait for the release.
    Closed(Option<oneshot::Sender<()>>),
    Ended(Ended),
}

impl From<Ended> for Over {
    fn from(ended: Ended) -> Self {
        Over::Ended(ended)
    }
}

impl<F: SessionFactory> Candidate<F> {
    async fn run(mut self, mut commands: Commands) {
        let mut retry = FIRST_RETRY;
        loop {
            let done = match self.session(&mut commands, &mut retry).await {
                Over::Closed(done) => done,
                Over::Ended(ended) => {
                    if let Ended::Failed(error) = ended {
                        self.listener.failed(error);
                    }
                    let Ok(done) = timeout(retry, closing(&mut commands)).await else {
                        retry = (retry * 2).min(LAST_RETRY);
                        continue;
                    };
                    done
                }
            };
            if let Some(done) = done {
                let _: Result<(), ()> = done.send(());
            }
            return;
        }
    }

    async fn session(&mut self, commands: &mut Commands, retry: &mut Duration) -> Over {
        let id = Uuid::new_v4();
        let opening = timeout(OPEN_TIMEOUT, self.factory.open(id));
        let opened = tokio::select! {
            opened = opening => opened,
            done = closing(commands) => return Over::Closed(done),
        };
        let mut session = match opened {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => return Over::Ended(Ended::Failed(error)),
            Err(late) => {
                let late = ElectionError::unavailable("opening a session", late);
                return Over::Ended(Ended::Failed(late));
            }
        };
        let Err(over) = self.campaign(id, &mut session, commands, retry).await;
        if timeout(RELEASE_TIMEOUT, session.release()).await.is_err() {
            tracing::debug!("a session could not be released; the store will expire it");
        }
        over
    }

    async fn campaign(
        &mut self,
        id: Uuid,
        session: &mut F::Session,
        commands: &mut Commands,
        retry: &mut Duration,
    ) -> Result<std::convert::Infallible, Over> {
        let turn = tokio::select! {
            turn = session.campaign() => turn?,
            done = closing(commands) => return Err(Over::Closed(done)),
        };
        let expected = *self.lineage.get_or_insert(turn.lineage);
        if expected != turn.lineage {
            let found = turn.lineage;
            let changed = ElectionError::LineageChanged { expected, found };
            return Err(Over::Ended(Ended::Failed(changed)));
        }
        let deadline = LocalDeadline::start(self.clock.clone(), turn.length, turn.counts_from);
        if deadline.check().is_err() {
            return Err(Over::Ended(Ended::Lost));
        }
        *retry = FIRST_RETRY;
        let token = FencingToken::new(turn.lineage, turn.epoch, id);
        self.listener.granted(Leadership {
            token,
            deadline: deadline.clone(),
        });
        let mut holding = Holding {
            clock: &self.clock,
            policy: self.policy,
            listener: &self.listener,
            token,
            deadline: deadline.clone(),
            length: turn.length,
            published: BTreeMap::new(),
        };
        let over = holding.hold(session, commands).await;
        deadline.end();
        self.listener.lost(token);
        over
    }
}

/// One leadership.
struct Holding<'a> {
    clock: &'a Arc<dyn Clock>,
    policy: SuspensionPolicy,
    listener: &'a DriverListener,
    token: FencingToken,
    deadline: LocalDeadline,
    length: Duration,
    /// What has to be in the store.
    published: BTreeMap<ComponentId, LeaderInformation>,
}

impl Holding<'_> {
    async fn hold<S: Session>(
        &mut self,
        session: &mut S,
        commands: &mut Commands,
    ) -> Result<std::convert::Infallible, Over> {
        let mut renewal = Instant::now() + first_pause(self.length / 4);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Close(done)) => return Err(Over::Closed(Some(done))),
                    None => return Err(Over::Closed(None)),
                    Some(Command::Publish(component, information)) => {
                        if information.token == self.token {
                            self.published.insert(component.clone(), information);
                            self.write(session, &component).await?;
                        }
                    }
                    Some(Command::Withdraw(component)) => {
                        self.published.remove(&component);
                        self.write(session, &component).await?;
                    }
                },
                () = tokio::time::sleep_until(self.wake(renewal)) => {
                    let pause = self.renew(session).await?;
                    renewal = Instant::now() + pause;
                }
            }
        }
    }

    /// At the renewal, or earlier at the deadline if that ends the leadership.
    fn wake(&self, renewal: Instant) -> Instant {
        match self.policy {
            SuspensionPolicy::Stop => renewal.min(Instant::now() + self.deadline.remaining()),
            SuspensionPolicy::KeepWorkingWithoutEffects => renewal,
        }
    }

    /// Returns after which time it is to be done again.
    async fn renew<S: Session>(&mut self, session: &mut S) -> Result<Duration, Over> {
        let stops = self.policy == SuspensionPolicy::Stop;
        if stops && self.deadline.check().is_err() {
            return Err(Over::Ended(Ended::Lost));
        }
        let sent = self.clock.now();
        match timeout(self.length / 4, session.renew()).await {
            Ok(Ok(())) if stops => {
                self.deadline.renew(sent).map_err(|_| Ended::Lost)?;
            }
            Ok(Ok(())) => self.deadline.confirm(sent),
            Ok(Err(Ended::Lost)) => return Err(Over::Ended(Ended::Lost)),
            // Asked again: until the deadline, or until there is an answer.
            Ok(Err(Ended::Failed(error))) => {
                tracing::debug!(%error, "a leadership could not be renewed");
                return Ok(self.length / 20);
            }
            Err(_) => return Ok(self.length / 20),
        }
        // What cannot be looked at now is looked at after the next renewal.
        match timeout(self.length / 4, self.repair(session)).await {
            Ok(Err(Ended::Lost)) => Err(Over::Ended(Ended::Lost)),
            _ => Ok(self.length / 4),
        }
    }

    /// Writes what somebody has removed or changed: once a renewal, so that a problem that stays is
    /// not run against in a circle.
    async fn repair<S: Session>(&self, session: &mut S) -> Result<(), Ended> {
        for (component, information) in &self.published {
            if session.read(component).await?.as_ref() != Some(information) {
                session.write(component, Some(information)).await?;
            }
        }
        Ok(())
    }

    async fn write<S: Session>(
        &self,
        session: &mut S,
        component: &ComponentId,
    ) -> Result<(), Ended> {
        if self.deadline.check().is_err() {
            return Ok(());
        }
        let information = self.published.get(component);
        // Longer, and the next renewal would come late.
        let written = timeout(self.length / 4, session.write(component, information)).await;
        let what = format!("changing the information of {component}");
        match written {
            Ok(Ok(())) => {}
            Ok(Err(Ended::Lost)) => return Err(Ended::Lost),
            Ok(Err(Ended::Failed(error))) => self.listener.failed(error),
            Err(late) => self.listener.failed(ElectionError::unavailable(what, late)),
        }
        Ok(())
    }
}

/// Until the candidate is closed; what is asked of it meanwhile is of a leadership that is over.
async fn closing(commands: &mut Commands) -> Option<oneshot::Sender<()>> {
    loop {
        match commands.recv().await {
            Some(Command::Close(done)) => return Some(done),
            None => return None,
            Some(Command::Publish(..) | Command::Withdraw(_)) => {}
        }
    }
}
