//! The registered workers and their leases.
//!
//! The coordinator counts a lease from the arrival of a request, the worker from its sending, so
//! that the worker's own deadline always comes first; the margin covers clocks and scheduling.
//!
//! Workers of the term before are ghosts: they may act until their lease is over, also if they
//! never speak to this coordinator. A ghost's own process may register at once, another one of that
//! name only when the ghost is dead.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::outbox::Outbox;
use super::record::Claim;
use crate::process::ProcessIdentity;
use crate::protocol::{Refusal, Register, Standing};

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) worker_epoch: u64,
    pub(crate) incarnation: Uuid,
    pub(crate) registration: u64,
    pub(crate) address: String,
    pub(crate) slots: u16,
    pub(crate) labels: Vec<String>,
    pub(crate) standing: Option<Standing>,
    pub(crate) process: Option<ProcessIdentity>,
    /// Nothing of it can take effect from here on.
    pub(crate) dead_at: Duration,
    pub(crate) outbox: Outbox,
}

/// A process that a former term gave instances to, and that has not registered yet.
#[derive(Debug)]
struct Ghost {
    incarnation: Uuid,
    process: Option<ProcessIdentity>,
    dead_at: Duration,
}

/// The worker epoch by which ghosts are named; no registration has it.
const GHOST: u64 = 0;

/// What became of a registration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// A new registration, which may have replaced one of the same process.
    New {
        worker_epoch: u64,
        replaced: bool,
    },
    /// Its answer was lost: the same again.
    Again {
        worker_epoch: u64,
    },
    Refused(Refusal),
}

#[derive(Debug)]
pub(crate) struct Members {
    lease: Duration,
    margin: Duration,
    by_name: BTreeMap<String, Member>,
    ghosts: BTreeMap<String, Ghost>,
    /// The last registration under each name that is over: its late repetition is no new one.
    past: BTreeMap<String, (Uuid, u64)>,
    last_epoch: u64,
}

impl Members {
    /// Worker epochs begin above `last_epoch`; the claims of the term before begin to end now.
    pub(crate) fn new(
        now: Duration,
        lease: Duration,
        margin: Duration,
        last_epoch: u64,
        claims: &[Claim],
    ) -> Self {
        let ghost = |claim: &Claim| {
            let Claim {
                worker,
                incarnation,
                process,
                lasts,
            } = claim.clone();
            (
                worker,
                Ghost {
                    incarnation,
                    process,
                    dead_at: now + lasts,
                },
            )
        };
        let ghosts = claims.iter().map(ghost).collect();
        Self {
            lease,
            margin,
            by_name: BTreeMap::new(),
            ghosts,
            past: BTreeMap::new(),
            last_epoch,
        }
    }

    pub(crate) fn admit(&mut self, now: Duration, register: &Register) -> Admission {
        let name = &register.worker;
        let dead_at = now + self.lease + self.margin;
        if let Some(member) = self.by_name.get_mut(name) {
            if member.incarnation != register.incarnation {
                let remaining = member.dead_at.saturating_sub(now);
                return Admission::Refused(Refusal::NameInUse {
                    worker: name.clone(),
                    remaining,
                });
            }
            if member.registration == register.attempt {
                member.dead_at = dead_at;
                return Admission::Again {
                    worker_epoch: member.worker_epoch,
                };
            }
            if member.registration > register.attempt {
                return Admission::Refused(not_registered(name, 0));
            }
        } else if self
            .past
            .get(name)
            .is_some_and(|(incarnation, registration)| {
                *incarnation == register.incarnation && *registration >= register.attempt
            })
        {
            return Admission::Refused(not_registered(name, 0));
        }
        if let Some(ghost) = self.ghosts.get(name) {
            if ghost.incarnation != register.incarnation && ghost.dead_at > now {
                let remaining = ghost.dead_at.saturating_sub(now);
                return Admission::Refused(Refusal::NameInUse {
                    worker: name.clone(),
                    remaining,
                });
            }
            self.ghosts.remove(name);
        }
        // The same process has given its former registration up, or there is none.
        let replaced = self.remove(name).is_some();
        self.last_epoch += 1;
        let worker_epoch = self.last_epoch;
        let member = Member {
            worker_epoch,
            incarnation: register.incarnation,
            registration: register.attempt,
            address: register.address.clone(),
            slots: register.slots,
            labels: register.labels.clone(),
            standing: register.standing.clone(),
            process: register.process.clone(),
            dead_at,
            outbox: Outbox::new(worker_epoch),
        };
        self.by_name.insert(name.clone(), member);
        Admission::New {
            worker_epoch,
            replaced,
        }
    }

