//! A candidate: one session after another, one node a session.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lockkeeper_core::token::{FencingToken, Lineage};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError};

use super::proof::SessionProof;
use super::{Command, ZooKeeper, paths};
use crate::clock::LocalDeadline;
use crate::driver::SuspensionPolicy;
use crate::driver::renewal::first_pause;
use crate::election::{ComponentId, DriverListener, ElectionError, LeaderInformation, Leadership};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// How long the end of a session is waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often publishing races with a node that comes or goes before it is told as a problem.
const PUBLISH_ATTEMPTS: usize = 5;

pub(super) struct Candidate {
    options: ZooKeeper,
    listener: DriverListener,
    /// What is there to be released: shared between the session's life and the commands.
    present: Mutex<Present>,
    /// Of the first session: epochs of another one cannot be compared with it.
    lineage: OnceLock<Lineage>,
}

#[derive(Clone, Default)]
struct Present {
    client: Option<Client>,
    node: Option<String>,
    /// The session's id, as nodes name their owner.
    owner: i64,
    leading: Option<Leadership>,
    /// What has to be in the ensemble while this leadership lasts.
    published: BTreeMap<ComponentId, LeaderInformation>,
}

/// Why a session's life has ended.
enum Ended {
    /// Its node is gone, or its deadline has passed.
    Lost,
    Failed(Error),
    Damaged(ElectionError),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::Failed(error)
    }
}

impl Candidate {
    pub(super) fn new(options: ZooKeeper, listener: DriverListener) -> Self {
        Candidate {
            options,
            listener,
            present: Mutex::default(),
            lineage: OnceLock::new(),
        }
    }

    pub(super) async fn run(self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut done = None;
        {
            let life = self.live();
            tokio::pin!(life);
            loop {
                tokio::select! {
                    command = commands.recv() => match command {
                        Some(Command::Close(closing)) => {
                            done = Some(closing);
                            break;
                        }
                        Some(command) => self.obey(command).await,
                        None => break,
                    },
                    () = &mut life => break,
                }
            }
        }
        self.release().await;
        if let Some(done) = done {
            let _: Result<(), ()> = oneshot::Sender::send(done, ());
        }
    }

    /// Session after session, for ever.
    async fn live(&self) {
        let mut retry = FIRST_RETRY;
        loop {
            let ended = self.session(&mut retry).await;
            self.lose();
            let ended = ended.err().unwrap_or(Ended::Lost);
            match ended {
                Ended::Lost => {}
                Ended::Failed(error) => {
                    let error = ElectionError::unavailable("campaigning", error);
                    self.listener.failed(error);
                }
                Ended::Damaged(error) => self.listener.failed(error),
            }
            self.release().await;
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(LAST_RETRY);
        }
    }

    async fn session(&self, retry: &mut Duration) -> Result<(), Ended> {
        let opening = self.options.clock.now();
        let client = self.options.connect().await?;
        let mut proof = SessionProof::opened(opening, client.session_timeout());
        self.present(|present| present.client = Some(client.clone()));
        let paths = &self.options.paths;
        let folder = CreateMode::Persistent.with_acls(self.options.acls());
        client.mkdir(&paths.election(), &folder).await?;
        client.mkdir(&paths.information(), &folder).await?;
        let Some(election) = client.check_stat(&paths.election()).await? else {
            return Err(Ended::Failed(Error::NoNode));
        };
        let found = lineage(election.czxid, election.ctime);
        let expected = *self.lineage.get_or_init(|| found);
        if expected != found {
            let changed = ElectionError::LineageChanged { expected, found };
            return Err(Ended::Damaged(changed));
        }
        let session = Uuid::new_v4();
        let ephemeral = CreateMode::EphemeralSequential.with_acls(self.options.acls());
        let data = session.to_string();
        let created = client
            .create(&paths.candidate_prefix(), data.as_bytes(), &ephemeral)
            .await?;
        let (stat, sequence) = (created.0, created.1.into_i64());
        let node = paths.candidate(sequence);
        self.present(|present| {
            present.node = Some(node.clone());
            present.owner = stat.ephemeral_owner;
        });
        *retry = FIRST_RETRY;
        let epoch =
            u64::try_from(stat.czxid).map_err(|_| damaged(&node, "its czxid is below 0"))?;
        let token = FencingToken::new(found, epoch, session);
        self.wait_for_turn(&client, sequence, &mut proof).await?;
        self.lead(&client, &node, token, proof).await
    }

