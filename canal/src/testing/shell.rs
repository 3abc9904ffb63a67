//! The I/O around the machine: a listener, a task for each connection, a timer.
//!
//! All share the machine behind a lock that is never held across an await; whoever brings an event
//! carries the machine's actions to the connections' tasks.

mod link;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, watch};

use self::link::Link;
use super::destination::{Destination, Restart};
use super::machine::{Action, ConnectionId, Event, ServerMachine};
use super::moment::Moment;
use super::statistics::Statistics;

/// What all tasks and handles of one server share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The timer's deadline has changed.
    rearm: Notify,
    /// Something happened that statistics may tell.
    changed: watch::Sender<()>,
    control: mpsc::UnboundedSender<Control>,
}

#[derive(Debug)]
struct State {
    machine: ServerMachine,
    links: HashMap<ConnectionId, Link>,
    last_id: u64,
    armed: Option<Instant>,
}

/// Orders to the task that owns the listener.
#[derive(Debug)]
pub(crate) enum Control {
    Listen {
        wanted: bool,
        done: std::sync::mpsc::SyncSender<io::Result<()>>,
    },
    Stop,
}

impl Shared {
    pub(crate) fn new(machine: ServerMachine) -> (Arc<Self>, mpsc::UnboundedReceiver<Control>) {
        let (control, orders) = mpsc::unbounded_channel();
        let shared = Self {
            state: Mutex::new(State {
                machine,
                links: HashMap::new(),
                last_id: 0,
                armed: None,
            }),
            rearm: Notify::new(),
            changed: watch::Sender::new(()),
            control,
        };
        (Arc::new(shared), orders)
    }

    /// Changes something by hand, then lets the machine work.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut ServerMachine) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.machine);
        self.take(state, Event::Woken);
        changed
    }

    #[expect(
        clippy::expect_used,
        reason = "handles are only made for destinations that exist, and none is ever removed"
    )]
    pub(crate) fn with_destination<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Destination) -> T,
    ) -> T {
        self.change(|machine| change(machine.destination(name).expect("the destination exists")))
    }

    pub(crate) fn statistics(&self, destination: &str) -> Statistics {
        self.lock().machine.statistics(destination)
    }

    pub(crate) async fn wait_until(
        &self,
        destination: &str,
        mut condition: impl FnMut(&Statistics) -> bool,
    ) -> Statistics {
        let mut changes = self.changed.subscribe();
        loop {
            let statistics = self.statistics(destination);
            // `changed` fails only when the sender is gone, and it is in `self`
            if condition(&statistics) || changes.changed().await.is_err() {
                return statistics;
            }
        }
    }

    pub(crate) fn disconnect_all(&self) {
        let mut state = self.lock();
        let actions = state.machine.disconnect_all();
        state.carry_out(actions);
        self.take(state, Event::Woken);
    }

    pub(crate) fn restart(&self, how: Restart) {
        let mut state = self.lock();
        let actions = state.machine.restart(how);
        state.carry_out(actions);
        self.take(state, Event::Woken);
    }

    pub(crate) fn listen(&self, wanted: bool) -> io::Result<()> {
        let stopped = || io::Error::new(io::ErrorKind::NotConnected, "the server was stopped");
        let (done, outcome) = std::sync::mpsc::sync_channel(1);
        self.control
            .send(Control::Listen { wanted, done })
            .map_err(|_| stopped())?;
        outcome.recv().map_err(|_| stopped())?
    }

    pub(crate) fn stop(&self) {
        // without a receiver it has stopped already
        let _ = self.control.send(Control::Stop);
    }

    /// Brings an event to the machine and carries out what it says.
    fn step(&self, event: Event) {
        self.take(self.lock(), event);
    }

    fn take(&self, mut state: MutexGuard<'_, State>, event: Event) {
        let actions = state.machine.step(Moment::now(), event);
        state.carry_out(actions);
        let deadline = state.machine.deadline();
        if deadline != state.armed {
            state.armed = deadline;
            self.rearm.notify_one();
        }
        drop(state);
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, stream: TcpStream) {
        let mut state = self.lock();
        state.last_id += 1;
        let id = ConnectionId(state.last_id);
        let (link, ends) = Link::new();
        state.links.insert(id, link);
        let seeds = std::array::from_fn(|_| fastrand::u8(..));
        self.take(state, Event::Connected { id, seeds });
        tokio::spawn(link::run(Arc::clone(self), id, stream, ends));
    }
}

impl State {
    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Write { id, output } => {
                    if let Some(link) = self.links.get(&id) {
                        link.write(output);
                    }
                }
                Action::Read { id } => {
                    if let Some(link) = self.links.get(&id) {
                        link.read();
                    }
                }
                // the connection's task sees that its link is gone
                Action::Close { id } => {
                    self.links.remove(&id);
                }
            }
        }
    }
}

/// Serves until it is told to stop.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    mut orders: mpsc::UnboundedReceiver<Control>,
) {
    let timer = tokio::spawn(timer(Arc::clone(&shared)));
    let mut listener = Some(listener);
    loop {
        tokio::select! {
            accepted = accept(listener.as_ref()) => match accepted {
                Ok(stream) => shared.accept(stream),
                Err(error) => {
                    tracing::warn!(%error, "the embedded Canal server cannot accept a connection");
                    // too many open files, for instance: others have to close first
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            order = orders.recv() => match order {
                Some(Control::Listen { wanted, done }) => {
                    // the asker may have gone; the order stands
                    let _ = done.send(listen(&mut listener, address, wanted).await);
                }
                Some(Control::Stop) | None => break,
            },
        }
    }
    timer.abort();
    shared.disconnect_all();
}

const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn listen(
    listener: &mut Option<TcpListener>,
    address: SocketAddr,
    wanted: bool,
) -> io::Result<()> {
    if !wanted {
        *listener = None;
    } else if listener.is_none() {
        *listener = Some(TcpListener::bind(address).await?);
    }
    Ok(())
}

/// Wakes the machine whenever its deadline is due.
async fn timer(shared: Arc<Shared>) {
    loop {
        let deadline = shared.lock().armed;
        let due = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => shared.step(Event::Woken),
            () = shared.rearm.notified() => {}
        }
    }
}
