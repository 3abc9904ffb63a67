//! Every interleaving of candidates on one folder and one clock, within bounds: the real machine,
//! one access a step, with a stop possible between any two and a kill anywhere.

mod other_clock;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use uuid::Uuid;

use super::host::ClockIdentity;
use super::machine::{Access, Answer, Candidate, Settings};
use super::record::Lease;
use crate::clock::BootTime;
use crate::searching::{first_found, is_full};

const SESSION: u64 = 2;
/// Four fifths of the session, rounded up to the clock's whole ticks.
const USED: u64 = 2;

/// A rule that is broken on purpose, to show that the search would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    LeaseBeforeClock,
    NoSecondLook,
    RenewsWithoutClock,
}

#[derive(Clone, Copy)]
struct Bounds {
    processes: usize,
    epochs: u64,
    ticks: u64,
    kills: u8,
    mutant: Mutant,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    machine: Candidate,
    access: Access,
    session: Uuid,
    sessions: u8,
    /// Until when it believes that it leads.
    until: Option<u64>,
    /// What a process saw that reads the lease before the clock.
    early: BTreeMap<u64, Lease>,
    synced: bool,
    killed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    clock: u64,
    leases: BTreeMap<u64, Lease>,
    alive: BTreeSet<Uuid>,
    processes: Vec<Process>,
    highest_granted: u64,
    kills: u8,
    fault: Option<String>,
}

fn at(tick: u64) -> BootTime {
    BootTime::since_boot(Duration::from_secs(tick))
}

fn identity() -> ClockIdentity {
    ClockIdentity {
        boot: "boot".to_owned(),
        time_namespace: "time".to_owned(),
    }
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let settings = Settings {
            session: Duration::from_secs(SESSION),
            poll_interval: Duration::from_secs(1),
            epochs_above: 0,
        };
        let machine = Candidate::new(settings, identity());
        let process = Process {
            access: machine.begin(),
            machine,
            session: Uuid::nil(),
            sessions: 0,
            until: None,
            early: BTreeMap::new(),
            synced: false,
            killed: false,
        };
        World {
            clock: 0,
            leases: BTreeMap::new(),
            alive: BTreeSet::new(),
            processes: vec![process; bounds.processes],
            highest_granted: 0,
            kills: 0,
            fault: None,
        }
    }

    fn successors(&self, bounds: Bounds) -> Vec<World> {
        let mut successors = Vec::new();
        if self.clock < bounds.ticks {
            let mut next = self.clone();
            next.clock += 1;
            successors.push(next);
        }
        for number in 0..self.processes.len() {
            let process = &self.processes[number];
            if process.killed {
                continue;
            }
            let beyond = matches!(process.access, Access::CreateLease { epoch, .. }
                if epoch > bounds.epochs);
            if !beyond {
                let mut next = self.clone();
                next.go_on(number, bounds);
                successors.push(next);
            }
            if process.until.is_some_and(|until| self.clock >= until)
                && process.machine.is_leading()
            {
                let mut next = self.clone();
                let process = &mut next.processes[number];
                process.access = process.machine.deadline_passed();
                successors.push(next);
            }
            if self.kills < bounds.kills {
                let mut next = self.clone();
                next.kills += 1;
                next.alive.remove(&process.session);
                next.processes[number].killed = true;
                next.processes[number].until = None;
                successors.push(next);
            }
        }
        successors
    }

    fn go_on(&mut self, number: usize, bounds: Bounds) {
        let access = self.processes[number].access.clone();
        let answer = self.perform(number, &access, bounds);
        let process = &mut self.processes[number];
        process.access = process.machine.step(answer);
    }

    fn perform(&mut self, number: usize, access: &Access, bounds: Bounds) -> Answer {
        let clock = self.clock;
        let process = &mut self.processes[number];
        let synced = std::mem::replace(&mut process.synced, *access == Access::SyncFolder);
        match access {
            Access::NewSession => {
                self.alive.remove(&process.session);
                process.sessions += 1;
                let owner = u128::try_from(number).unwrap() + 1;
                process.session = Uuid::from_u128(owner * 100 + u128::from(process.sessions));
                self.alive.insert(process.session);
                Answer::Session(process.session)
            }
            Access::ListLeases if synced && bounds.mutant == Mutant::NoSecondLook => {
                let own = self
                    .leases
                    .iter()
                    .find(|(_, lease)| lease.session == process.session);
                Answer::Leases(own.map(|(epoch, _)| *epoch).into_iter().collect())
            }
            Access::ListLeases => {
                if bounds.mutant == Mutant::LeaseBeforeClock {
                    process.early = self.leases.clone();
                }
                Answer::Leases(self.leases.keys().copied().collect())
            }
            Access::ReadClock => Answer::Clock(at(clock)),
            Access::ReadLease { epoch } if bounds.mutant == Mutant::LeaseBeforeClock => {
                Answer::Lease(std::mem::take(&mut process.early).remove(epoch))
            }
            Access::ReadLease { epoch } => Answer::Lease(self.leases.get(epoch).cloned()),
            Access::TryAlive { session } => Answer::Free(!self.alive.contains(session)),
            Access::CreateLease { epoch, lease } => {
                let absent = !self.leases.contains_key(epoch);
                self.leases.entry(*epoch).or_insert_with(|| lease.clone());
                Answer::Created(absent)
            }
            Access::Grant { epoch, sent } => {
                let until = sent.elapsed().as_secs() + USED;
                if clock >= until {
                    return Answer::Renewed(false);
                }
                process.until = Some(until);
                if *epoch <= self.highest_granted {
                    self.fault = Some(format!("epoch {epoch} is not above all former ones"));
                }
                self.highest_granted = self.highest_granted.max(*epoch);
                Answer::Renewed(true)
            }
            Access::WriteExpires { epoch, expires } => {
                if let Some(lease) = self.leases.get_mut(epoch) {
                    lease.expires = *expires;
                }
                Answer::Done
            }
            Access::Renew { sent } => {
                let in_time = process.until.is_some_and(|until| clock < until);
                if in_time || bounds.mutant == Mutant::RenewsWithoutClock {
                    process.until = Some(sent.elapsed().as_secs() + USED);
                }
                Answer::Renewed(in_time || bounds.mutant == Mutant::RenewsWithoutClock)
            }
            Access::SweepBelow { epoch } => {
                self.leases = self.leases.split_off(epoch);
                Answer::Done
            }
            Access::Lose => {
                process.until = None;
                Answer::Done
            }
            Access::SyncFolder | Access::Wait { .. } => Answer::Done,
        }
    }

    fn fault(&self) -> Option<String> {
        let believes = |process: &&Process| process.until.is_some_and(|until| self.clock < until);
        let believers = self.processes.iter().filter(believes).count();
        if believers > 1 {
            return Some(format!(
                "{believers} leaders at once, at tick {}",
                self.clock
            ));
        }
        self.fault.clone()
    }

    fn fingerprint(&self) -> (u64, u64) {
        let mut first = DefaultHasher::new();
        self.hash(&mut first);
        let mut second = DefaultHasher::new();
        (1_u8, self).hash(&mut second);
        (first.finish(), second.finish())
    }
}

