//! The thread of a candidate: carries out the machine's accesses, one after another.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use lockkeeper_core::token::{FencingToken, Lineage};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::LeaseFiles;
use super::folder::{Alive, Folder};
use super::host::ClockIdentity;
use super::machine::{Access, Answer, Candidate, Settings};
use crate::clock::{BootTime, Clock, LocalDeadline};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderInformation, Leadership,
};

/// A new session collides with a sweeper at most this often in a row before it waits.
const SESSION_ATTEMPTS: usize = 8;
/// A problem that stays is told again after this time.
const TELL_AGAIN: Duration = Duration::from_secs(10);

enum Command {
    Publish(ComponentId, LeaderInformation),
    Withdraw(ComponentId),
    Close(oneshot::Sender<()>),
}

/// The handle of a candidate; dropping it closes the candidate.
#[derive(Debug)]
pub(super) struct LeaseFileDriver {
    commands: Sender<Command>,
}

pub(super) fn start(
    options: &LeaseFiles,
    folder: Folder,
    listener: DriverListener,
) -> Result<LeaseFileDriver, ElectionError> {
    let (commands, inbox) = channel();
    let settings = Settings {
        session: options.session,
        poll_interval: options.poll_interval,
        epochs_above: options.epochs_above,
    };
    let worker = Worker {
        machine: Candidate::new(settings, ClockIdentity::of_this_process()),
        settings,
        folder,
        clock: options.clock.clone(),
        listener,
        alive: None,
        session: Uuid::nil(),
        leading: None,
        lineage: None,
        published: BTreeMap::new(),
        told: None,
    };
    std::thread::Builder::new()
        .name("lockkeeper-lease-files".to_owned())
        .spawn(move || worker.run(&inbox))
        .map_err(|error| ElectionError::unavailable("starting its thread", error))?;
    Ok(LeaseFileDriver { commands })
}

