//! The shell of the election: one thread that feeds the machine and carries out its actions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::driver::DriverEvent;
use super::machine::{Action, ElectionMachine, Event};
use super::{
    ComponentId, DriverListener, ElectionError, LeaderContender, LeaderElectionDriver,
    LeaderElectionDriverFactory, Leadership,
};

/// Requests of contenders that wait for the service.
const REQUESTS: usize = 1_024;

/// How long a close waits for the driver to release leadership.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaderElectionOptions {
    /// How long a close waits for the contender to drain before leadership is released (1 s).
    pub revoke_timeout: Duration,
}

impl LeaderElectionOptions {
    /// Sets [`revoke_timeout`](Self::revoke_timeout).
    #[must_use]
    pub fn with_revoke_timeout(mut self, revoke_timeout: Duration) -> Self {
        self.revoke_timeout = revoke_timeout;
        self
    }
}

impl Default for LeaderElectionOptions {
    fn default() -> Self {
        LeaderElectionOptions {
            revoke_timeout: Duration::from_secs(1),
        }
    }
}

/// The elections of one process: one candidate, whose leadership is that of all its components.
///
/// It runs on a thread of its own: an arbiter that is blocked by an actor cannot lose the
/// leadership of others. Dropping it closes it without waiting.
#[derive(Clone, Debug)]
pub struct LeaderElectionService {
    requests: mpsc::Sender<Request>,
    present: Present,
}

/// The leadership now, for questions that need no round trip.
type Present = Arc<Mutex<Option<Leadership>>>;

enum Request {
    Register(
        ComponentId,
        Box<dyn LeaderContender>,
        oneshot::Sender<Result<(), ElectionError>>,
    ),
    Confirm {
        component: ComponentId,
        session: Uuid,
        address: String,
    },
    Deregister(ComponentId, oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

impl LeaderElectionService {
    /// Starts the service's thread. The driver is made when the first contender starts.
    ///
    /// # Errors
    /// [`ElectionError::Unavailable`] when no thread can be started.
    pub fn start(
        factory: impl LeaderElectionDriverFactory,
        options: LeaderElectionOptions,
    ) -> Result<Self, ElectionError> {
        let (requests, inbox) = mpsc::channel(REQUESTS);
        let present = Present::default();
        let shell = Shell {
            factory: Box::new(factory),
            options,
            machine: ElectionMachine::default(),
            contenders: BTreeMap::new(),
            driver: None,
            present: present.clone(),
        };
        let unavailable = |error| ElectionError::unavailable("starting its thread", error);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime = runtime.map_err(unavailable)?;
        std::thread::Builder::new()
            .name("lockkeeper-election".to_owned())
            .spawn(move || runtime.block_on(shell.run(inbox)))
            .map_err(unavailable)?;
        Ok(LeaderElectionService { requests, present })
    }

    /// The election of one component. Nothing happens before
    /// [`start`](LeaderElection::start).
    #[must_use]
    pub fn election(&self, component: ComponentId) -> LeaderElection {
        LeaderElection {
            component,
            service: self.clone(),
        }
    }

    /// Revokes and releases what there is, and ends the thread. Every later call fails with
    /// [`ElectionError::Closed`].
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        if self.requests.send(Request::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
    }
}

/// The election of one component.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    component: ComponentId,
    service: LeaderElectionService,
}

impl LeaderElection {
    /// The component.
    #[must_use]
    pub fn component(&self) -> &ComponentId {
        &self.component
    }

    /// Begins to contend.
    ///
    /// # Errors
    /// [`ElectionError::ComponentTaken`], [`ElectionError::Closed`], and what the driver says when
    /// it cannot begin.
    pub async fn start(&self, contender: impl LeaderContender) -> Result<(), ElectionError> {
        let (answer, answered) = oneshot::channel();
        let request = Request::Register(self.component.clone(), Box::new(contender), answer);
        self.service
            .requests
            .send(request)
            .await
            .map_err(|_| ElectionError::Closed)?;
        answered.await.map_err(|_| ElectionError::Closed)?
    }