    /// Until there is no lower candidate: each watches the one before it.
    async fn wait_for_turn(
        &self,
        client: &Client,
        own: i64,
        proof: &mut SessionProof,
    ) -> Result<(), Ended> {
        let paths = &self.options.paths;
        loop {
            let names = client.list_children(&paths.election()).await?;
            let sequences: Vec<i64> = names
                .iter()
                .filter_map(|name| paths::sequence(name))
                .collect();
            if !sequences.contains(&own) {
                return Err(Ended::Lost);
            }
            let Some(before) = sequences.into_iter().filter(|other| *other < own).max() else {
                return Ok(());
            };
            let (found, changed) = client
                .check_and_watch_stat(&paths.candidate(before))
                .await?;
            let check = client.session_timeout() / 4;
            if found.is_some() {
                // Also without an event: the own node may be gone, which that watch does not tell.
                let _ = tokio::time::timeout(check, changed.changed()).await;
            }
            if client.state().is_terminated() {
                return Err(Ended::Failed(Error::SessionExpired));
            }
            self.prove(client, &paths.candidate(own), proof).await?;
        }
    }

    /// Asks the majority whether the own node is there.
    async fn prove(
        &self,
        client: &Client,
        node: &str,
        proof: &mut SessionProof,
    ) -> Result<(), Ended> {
        let sent = self.options.clock.now();
        let mut writer = client.new_multi_writer();
        writer.add_check_version(node, 0)?;
        match writer.commit().await {
            Ok(_) => {
                proof.answered(sent);
                Ok(())
            }
            Err(MultiWriteError::OperationFailed { .. }) => Err(Ended::Lost),
            Err(MultiWriteError::RequestFailed { source }) => Err(source.into()),
        }
    }

    /// Until the node is gone or the deadline has passed.
    async fn lead(
        &self,
        client: &Client,
        node: &str,
        token: FencingToken,
        mut proof: SessionProof,
    ) -> Result<(), Ended> {
        let clock = self.options.clock.clone();
        let session = client.session_timeout();
        self.prove(client, node, &mut proof).await?;
        let deadline = LocalDeadline::start(clock, session, proof.counts_from());
        if deadline.check().is_err() {
            return Err(Ended::Lost);
        }
        let leadership = Leadership {
            token,
            deadline: deadline.clone(),
        };
        self.present(|present| present.leading = Some(leadership.clone()));
        self.listener.granted(leadership);
        let stops = self.options.policy == SuspensionPolicy::Stop;
        let mut pause = first_pause(session / 4);
        loop {
            let patience = if stops { deadline.remaining() } else { session };
            tokio::time::sleep(pause.min(patience)).await;
            if stops && deadline.check().is_err() {
                return Err(Ended::Lost);
            }
            let patience = if stops { deadline.remaining() } else { session };
            let asked = self.prove(client, node, &mut proof);
            pause = match tokio::time::timeout(patience, asked).await {
                Ok(Ok(())) => {
                    if stops {
                        let renewed = deadline.renew(proof.counts_from());
                        renewed.map_err(|_| Ended::Lost)?;
                    } else {
                        // Late, and yet the node is there: nobody else has led meanwhile.
                        deadline.confirm(proof.counts_from());
                    }
                    // What it could not read now is read again after the next request.
                    let _ = tokio::time::timeout(session / 4, self.repair(client)).await;
                    session / 4
                }
                Ok(Err(Ended::Lost)) => return Err(Ended::Lost),
                Ok(Err(ended)) if client.state().is_terminated() => return Err(ended),
                // Not connected: asked again until the deadline.
                Ok(Err(_)) | Err(_) => session / 20,
            };
        }
    }

    async fn obey(&self, command: Command) {
        let (component, information) = match command {
            Command::Publish(component, information) => (component, Some(information)),
            Command::Withdraw(component) => (component, None),
            Command::Close(_) => return,
        };
        let token = self.present(|present| present.leading.as_ref().map(|now| now.token));
        if information
            .as_ref()
            .is_some_and(|information| Some(information.token) != token)
        {
            return;
        }
        self.present(|present| match &information {
            Some(information) => present
                .published
                .insert(component.clone(), information.clone()),
            None => present.published.remove(&component),
        });
        self.write(&component, information.as_ref()).await;
    }

    /// Writes what somebody has removed or changed, or what could not be written before: once a
    /// renewal, so that a problem that stays is not run against in a circle.
    async fn repair(&self, client: &Client) -> Result<(), Error> {
        for (component, information) in self.present(|present| present.published.clone()) {
            let path = self.options.paths.information_of(&component);
            let sound = match client.get_data(&path).await {
                Ok((data, _)) => {
                    serde_json::from_slice::<LeaderInformation>(&data).ok()
                        == Some(information.clone())
                }
                Err(Error::NoNode) => false,
                Err(error) => return Err(error),
            };
            if !sound {
                self.write(&component, Some(&information)).await;
            }
        }
        Ok(())
    }