impl LeaderElectionDriver for LeaseFileDriver {
    fn publish(&mut self, component: &ComponentId, information: &LeaderInformation) {
        let _ = self
            .commands
            .send(Command::Publish(component.clone(), information.clone()));
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

struct Worker {
    machine: Candidate,
    settings: Settings,
    folder: Folder,
    clock: Arc<dyn Clock>,
    listener: DriverListener,
    alive: Option<Alive>,
    session: Uuid,
    leading: Option<Leadership>,
    lineage: Option<Lineage>,
    /// What has to be in the folder while this leadership lasts.
    published: BTreeMap<ComponentId, LeaderInformation>,
    /// The problem that was told last, and when: one that stays is not told at each look.
    told: Option<(String, BootTime)>,
}

impl Worker {
    fn run(mut self, inbox: &Receiver<Command>) {
        let mut access = self.machine.begin();
        loop {
            if self.deadline_has_passed() {
                access = self.machine.deadline_passed();
            }
            let answer = match access {
                Access::Wait { at_most } => match self.wait(inbox, at_most) {
                    Ok(()) => Answer::Done,
                    Err(Closed(done)) => {
                        self.end();
                        if let Some(done) = done {
                            let _ = done.send(());
                        }
                        return;
                    }
                },
                access => self.answer(&access),
            };
            access = self.machine.step(answer);
        }
    }

    fn deadline_has_passed(&self) -> bool {
        let passed = self
            .leading
            .as_ref()
            .is_some_and(|leading| leading.deadline.check().is_err());
        passed && self.machine.is_leading()
    }

    /// Handles commands until the time is over, or the deadline of a leadership has passed.
    fn wait(&mut self, inbox: &Receiver<Command>, at_most: Duration) -> Result<(), Closed> {
        let until = self.clock.now().after(at_most);
        self.repair();
        loop {
            let mut left = until.since(self.clock.now());
            if let Some(leading) = &self.leading {
                left = left.min(leading.deadline.remaining());
            }
            let command = if left.is_zero() {
                // Also without waiting: a candidate that never rests must still be closable.
                match inbox.try_recv() {
                    Ok(command) => command,
                    Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(()),
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(Closed(None)),
                }
            } else {
                match inbox.recv_timeout(left) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return Err(Closed(None)),
                }
            };
            match command {
                Command::Publish(component, information) => self.publish(&component, &information),
                Command::Withdraw(component) => self.withdraw(&component),
                Command::Close(done) => return Err(Closed(Some(done))),
            }
        }
    }

    fn answer(&mut self, access: &Access) -> Answer {
        match self.carry_out(access) {
            Ok(answer) => answer,
            Err(error) => {
                self.tell(format!("{access:?}"), error);
                Answer::Failed
            }
        }
    }

    fn tell(&mut self, what: String, error: io::Error) {
        let (text, now) = (error.to_string(), self.clock.now());
        let is_news = self
            .told
            .as_ref()
            .is_none_or(|(told, at)| *told != text || now.since(*at) >= TELL_AGAIN);
        if is_news {
            self.told = Some((text, now));
            let error = match error.downcast::<ElectionError>() {
                Ok(error) => error,
                Err(error) => ElectionError::unavailable(what, error),
            };
            self.listener.failed(error);
        }
    }

    fn carry_out(&mut self, access: &Access) -> io::Result<Answer> {
        Ok(match access {
            Access::NewSession => self.new_session()?,
            Access::ListLeases => Answer::Leases(self.folder.leases()?),
            Access::ReadClock => Answer::Clock(self.clock.now()),
            Access::ReadLease { epoch } => Answer::Lease(self.folder.lease(*epoch)?),
            Access::TryAlive { session } => Answer::Free(self.folder.try_alive(*session)?),
            Access::CreateLease { epoch, lease } => {
                Answer::Created(self.folder.create_lease(*epoch, lease)?)
            }
            Access::SyncFolder => self.folder.sync().map(|()| Answer::Done)?,
            Access::Grant { epoch, sent } => self.grant(*epoch, *sent)?,
            Access::WriteExpires { epoch, expires } => self
                .folder
                .write_expires(*epoch, *expires)
                .map(|()| Answer::Done)?,
            Access::Renew { sent } => Answer::Renewed(
                self.leading
                    .as_ref()
                    .is_some_and(|leading| leading.deadline.renew(*sent).is_ok()),
            ),
            Access::SweepBelow { epoch } => {
                self.folder.sweep_below(*epoch).map(|()| Answer::Done)?
            }
            Access::Lose => {
                self.lose();
                Answer::Done
            }
            Access::Wait { .. } => Answer::Done,
        })
    }

    fn new_session(&mut self) -> io::Result<Answer> {
        self.alive = None;
        self.checked_lineage()?;
        for _ in 0..SESSION_ATTEMPTS {
            let session = Uuid::new_v4();
            if let Some(alive) = self.folder.lock_alive(session)? {
                self.alive = Some(alive);
                self.session = session;
                return Ok(Answer::Session(session));
            }
        }
        Err(io::Error::other(
            "its new alive file was swept again and again",
        ))
    }

    /// The folder's lineage, as long as it is the one that this candidate began with.
    fn checked_lineage(&mut self) -> io::Result<Lineage> {
        let found = self.folder.lineage()?;
        let expected = *self.lineage.get_or_insert(found);
        if found == expected {
            return Ok(found);
        }
        Err(io::Error::other(ElectionError::LineageChanged {
            expected,
            found,
        }))
    }

    fn grant(&mut self, epoch: u64, sent: BootTime) -> io::Result<Answer> {
        let found = self.checked_lineage()?;
        let deadline = LocalDeadline::start(self.clock.clone(), self.settings.session, sent);
        if deadline.check().is_err() {
            return Ok(Answer::Renewed(false));
        }
        let token = FencingToken::new(found, epoch, self.session);
        let leadership = Leadership { token, deadline };
        self.leading = Some(leadership.clone());
        self.listener.granted(leadership);
        Ok(Answer::Renewed(true))
    }

    fn lose(&mut self) {
        if let Some(former) = self.leading.take() {
            former.deadline.end();
            self.published.clear();
            self.listener.lost(former.token);
        }
    }

    fn end(&mut self) {
        self.lose();
        self.alive = None;
    }

    fn publish(&mut self, component: &ComponentId, information: &LeaderInformation) {
        let Some(leading) = &self.leading else { return };
        if leading.token == information.token {
            self.published
                .insert(component.clone(), information.clone());
            self.write(component, information);
        }
    }

    /// Writes what somebody has removed or changed, or what could not be written before. Called
    /// once a renewal, so that a full disk is not written to in a circle.
    fn repair(&mut self) {
        let Some(leading) = &self.leading else { return };
        let epoch = leading.token.epoch;
        for (component, information) in self.published.clone() {
            let found = self.folder.information(epoch, &component);
            if !found.is_ok_and(|found| found.as_ref() == Some(&information)) {
                self.write(&component, &information);
            }
        }
    }

    fn write(&mut self, component: &ComponentId, information: &LeaderInformation) {
        let acts = self
            .leading
            .as_ref()
            .is_some_and(|leading| leading.deadline.check().is_ok());
        if !acts {
            return;
        }
        if let Err(error) = self.folder.publish(component, information) {
            let what = format!("publishing the leader of {component}");
            self.tell(what, error);
        }
    }

    fn withdraw(&mut self, component: &ComponentId) {
        self.published.remove(component);
        let Some(leading) = &self.leading else { return };
        if let Err(error) = self.folder.withdraw(leading.token.epoch, component) {
            let what = format!("withdrawing the leader of {component}");
            self.tell(what, error);
        }
    }
}

/// The candidate is to end; whoever waits for it is told.
struct Closed(Option<oneshot::Sender<()>>);