    /// Confirms a granted leadership with the address where the leader is found; that is
    /// published. The confirmation of a leadership that is over is ignored.
    ///
    /// # Errors
    /// [`ElectionError::Closed`].
    pub async fn confirm(
        &self,
        session: Uuid,
        address: impl Into<String>,
    ) -> Result<(), ElectionError> {
        let (component, address) = (self.component.clone(), address.into());
        let request = Request::Confirm {
            component,
            session,
            address,
        };
        self.service
            .requests
            .send(request)
            .await
            .map_err(|_| ElectionError::Closed)
    }

    /// Whether this process leads under that session, and its deadline has not passed.
    #[must_use]
    pub fn has_leadership(&self, session: Uuid) -> bool {
        let present = self
            .service
            .present
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        present.as_ref().is_some_and(|leadership| {
            leadership.token.session == session && leadership.deadline.check().is_ok()
        })
    }

    /// The leadership that this process has now, if its deadline has not passed.
    pub(crate) fn leadership(&self) -> Option<Leadership> {
        let present = self
            .service
            .present
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let leadership = present.as_ref();
        leadership
            .filter(|leadership| leadership.deadline.check().is_ok())
            .cloned()
    }

    /// Ends contending: the contender is revoked if it leads and drained for at most
    /// `revoke_timeout`, its information is withdrawn, and with the last component leadership is
    /// released. It may be started again afterwards.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        let request = Request::Deregister(self.component.clone(), done);
        if self.service.requests.send(request).await.is_ok() {
            let _ = closed.await;
        }
    }
}

enum Call {
    Grant(Leadership),
    Revoke(oneshot::Sender<()>),
    Failed(ElectionError),
}

struct Driving {
    driver: Box<dyn LeaderElectionDriver>,
    events: mpsc::UnboundedReceiver<DriverEvent>,
}

struct Shell {
    factory: Box<dyn LeaderElectionDriverFactory>,
    options: LeaderElectionOptions,
    machine: ElectionMachine,
    contenders: BTreeMap<ComponentId, mpsc::UnboundedSender<Call>>,
    driver: Option<Driving>,
    present: Present,
}