fn visit_all(bounds: Bounds, limit: usize) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut open = vec![World::new(bounds)];
    while let Some(world) = open.pop() {
        if !seen.insert(world.fingerprint()) {
            continue;
        }
        if let Some(fault) = world.fault() {
            return Err(fault);
        }
        assert!(seen.len() <= limit, "more than {limit} worlds");
        open.extend(world.successors(bounds));
    }
    Ok(seen.len())
}

fn walk(bounds: Bounds, seed: u64, steps: usize) -> Result<u64, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::new(bounds);
    for _ in 0..steps {
        let mut successors = world.successors(bounds);
        if successors.is_empty() {
            break;
        }
        // Time passes slowly beside the steps, or nobody would ever get anywhere.
        let ticks = world.clock < bounds.ticks;
        let begin = usize::from(ticks && successors.len() > 1 && random.u8(..8) != 0);
        world = successors.swap_remove(random.usize(begin..successors.len()));
        if let Some(fault) = world.fault() {
            return Err(fault);
        }
    }
    Ok(world.highest_granted)
}

const SMALL: Bounds = Bounds {
    processes: 2,
    epochs: 2,
    ticks: 3,
    kills: 1,
    mutant: Mutant::None,
};

#[test]
fn no_interleaving_of_two_candidates_has_two_leaders() {
    let worlds = visit_all(SMALL, 3_000_000).unwrap();
    println!("{worlds} worlds");
    assert!(
        worlds > 1_000,
        "only {worlds} worlds: the search has lost its way"
    );
}

#[test]
fn random_interleavings_of_three_candidates_have_one_leader_at_a_time() {
    let bounds = Bounds {
        processes: 3,
        epochs: 8,
        ticks: 40,
        kills: 1,
        mutant: Mutant::None,
    };
    let mut grants = 0;
    for seed in 0..if is_full() { 3_000 } else { 100 } {
        grants += walk(bounds, seed, 400).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
    assert!(
        grants > 100,
        "only {grants} grants: the walks do not get anywhere"
    );
}

/// Each rule is needed: without it the search finds two leaders at once.
#[test]
fn every_rule_that_is_left_out_is_found() {
    for (mutant, known) in [
        (Mutant::LeaseBeforeClock, 130),
        (Mutant::NoSecondLook, 6_535),
        (Mutant::RenewsWithoutClock, 200),
    ] {
        let bounds = Bounds {
            processes: 3,
            epochs: 8,
            ticks: 40,
            kills: 1,
            mutant,
        };
        let found = first_found(known, |seed| walk(bounds, seed, 400).err());
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}