    async fn write(&self, component: &ComponentId, information: Option<&LeaderInformation>) {
        let present = self.present(|present| present.clone());
        let (Some(client), Some(node), Some(leading)) =
            (present.client, present.node, present.leading)
        else {
            return;
        };
        if leading.deadline.check().is_err() {
            return;
        }
        let path = self.options.paths.information_of(component);
        let writing = async {
            match information {
                Some(information) => self.publish(&client, &node, component, information).await,
                None => withdraw(&client, &node, &path).await,
            }
        };
        // Longer, and the next own request would come late.
        let error = match tokio::time::timeout(client.session_timeout() / 4, writing).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => Error::Timeout,
        };
        let what = format!("changing the information of {component}");
        self.listener
            .failed(ElectionError::unavailable(what, error));
    }

    /// One transaction: only while the own candidate's node is there, which the server checks.
    async fn publish(
        &self,
        client: &Client,
        node: &str,
        component: &ComponentId,
        information: &LeaderInformation,
    ) -> Result<(), Error> {
        let path = self.options.paths.information_of(component);
        let data = serde_json::to_vec(information)
            .map_err(|error| Error::UnexpectedError(error.to_string()))?;
        let ephemeral = CreateMode::Ephemeral.with_acls(self.options.acls());
        let mut result = Err(Error::Timeout);
        let owner = self.present(|present| present.owner);
        for _ in 0..PUBLISH_ATTEMPTS {
            let found = client.check_stat(&path).await?;
            let mut writer = client.new_multi_writer();
            writer.add_check_version(node, 0)?;
            match found {
                Some(stat) if stat.ephemeral_owner == owner => {
                    writer.add_set_data(&path, &data, Some(stat.version))?;
                }
                found => {
                    // Of a former leader whose session has not expired yet, or of somebody else.
                    if let Some(stat) = found {
                        writer.add_delete(&path, Some(stat.version))?;
                    }
                    writer.add_create(&path, &data, &ephemeral)?;
                }
            }
            result = match writer.commit().await {
                Ok(_) => return Ok(()),
                Err(MultiWriteError::RequestFailed { source }) => return Err(source),
                Err(MultiWriteError::OperationFailed { index: 0, source }) => return Err(source),
                Err(MultiWriteError::OperationFailed { source, .. }) => Err(source),
            };
        }
        result
    }

    fn present<T>(&self, change: impl FnOnce(&mut Present) -> T) -> T {
        change(&mut self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lose(&self) {
        if let Some(former) = self.present(|present| present.leading.take()) {
            former.deadline.end();
            self.listener.lost(former.token);
        }
    }

    /// Deletes the node and ends the session, as far as the ensemble can be reached.
    async fn release(&self) {
        self.lose();
        let present = self.present(std::mem::take);
        let Some(client) = present.client else { return };
        let mut state = client.state_watcher();
        let ending = async move {
            if let Some(node) = &present.node {
                let _ = client.delete(node, None).await;
            }
            // With the last handle the session is closed, which takes its ephemeral nodes along.
            drop(client);
            while !state.peek_state().is_terminated() {
                state.changed().await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, ending).await.is_err() {
            tracing::debug!("a session could not be closed; the server will expire it");
        }
    }
}

/// A fresh data directory counts from the beginning: the same requests have the same czxid again there,
/// and only the time of the creation is another.
fn lineage(czxid: i64, ctime: i64) -> Lineage {
    let wide = |part: i64| u128::from(part.cast_unsigned());
    Lineage::new(wide(czxid) << 64 | wide(ctime))
}

async fn withdraw(client: &Client, node: &str, path: &str) -> Result<(), Error> {
    let mut writer = client.new_multi_writer();
    writer.add_check_version(node, 0)?;
    writer.add_delete(path, None)?;
    match writer.commit().await {
        Ok(_)
        | Err(MultiWriteError::OperationFailed {
            source: Error::NoNode,
            ..
        }) => Ok(()),
        Err(
            MultiWriteError::RequestFailed { source }
            | MultiWriteError::OperationFailed { source, .. },
        ) => Err(source),
    }
}

fn damaged(node: &str, reason: &str) -> Ended {
    Ended::Damaged(ElectionError::Corrupt {
        name: node.to_owned(),
        reason: reason.to_owned(),
    })
}