impl Shell {
    async fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        loop {
            tokio::select! {
                request = inbox.recv() => match request {
                    Some(Request::Close(done)) => {
                        inbox.close();
                        self.close().await;
                        let _ = done.send(());
                        return;
                    }
                    Some(request) => self.handle(request).await,
                    None => return self.close().await,
                },
                event = next_event(&mut self.driver) => self.driven(event).await,
            }
        }
    }

    async fn handle(&mut self, request: Request) {
        match request {
            Request::Register(component, contender, answer) => {
                let _ = answer.send(self.register(component, contender).await);
            }
            Request::Confirm {
                component,
                session,
                address,
            } => {
                let event = Event::Confirm {
                    component,
                    session,
                    address,
                };
                self.feed(event).await;
            }
            Request::Deregister(component, done) => {
                self.feed(Event::Deregister(component.clone())).await;
                self.contenders.remove(&component);
                let _ = done.send(());
            }
            Request::Close(_) => {}
        }
    }

    async fn register(
        &mut self,
        component: ComponentId,
        contender: Box<dyn LeaderContender>,
    ) -> Result<(), ElectionError> {
        let actions = self.machine.step(Event::Register(component.clone()));
        if actions
            .iter()
            .any(|action| matches!(action, Action::RefuseTaken(_)))
        {
            return Err(ElectionError::ComponentTaken { component });
        }
        if actions.contains(&Action::StartDriver)
            && let Err(error) = self.start_driver()
        {
            self.machine.step(Event::Deregister(component));
            return Err(error);
        }
        // Few calls: grants, revokes and errors. They wait for the contender, not for a bound.
        let (calls, queue) = mpsc::unbounded_channel();
        tokio::spawn(serve(contender, queue));
        self.contenders.insert(component, calls);
        self.carry_out(actions).await;
        Ok(())
    }

    fn start_driver(&mut self) -> Result<(), ElectionError> {
        let (sender, events) = mpsc::unbounded_channel();
        let driver = self.factory.create(DriverListener::new(sender))?;
        self.driver = Some(Driving { driver, events });
        Ok(())
    }

    async fn driven(&mut self, event: DriverEvent) {
        let event = match event {
            DriverEvent::Granted(leadership) => {
                let token = leadership.token;
                if let Some(former) = self.set_present(Some(leadership)) {
                    former.deadline.end();
                }
                Event::Granted(token)
            }
            DriverEvent::Lost(token) => {
                if self.present().is_some_and(|present| present.token == token) {
                    self.end_leadership();
                }
                Event::Lost(token)
            }
            DriverEvent::Changed(component, information) => {
                Event::InformationChanged(component, information)
            }
            DriverEvent::Failed(error) => {
                tracing::warn!(%error, "the election's driver has a problem");
                for calls in self.contenders.values() {
                    let _ = calls.send(Call::Failed(error.clone()));
                }
                return;
            }
        };
        self.feed(event).await;
    }

    async fn feed(&mut self, event: Event) {
        let actions = self.machine.step(event);
        self.carry_out(actions).await;
    }

    async fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                // Both are done while the request is answered.
                Action::StartDriver | Action::RefuseTaken(_) => {}
                Action::Grant(component, token) => {
                    if let Some(leadership) = self.present().filter(|now| now.token == token) {
                        self.call(&component, Call::Grant(leadership));
                    }
                }
                Action::Revoke(component) => {
                    let (done, _) = oneshot::channel();
                    self.call(&component, Call::Revoke(done));
                }
                Action::RevokeAndDrain(component) => self.drain(&component).await,
                Action::Publish(component, information) => {
                    if let Some(driving) = &mut self.driver {
                        driving.driver.publish(&component, &information);
                    }
                }
                Action::Withdraw(component) => {
                    if let Some(driving) = &mut self.driver {
                        driving.driver.withdraw(&component);
                    }
                }
                Action::StopDriver => self.stop_driver().await,
            }
        }
    }

    async fn drain(&mut self, component: &ComponentId) {
        let (done, drained) = oneshot::channel();
        self.call(component, Call::Revoke(done));
        if tokio::time::timeout(self.options.revoke_timeout, drained)
            .await
            .is_err()
        {
            tracing::warn!(%component, "the contender did not drain within revoke_timeout");
        }
    }

    async fn stop_driver(&mut self) {
        self.end_leadership();
        if let Some(mut driving) = self.driver.take() {
            let closed = tokio::time::timeout(RELEASE_TIMEOUT, driving.driver.close()).await;
            if closed.is_err() {
                tracing::warn!("the driver did not release leadership; it ends with its session");
            }
        }
    }

    async fn close(mut self) {
        let components: Vec<ComponentId> = self.contenders.keys().cloned().collect();
        for component in components {
            self.feed(Event::Deregister(component)).await;
        }
    }

    fn call(&self, component: &ComponentId, call: Call) {
        if let Some(calls) = self.contenders.get(component) {
            let _ = calls.send(call);
        }
    }

    fn present(&self) -> Option<Leadership> {
        self.present
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_present(&self, leadership: Option<Leadership>) -> Option<Leadership> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *present, leadership)
    }

    fn end_leadership(&self) {
        if let Some(former) = self.set_present(None) {
            former.deadline.end();
        }
    }
}

async fn next_event(driver: &mut Option<Driving>) -> DriverEvent {
    match driver {
        Some(driving) => match driving.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Hands one contender its calls, one after another.
async fn serve(mut contender: Box<dyn LeaderContender>, mut queue: mpsc::UnboundedReceiver<Call>) {
    while let Some(call) = queue.recv().await {
        match call {
            Call::Grant(leadership) => contender.grant_leadership(leadership).await,
            Call::Revoke(done) => {
                contender.revoke_leadership().await;
                let _ = done.send(());
            }
            Call::Failed(error) => contender.handle_error(error).await,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Request")
    }
}
