//! ZooKeeper around the machine.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use zookeeper_client::{Acls, Client, CreateMode, Error, WatchedEvent};

use super::data::ClientRunningData;
use super::machine::{NodeSeen, RunningMachine, Step};
use super::monitor::{ClientRunningListener, ClientRunningMonitorBuilder, RunningState};
use super::server_nodes::ServerCursor;
use crate::role::{Activity, ClientRole, Report, RoleView, boot_time};

/// How long the end of a session is waited for; then the server has to expire it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The task that carries out what the machine says.
pub(super) struct Shell {
    machine: RunningMachine,
    ensemble: String,
    session: Duration,
    /// `…/destinations/D/{clientId}`.
    folder: String,
    client: Option<Client>,
    /// Resolves when the node has changed since it was read.
    change: Option<Pin<Box<dyn Future<Output = WatchedEvent> + Send>>>,
    state: watch::Sender<RunningState>,
    view: watch::Sender<RoleView>,
    inbox: mpsc::UnboundedReceiver<Report>,
    owned: watch::Receiver<()>,
    listener: Option<Box<dyn ClientRunningListener>>,
    shown: Option<Activity>,
}

impl Shell {
    pub(super) fn new(
        machine: RunningMachine,
        builder: ClientRunningMonitorBuilder,
        state: watch::Sender<RunningState>,
        view: watch::Sender<RoleView>,
        inbox: mpsc::UnboundedReceiver<Report>,
        owned: watch::Receiver<()>,
    ) -> Self {
        let folder = format!(
            "{}/destinations/{}/{}",
            builder.root.trim_end_matches('/'),
            builder.identity.destination(),
            builder.identity.client_id()
        );
        Self {
            machine,
            ensemble: builder.ensemble,
            session: builder.session,
            folder,
            client: None,
            change: None,
            state,
            view,
            inbox,
            owned,
            listener: builder.listener,
            shown: None,
        }
    }

