//! The rules of lease files as a pure machine: one access to clock or folder a step.
//!
//! What each rule is needed for was found by a model checker, with a stop and a crash possible
//! between any two steps:
//! - A standby reads the clock *before* the lease: else two leaders at once.
//! - A candidate lists again after creating its lease and leads only if none is higher: else, once
//!   lower leases are deleted, two leaders at once.
//! - It believes only after the folder is synced: else two leaders after a loss of power.
//! - A renewal counts only if the clock is still before the *old* deadline.

use std::time::Duration;

use uuid::Uuid;

use super::host::ClockIdentity;
use super::record::Lease;
use crate::clock::BootTime;

/// One access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// Ends the former session if there is one, and locks a new `alive-<session>`.
    NewSession,
    ListLeases,
    ReadClock,
    ReadLease {
        epoch: u64,
    },
    /// Takes the lock of `alive-<session>` and lets it go; a file that is absent is free.
    TryAlive {
        session: Uuid,
    },
    CreateLease {
        epoch: u64,
        lease: Lease,
    },
    SyncFolder,
    /// Tells that leadership began with a request sent at `sent`.
    Grant {
        epoch: u64,
        sent: BootTime,
    },
    WriteExpires {
        epoch: u64,
        expires: BootTime,
    },
    /// Moves the deadline, if the clock is still before it.
    Renew {
        sent: BootTime,
    },
    /// Deletes leases below `epoch` and what belongs to them.
    SweepBelow {
        epoch: u64,
    },
    /// Ends the leadership.
    Lose,
    Wait {
        at_most: Duration,
    },
}

/// What an access gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Session(Uuid),
    Leases(Vec<u64>),
    Clock(BootTime),
    Lease(Option<Lease>),
    Free(bool),
    Created(bool),
    Renewed(bool),
    Done,
    /// The access failed: nobody knows what it did.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Settings {
    pub(crate) session: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) epochs_above: u64,
}

/// A candidate, from its first session on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    settings: Settings,
    clock: ClockIdentity,
    session: Uuid,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Beginning,
    Looking,
    /// The clock is read before the lease of `holder`.
    ReadingClock {
        holder: u64,
    },
    ReadingLease {
        holder: u64,
        clock: BootTime,
    },
    TryingAlive {
        holder: u64,
        wait: Duration,
    },
    Idle,
    /// The expiry of the new lease counts from here.
    Dating {
        epoch: u64,
    },
    Creating {
        epoch: u64,
        sent: BootTime,
    },
    Syncing {
        epoch: u64,
        sent: BootTime,
    },
    LookingAgain {
        epoch: u64,
        sent: BootTime,
    },
    Granting {
        epoch: u64,
    },
    Sweeping {
        epoch: u64,
    },
    Leading {
        epoch: u64,
    },
    DatingRenewal {
        epoch: u64,
    },
    Renewing {
        epoch: u64,
        sent: BootTime,
    },
    LookingAfterRenewal {
        epoch: u64,
        sent: BootTime,
    },
    Extending {
        epoch: u64,
    },
    Losing,
}

impl Candidate {
    pub(crate) fn new(settings: Settings, clock: ClockIdentity) -> Self {
        Candidate {
            settings,
            clock,
            session: Uuid::nil(),
            state: State::Beginning,
        }
    }

    pub(crate) fn begin(&self) -> Access {
        Access::NewSession
    }