    /// The member that this registration names.
    pub(crate) fn find(&mut self, worker: &str, epoch: u64) -> Result<&mut Member, Refusal> {
        match self.by_name.get_mut(worker) {
            Some(member) if member.worker_epoch == epoch => Ok(member),
            _ => Err(not_registered(worker, epoch)),
        }
    }

    pub(crate) fn renew(
        &mut self,
        now: Duration,
        worker: &str,
        epoch: u64,
    ) -> Result<&mut Member, Refusal> {
        let dead_at = now + self.lease + self.margin;
        let member = self.find(worker, epoch)?;
        member.dead_at = dead_at;
        Ok(member)
    }

    pub(crate) fn remove(&mut self, worker: &str) -> Option<Member> {
        let member = self.by_name.remove(worker)?;
        self.past
            .insert(worker.to_owned(), (member.incarnation, member.registration));
        Some(member)
    }

    /// Whether the process that ran something under this name may still act unseen.
    pub(crate) fn is_haunted(&self, worker: &str) -> bool {
        self.ghosts.contains_key(worker)
    }

    /// Forgets a ghost; `epoch` is what [`processes`](Self::processes) gave for it.
    pub(crate) fn lay_ghost(&mut self, worker: &str, epoch: u64) -> bool {
        epoch == GHOST && self.ghosts.remove(worker).is_some()
    }

    /// Forgets the ghosts whose time is over.
    pub(crate) fn lay_ghosts(&mut self, now: Duration) -> bool {
        let before = self.ghosts.len();
        self.ghosts.retain(|_, ghost| ghost.dead_at > now);
        self.ghosts.len() < before
    }

    /// The processes whose end would be news, with the registration they belong to.
    pub(crate) fn processes(&self) -> Vec<(String, u64, ProcessIdentity)> {
        let members = self
            .by_name
            .iter()
            .map(|(n, m)| (n, m.worker_epoch, m.process.as_ref()));
        let ghosts = self
            .ghosts
            .iter()
            .map(|(n, ghost)| (n, GHOST, ghost.process.as_ref()));
        let known = |(name, epoch, process): (&String, u64, Option<&ProcessIdentity>)| {
            Some((name.clone(), epoch, process?.clone()))
        };
        members.chain(ghosts).filter_map(known).collect()
    }

    pub(crate) fn get(&self, worker: &str) -> Option<&Member> {
        self.by_name.get(worker)
    }

    pub(crate) fn get_mut(&mut self, worker: &str) -> Option<&mut Member> {
        self.by_name.get_mut(worker)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.by_name
            .iter()
            .map(|(name, member)| (name.as_str(), member))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Member)> {
        self.by_name
            .iter_mut()
            .map(|(name, member)| (name.as_str(), member))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// The names of those whose lease and margin are over.
    pub(crate) fn expired(&self, now: Duration) -> Vec<String> {
        self.iter()
            .filter(|(_, member)| member.dead_at <= now)
            .map(|(n, _)| n.to_owned())
            .collect()
    }

    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        let ghosts = self.ghosts.values().map(|ghost| ghost.dead_at);
        self.iter()
            .map(|(_, member)| member.dead_at)
            .chain(ghosts)
            .min()
    }
}