    /// Works until the last handle is gone.
    pub(super) fn run_on_this_thread(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.run()),
            Err(error) => tracing::error!(%error, "the running monitor cannot work"),
        }
    }

    async fn run(mut self) {
        loop {
            while let Ok(report) = self.inbox.try_recv() {
                self.obey(&report);
            }
            if self.owned.has_changed().is_err() {
                self.machine.stop();
            }
            let step = self.machine.step(boot_time());
            self.show();
            match step {
                Step::Connect => self.connect().await,
                Step::Create(data) => self.create(&data).await,
                Step::Look => self.look().await,
                Step::Write(data, version) => self.write(data, version).await,
                Step::CloseSession => self.close().await,
                Step::Wait(until) => self.wait(until).await,
                Step::Finished => return,
            }
        }
    }

    fn obey(&mut self, report: &Report) {
        let now = boot_time();
        match report {
            Report::Join => self.machine.join(now),
            Report::Resign => self.machine.resign(),
            Report::Connected(address) => self.machine.connected(address.to_string()),
            Report::ConnectFailed => self.machine.connect_failed(now, fastrand::f64()),
        }
    }

    /// Tells connector, user and listener what has changed.
    fn show(&mut self) {
        let activity = self.machine.activity().cloned();
        let holder = self.machine.holder().cloned();
        let same = match (&activity, &self.shown) {
            (Some(new), Some(old)) => new.is(old),
            (None, None) => true,
            _ => false,
        };
        let address = holder.as_ref().map(|holder| holder.address.clone());
        let decided = self.machine.decided();
        self.view.send_if_modified(|view| {
            let differs = !same || view.holder != address || view.decided != decided;
            view.activity.clone_from(&activity);
            view.holder = address;
            view.decided = decided;
            differs
        });
        let role = match activity {
            Some(_) => ClientRole::Active,
            None => ClientRole::Standby,
        };
        let (leftover, connected) = (self.machine.leftover(), self.machine.has_session());
        self.change(|state| {
            state.role = role;
            state.holder = holder;
            if leftover && !state.leftover {
                tracing::warn!("the running node belongs to no session: delete it by hand");
            }
            state.leftover = leftover;
            state.connected = connected;
        });
        if !same && let Some(listener) = &mut self.listener {
            if self.shown.is_some() {
                listener.process_active_exit();
            }
            if activity.is_some() {
                listener.process_active_enter();
            }
        }
        if !same {
            tracing::info!(folder = self.folder, ?role, "the client's role");
        }
        self.shown = activity;
    }

    fn change(&self, change: impl FnOnce(&mut RunningState)) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }

    fn running(&self) -> String {
        format!("{}/running", self.folder)
    }

    /// A failure, told once until something goes right.
    fn problem(&self, problem: Option<&Error>) {
        let text = problem.map(ToString::to_string);
        self.change(|state| {
            if state.problem.is_none()
                && let Some(text) = &text
            {
                tracing::warn!(problem = text, "the running monitor and ZooKeeper");
            }
            state.problem = text;
        });
    }

    async fn connect(&mut self) {
        let connector = Client::connector().with_session_timeout(self.session);
        let connecting = connector.connect(&self.ensemble);
        let connected = tokio::time::timeout(self.session, connecting).await;
        match connected.unwrap_or(Err(Error::Timeout)) {
            Ok(client) => {
                let id = client.session_id();
                let timeout = client.session_timeout();
                self.machine.session_started(boot_time(), id.0, timeout);
                self.client = Some(client);
                self.problem(None);
            }
            Err(error) => {
                self.problem(Some(&error));
                self.machine.session_ended(boot_time(), fastrand::f64());
            }
        }
    }

    /// A request within its limit: a quarter of the session, and no longer than the turn.
    async fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let session = self
            .client
            .as_ref()
            .map_or(self.session, Client::session_timeout);
        let turn = self.machine.activity().map(Activity::until);
        let rest = turn.map(|until| until.saturating_sub(boot_time()));
        let limit = rest.map_or(session / 4, |rest| rest.min(session / 4));
        let asked = tokio::time::timeout(limit, request).await;
        asked.unwrap_or(Err(Error::Timeout))
    }

    async fn create(&mut self, data: &ClientRunningData) {
        let Some(client) = self.client.clone() else {
            return self.lost();
        };
        let acls = Acls::anyone_all();
        let (running, json) = (self.running(), data.to_json());
        let sent = boot_time();
        let creating = async {
            let ephemeral = CreateMode::Ephemeral.with_acls(acls);
            match client.create(&running, &json, &ephemeral).await {
                Err(Error::NoNode) => {}
                other => return other.map(|_| ()),
            }
            let persistent = CreateMode::Persistent.with_acls(acls);
            client.mkdir(&self.folder, &persistent).await?;
            client.create(&running, &json, &ephemeral).await.map(|_| ())
        };
        let created = self.ask(creating).await;
        match created {
            Ok(()) => {
                self.wrote();
                self.machine.created(sent, boot_time());
                self.problem(None);
            }
            Err(Error::NodeExists) => self.machine.exists(),
            Err(error) => self.failed(&error),
        }
    }

    /// Reads the node, watches it, and renews the turn if there is one.
    async fn look(&mut self) {
        let Some(client) = self.client.clone() else {
            return self.lost();
        };
        let running = self.running();
        let sent = boot_time();
        let looking = async {
            // Through the leader: the answer of a server that is cut off from it says nothing
            // about the session.
            client.sync(&running).await?;
            let (stat, watcher) = client.check_and_watch_stat(&running).await?;
            let Some(stat) = stat else {
                return Ok((None, watcher));
            };
            match client.get_data(&running).await {
                Ok((data, now)) if now.czxid == stat.czxid => {
                    let seen = NodeSeen {
                        owner: now.ephemeral_owner,
                        version: now.version,
                        data: ClientRunningData::from_json(&data),
                    };
                    Ok((Some(seen), watcher))
                }
                // Another one since: the watch says so at once.
                Ok(_) | Err(Error::NoNode) => Ok((None, watcher)),
                Err(error) => Err(error),
            }
        };
        let looked = self.ask(looking).await;
        match looked {
            Ok((seen, watcher)) => {
                self.change = Some(Box::pin(watcher.changed()));
                self.machine.looked(sent, boot_time(), seen);
                self.problem(None);
                self.show();
                self.read_server_nodes(&client).await;
            }
            Err(error) => self.failed(&error),
        }
    }

    /// For display only: what cannot be read now is read the next time.
    async fn read_server_nodes(&self, client: &Client) {
        let (cursor, filter) = (
            format!("{}/cursor", self.folder),
            format!("{}/filter", self.folder),
        );
        let cursor = self.ask(client.get_data(&cursor)).await.ok();
        let filter = self.ask(client.get_data(&filter)).await.ok();
        self.change(|state| {
            state.cursor = cursor.and_then(|(data, _)| ServerCursor::from_json(&data));
            state.filter = filter.and_then(|(data, _)| String::from_utf8(data).ok());
        });
    }

    async fn write(&mut self, data: ClientRunningData, version: i32) {
        let Some(client) = self.client.clone() else {
            return self.lost();
        };
        let (running, json) = (self.running(), data.to_json());
        let written = self
            .ask(client.set_data(&running, &json, Some(version)))
            .await;
        match written {
            Ok(stat) => {
                self.wrote();
                self.machine.written(data, stat.version);
            }
            // Changed or deleted by somebody: the next look says what.
            Err(Error::BadVersion | Error::NoNode) => self.machine.changed(boot_time()),
            Err(error) => self.failed(&error),
        }
    }

    fn wrote(&self) {
        self.change(|state| state.writes += 1);
    }

    fn failed(&mut self, error: &Error) {
        self.problem(Some(error));
        let over = self
            .client
            .as_ref()
            .is_none_or(|client| client.state().is_terminated());
        if over {
            self.lost();
        } else {
            self.machine.request_failed(boot_time());
        }
    }

    fn lost(&mut self) {
        (self.client, self.change) = (None, None);
        self.machine.session_ended(boot_time(), fastrand::f64());
    }

    /// The node goes with its session.
    async fn close(&mut self) {
        self.change = None;
        if let Some(client) = self.client.take() {
            let mut state = client.state_watcher();
            drop(client);
            let closed = async {
                while !state.peek_state().is_terminated() {
                    state.changed().await;
                }
            };
            if tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_err() {
                tracing::debug!("a session could not be closed; the server will expire it");
            }
            self.wrote();
        }
        self.machine.session_ended(boot_time(), fastrand::f64());
    }

    async fn wait(&mut self, until: Option<Duration>) {
        let rest = until.map(|until| until.saturating_sub(boot_time()));
        let client = self.client.clone();
        let session_over = async {
            match client {
                Some(client) => {
                    let mut state = client.state_watcher();
                    while !state.peek_state().is_terminated() {
                        state.changed().await;
                    }
                }
                None => pending().await,
            }
        };
        let time = async {
            match rest {
                Some(rest) => tokio::time::sleep(rest).await,
                None => pending().await,
            }
        };
        let change = async {
            match &mut self.change {
                Some(change) => change.await,
                None => pending().await,
            }
        };
        tokio::select! {
            event = change => {
                tracing::trace!(?event, "the running node has changed");
                self.change = None;
                self.machine.changed(boot_time());
            }
            () = session_over => self.lost(),
            Some(report) = self.inbox.recv() => self.obey(&report),
            _ = self.owned.changed() => {}
            () = time => {}
        }
    }
}