    pub(crate) fn step(&mut self, answer: Answer) -> Access {
        match (self.state.clone(), answer) {
            (State::Beginning, Answer::Session(session)) => {
                self.session = session;
                self.look()
            }
            (State::Beginning, _) => {
                // No session yet: wait, then try again.
                self.go(State::Losing, self.wait())
            }
            (State::Idle, _) => self.look(),
            (State::Looking, Answer::Leases(epochs)) => self.looked(&epochs),
            (State::ReadingClock { holder }, Answer::Clock(clock)) => self.go(
                State::ReadingLease { holder, clock },
                Access::ReadLease { epoch: holder },
            ),
            (State::ReadingLease { holder, clock }, Answer::Lease(Some(lease))) => {
                self.judge(holder, clock, &lease)
            }
            (State::TryingAlive { holder, .. }, Answer::Free(true)) => self.campaign(holder),
            (State::TryingAlive { wait, .. }, Answer::Free(false)) => {
                self.go(State::Idle, Access::Wait { at_most: wait })
            }
            (State::Dating { epoch }, Answer::Clock(sent)) => {
                let expires = sent.after(self.settings.session);
                let lease = Lease {
                    session: self.session,
                    clock: self.clock.clone(),
                    expires,
                };
                self.go(
                    State::Creating { epoch, sent },
                    Access::CreateLease { epoch, lease },
                )
            }
            (State::Creating { epoch, sent }, Answer::Created(true)) => {
                self.go(State::Syncing { epoch, sent }, Access::SyncFolder)
            }
            (State::Syncing { epoch, sent }, Answer::Done) => {
                self.go(State::LookingAgain { epoch, sent }, Access::ListLeases)
            }
            (State::LookingAgain { epoch, sent }, Answer::Leases(epochs)) => {
                if is_highest(epoch, &epochs) {
                    self.go(State::Granting { epoch }, Access::Grant { epoch, sent })
                } else {
                    self.abandon()
                }
            }
            (State::Granting { epoch }, Answer::Renewed(true)) => {
                self.go(State::Sweeping { epoch }, Access::SweepBelow { epoch })
            }
            // What could not be swept is swept by the next leader.
            (State::Sweeping { epoch } | State::Extending { epoch }, Answer::Done)
            | (State::Sweeping { epoch }, Answer::Failed)
            | (State::Extending { epoch }, Answer::Renewed(true)) => {
                let at_most = self.settings.session / 4;
                self.go(State::Leading { epoch }, Access::Wait { at_most })
            }
            (State::Leading { epoch }, _) => {
                self.go(State::DatingRenewal { epoch }, Access::ReadClock)
            }
            (State::DatingRenewal { epoch }, Answer::Clock(sent)) => {
                let expires = sent.after(self.settings.session);
                self.go(
                    State::Renewing { epoch, sent },
                    Access::WriteExpires { epoch, expires },
                )
            }
            (State::Renewing { epoch, sent }, Answer::Done) => self.go(
                State::LookingAfterRenewal { epoch, sent },
                Access::ListLeases,
            ),
            (State::LookingAfterRenewal { epoch, sent }, Answer::Leases(epochs)) => {
                if is_highest(epoch, &epochs) {
                    self.go(State::Extending { epoch }, Access::Renew { sent })
                } else {
                    self.lose()
                }
            }
            // A renewal that failed is tried again until the deadline: the wait ends there.
            (
                State::DatingRenewal { epoch }
                | State::Renewing { epoch, .. }
                | State::LookingAfterRenewal { epoch, .. },
                Answer::Failed,
            ) => self.go(State::Leading { epoch }, self.wait()),
            (State::Granting { .. } | State::Extending { .. }, _) => self.lose(),
            (State::Losing, _) => self.go(State::Beginning, Access::NewSession),
            // Created by somebody else, gone, failed: start over. A lease of ours that may be
            // there names this session, so that the next try needs another.
            (
                State::Creating { .. } | State::Syncing { .. } | State::LookingAgain { .. },
                answer,
            ) => {
                if answer == Answer::Created(false) {
                    self.look()
                } else {
                    self.abandon()
                }
            }
            (_, _) => self.go(State::Idle, self.wait()),
        }
    }

    /// The deadline has passed while it waited, or its leadership was told to end.
    pub(crate) fn deadline_passed(&mut self) -> Access {
        self.lose()
    }

    pub(crate) fn is_leading(&self) -> bool {
        matches!(
            self.state,
            State::Sweeping { .. }
                | State::Leading { .. }
                | State::DatingRenewal { .. }
                | State::Renewing { .. }
                | State::LookingAfterRenewal { .. }
                | State::Extending { .. }
        )
    }

    fn looked(&mut self, epochs: &[u64]) -> Access {
        match epochs.iter().copied().max() {
            Some(holder) => self.go(State::ReadingClock { holder }, Access::ReadClock),
            None => self.campaign(0),
        }
    }

    /// Whether the holder's leadership is over, by a clock that was read before its lease.
    fn judge(&mut self, holder: u64, clock: BootTime, lease: &Lease) -> Access {
        // Nobody outlives a boot.
        let rebooted = lease.clock.boot != self.clock.boot;
        let comparable = lease.clock == self.clock;
        if rebooted || (comparable && clock >= lease.expires) {
            return self.campaign(holder);
        }
        let left = if comparable {
            lease.expires.since(clock)
        } else {
            Duration::MAX
        };
        let wait = left.min(self.settings.poll_interval);
        let session = lease.session;
        self.go(
            State::TryingAlive { holder, wait },
            Access::TryAlive { session },
        )
    }

    fn campaign(&mut self, holder: u64) -> Access {
        match holder.max(self.settings.epochs_above).checked_add(1) {
            Some(epoch) => self.go(State::Dating { epoch }, Access::ReadClock),
            None => self.go(State::Idle, self.wait()),
        }
    }

    fn look(&mut self) -> Access {
        self.go(State::Looking, Access::ListLeases)
    }

    /// Our lease exists and is not to be believed: with a new session it is soon free.
    fn abandon(&mut self) -> Access {
        self.go(State::Beginning, Access::NewSession)
    }

    fn lose(&mut self) -> Access {
        self.go(State::Losing, Access::Lose)
    }

    fn wait(&self) -> Access {
        Access::Wait {
            at_most: self.settings.poll_interval,
        }
    }

    fn go(&mut self, state: State, access: Access) -> Access {
        self.state = state;
        access
    }
}

fn is_highest(epoch: u64, epochs: &[u64]) -> bool {
    epochs.iter().all(|other| *other <= epoch) && epochs.contains(&epoch)
}