pub(crate) fn not_registered(worker: &str, worker_epoch: u64) -> Refusal {
    Refusal::NotRegistered {
        worker: worker.to_owned(),
        worker_epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn register(incarnation: u128, attempt: u64) -> Register {
        Register {
            region: "r".to_owned(),
            worker: "w".to_owned(),
            incarnation: Uuid::from_u128(incarnation),
            address: String::new(),
            slots: 1,
            labels: Vec::new(),
            graph: 0,
            attempt,
            standing: None,
            process: None,
        }
    }

    fn members() -> Members {
        Members::new(S, 5 * S, S, 10, &[])
    }

    #[test]
    fn another_process_gets_the_name_only_after_lease_and_margin() {
        let mut members = members();
        let new = Admission::New {
            worker_epoch: 11,
            replaced: false,
        };
        assert_eq!(members.admit(S, &register(1, 1)), new);
        let Admission::Refused(Refusal::NameInUse { remaining, .. }) =
            members.admit(3 * S, &register(2, 1))
        else {
            panic!("admitted");
        };
        assert_eq!(remaining, 4 * S);
        assert_eq!(members.expired(7 * S), ["w"]);
        members.remove("w");
        let new = Admission::New {
            worker_epoch: 12,
            replaced: false,
        };
        assert_eq!(members.admit(7 * S, &register(2, 1)), new);
    }

    #[test]
    fn a_repeated_registration_is_answered_alike_and_a_later_one_replaces_it() {
        let mut members = members();
        members.admit(S, &register(1, 1));
        assert_eq!(
            members.admit(S, &register(1, 1)),
            Admission::Again { worker_epoch: 11 }
        );
        let new = Admission::New {
            worker_epoch: 12,
            replaced: true,
        };
        assert_eq!(members.admit(S, &register(1, 2)), new);
        assert!(matches!(
            members.admit(S, &register(1, 1)),
            Admission::Refused(_)
        ));
        assert!(members.find("w", 11).is_err());
        assert!(members.find("w", 12).is_ok());
    }

    #[test]
    fn a_late_repetition_of_a_dead_registration_takes_no_name() {
        let mut members = members();
        members.admit(S, &register(1, 1));
        members.remove("w");
        assert!(matches!(
            members.admit(S, &register(1, 1)),
            Admission::Refused(_)
        ));
        assert!(matches!(
            members.admit(S, &register(2, 1)),
            Admission::New { .. }
        ));
    }

    #[test]
    fn a_heartbeat_moves_the_end_of_the_lease() {
        let mut members = members();
        members.admit(S, &register(1, 1));
        assert!(members.renew(4 * S, "w", 11).is_ok());
        assert_eq!(members.next_expiry(), Some(10 * S));
        assert!(members.renew(4 * S, "w", 10).is_err());
    }

    #[test]
    fn a_worker_of_the_last_term_keeps_its_name_until_it_is_dead() {
        let claim = Claim {
            worker: "w".to_owned(),
            incarnation: Uuid::from_u128(1),
            process: ProcessIdentity::of_this_process(),
            lasts: 6 * S,
        };
        let haunted = || Members::new(S, 5 * S, S, 10, std::slice::from_ref(&claim));
        let in_use = |admission| matches!(admission, Admission::Refused(Refusal::NameInUse { .. }));

        let mut members = haunted();
        assert!(in_use(members.admit(2 * S, &register(2, 1))));
        let new = Admission::New {
            worker_epoch: 11,
            replaced: false,
        };
        assert_eq!(members.admit(2 * S, &register(1, 4)), new);

        let mut members = haunted();
        assert_eq!(members.next_expiry(), Some(7 * S));
        assert_eq!(members.admit(7 * S, &register(2, 1)), new);

        let mut members = haunted();
        for (worker, epoch, _) in members.processes() {
            assert!(members.lay_ghost(&worker, epoch));
        }
        assert_eq!(members.admit(2 * S, &register(2, 1)), new);
    }
}
