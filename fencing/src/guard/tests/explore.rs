//! A world of leaders and a reader that run the real procedures against the memory store, one
//! access a step, each stopped between any two steps for as long as the search likes.
//!
//! What is right is judged by ghost records that the procedures never see.

mod judge;
mod mutant;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use lockkeeper_core::token::Lineage;
use uuid::Uuid;

use super::adopting::{Ghosts, Operator};
use super::listing::{Listings, Process};
use crate::guard::procedure::{
    Access, Announce, Answer, Next, OwnFence, Procedure, Prune, Publish, ReadNewest, ResolveEpoch,
    Settle, Tidy, What, carry_out,
};
use crate::guard::{Base, GuardError, Guarded, ManifestId, MemoryGuardStore, name};

pub(super) use self::mutant::Mutant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The tokens of the leaderships, as lineage and epoch.
    pub(super) tokens: &'static [(u64, u64)],
    /// How many operators adopt lineage 2 in the place of 1.
    pub(super) operators: usize,
    pub(super) sequences: u64,
    /// Leaders remove the fences and bases of former ones, and listings take their time.
    pub(super) prunes: bool,
    pub(super) mutant: Mutant,
}

pub(super) type Records = BTreeMap<String, Vec<u8>>;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Leader {
    Waiting,
    Resolving(ResolveEpoch, Access),
    Announcing(Announce, Access, Option<Records>),
    Settling(Settle, Access, Option<ManifestId>),
    Repeating(Option<ManifestId>),
    Leading(Option<ManifestId>),
    Publishing(Publish, Access, Option<ManifestId>),
    Deleting(ManifestId),
    Acting(ManifestId),
    Tidying(Tidy, Access, Option<ManifestId>),
    Pruning(Prune, Access, Option<ManifestId>),
    Stopped,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    records: Records,
    listings: Listings,
    /// By their place among the tokens.
    leaders: BTreeMap<usize, Leader>,
    operators: Vec<Operator>,
    ghosts: Ghosts,
    reader: Option<(ReadNewest, Access)>,
    bases: BTreeMap<u64, Option<ManifestId>>,
    /// What each leader has chosen, by its place among the tokens.
    own_bases: BTreeMap<usize, Base>,
    gone: BTreeSet<ManifestId>,
    published: BTreeMap<u64, u64>,
    twice: Option<u64>,
    used: BTreeMap<u64, u64>,
    read: Option<ManifestId>,
    /// A procedure came upon what it cannot explain.
    error: Option<String>,
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        World {
            records: Records::new(),
            listings: Listings::new(bounds.prunes),
            leaders: (0..bounds.tokens.len())
                .map(|leader| (leader, Leader::Waiting))
                .collect(),
            operators: vec![Operator::Waiting; bounds.operators],
            ghosts: Ghosts::default(),
            reader: None,
            bases: BTreeMap::new(),
            own_bases: BTreeMap::new(),
            gone: BTreeSet::new(),
            published: BTreeMap::new(),
            twice: None,
            used: BTreeMap::new(),
            read: None,
            error: None,
        }
    }

    /// Every world that one step of one process can lead to.
    fn successors(&self, bounds: Bounds) -> Vec<(Process, World)> {
        let mut successors = Vec::new();
        for (&number, leader) in &self.leaders {
            self.leader_steps(number, leader, bounds, &mut successors);
        }
        for number in 0..self.operators.len() {
            if self.operators[number] != Operator::Done {
                let mut next = self.clone();
                next.operator_step(number, bounds);
                successors.push((Process::Operator(number), next));
            }
        }
        if self.read.is_none() {
            let mut next = self.clone();
            next.reader_step(bounds);
            successors.push((Process::Reader, next));
        }
        successors
    }

    fn leader_steps(
        &self,
        number: usize,
        leader: &Leader,
        bounds: Bounds,
        out: &mut Vec<(Process, World)>,
    ) {
        let mut go = |next_leader: &dyn Fn(&mut World) -> Leader| {
            let mut next = self.clone();
            let leader = next_leader(&mut next);
            next.leaders.insert(number, leader);
            out.push((Process::Leader(number), next));
        };
        let own = || fence_of(number, self.ghosts.epoch_of(number));
        match leader.clone() {
            Leader::Stopped => {}
            Leader::Waiting => go(&|world| {
                let (lineage, epoch) = bounds.tokens[number];
                world.ghosts.begins(number);
                let resolve = ResolveEpoch::new(Lineage::from(lineage), epoch);
                let access = resolve.begin();
                Leader::Resolving(resolve, access)
            }),
            Leader::Resolving(resolve, access) => {
                go(&|world| world.resolve(number, resolve.clone(), access.clone(), bounds));
            }
            Leader::Announcing(announce, access, before) => go(&|world| {
                let before = before.clone();
                world.announce(number, announce.clone(), access.clone(), before, bounds)
            }),
            Leader::Settling(settle, access, base) => {
                go(&|world| world.settle(number, settle.clone(), access.clone(), base, bounds));
            }
            Leader::Repeating(base) => go(&|world| {
                world.commit(base);
                Leader::Leading(base)
            }),
            Leader::Leading(newest) => {
                let sequence = newest.map_or(0, |manifest| manifest.sequence) + 1;
                if sequence <= bounds.sequences {
                    let publish = Publish::new(own(), sequence, Vec::new());
                    go(&|_| Leader::Publishing(publish.clone(), publish.begin(), newest));
                }
                let sweep = self.tidy_of(number, What::LeftOver);
                go(&|_| Leader::Tidying(sweep.clone(), sweep.begin(), newest));
                if bounds.prunes {
                    let prune = Prune::new(own(), 100);
                    go(&|_| Leader::Pruning(prune.clone(), prune.begin(), newest));
                }
            }
            Leader::Publishing(publish, access, newest) => {
                go(&|world| world.publish(number, publish.clone(), access.clone(), newest, bounds));
            }
            Leader::Deleting(manifest) => go(&|world| {
                perform_on(
                    &mut world.records,
                    &Access::Remove {
                        name: manifest.name(),
                    },
                );
                world.gone.insert(manifest);
                Leader::Stopped
            }),
            Leader::Acting(manifest) => go(&|world| {
                world.commit(Some(manifest));
                let retire = world.tidy_of(number, What::RetiredBelow(manifest.sequence));
                let access = retire.begin();
                Leader::Tidying(retire, access, Some(manifest))
            }),
            Leader::Tidying(tidy, access, newest) => {
                go(&|world| world.tidy(number, tidy.clone(), access.clone(), newest, bounds));
            }
            Leader::Pruning(prune, access, newest) => {
                go(&|world| world.prune(number, prune.clone(), access.clone(), newest, bounds));
            }
        }
    }

    fn tidy_of(&self, number: usize, what: What) -> Tidy {
        let epoch = self.ghosts.epoch_of(number);
        let base = self.own_bases[&number].clone();
        Tidy::new(fence_of(number, epoch), base, what)
    }

    fn resolve(
        &mut self,
        number: usize,
        mut resolve: ResolveEpoch,
        access: Access,
        bounds: Bounds,
    ) -> Leader {
        let (lineage, own) = bounds.tokens[number];
        let Some(answer) = self.perform(Process::Leader(number), &access, bounds) else {
            return Leader::Resolving(resolve, access);
        };
        if answer == Answer::Created {
            self.ghosts.first = Some(lineage);
        }
        let epoch = match resolve.step(answer) {
            Ok(Next::Access(access)) => return Leader::Resolving(resolve, access),
            Ok(Next::Done(epoch)) => epoch,
            Err(GuardError::LineageChanged { .. }) if bounds.mutant == Mutant::AnyLineage => own,
            Err(GuardError::LineageChanged { .. }) => return Leader::Stopped,
            Err(error) => return self.fails(&error),
        };
        self.ghosts.resolved(number, lineage, epoch);
        let announce = Announce::new(fence_of(number, epoch));
        let access = announce.begin();
        Leader::Announcing(announce, access, None)
    }

    fn operator_step(&mut self, number: usize, bounds: Bounds) {
        let blind = bounds.mutant == Mutant::AdoptsWithoutLook;
        let operator = std::mem::replace(&mut self.operators[number], Operator::Done);
        let process = Process::Operator(number);
        let names: Vec<String> = self.records.keys().cloned().collect();
        let highest = name::numbers(name::FENCES, &names).max().unwrap_or(0);
        let (records, listings) = (&mut self.records, &mut self.listings);
        let perform = |access: &Access| listings.perform(process, records, access);
        self.operators[number] = operator.step(highest, perform, &mut self.ghosts, blind);
    }

    fn announce(
        &mut self,
        number: usize,
        mut announce: Announce,
        access: Access,
        mut before: Option<Records>,
        bounds: Bounds,
    ) -> Leader {
        if bounds.mutant == Mutant::ListBeforeFence && before.is_none() {
            before = Some(self.records.clone());
        }
        let fences = Access::List {
            prefix: name::FENCES,
        };
        let lists_the_chain = !matches!(access, Access::Create { .. }) && access != fences;
        let answer = match &before {
            Some(before) if lists_the_chain => Some(perform_on(&mut before.clone(), &access)),
            _ => self.perform(Process::Leader(number), &access, bounds),
        };
        let Some(answer) = answer else {
            return Leader::Announcing(announce, access, before);
        };
        match announce.step(answer) {
            Ok(Next::Access(access)) => Leader::Announcing(announce, access, before),
            Ok(Next::Done(Guarded::SteppedDown { .. })) => Leader::Stopped,
            Ok(Next::Done(Guarded::Done(chain))) => {
                let manifest = chain.newest();
                let mut history = chain.history_up_to(manifest);
                if bounds.mutant == Mutant::ForgetsHistory {
                    history.clear();
                }
                let base = Base {
                    manifest,
                    left_out: Vec::new(),
                    history,
                };
                let own = fence_of(number, self.ghosts.epoch_of(number));
                let settle = Settle::new(own, &base).unwrap();
                let access = settle.begin();
                self.own_bases.insert(number, base);
                Leader::Settling(settle, access, manifest)
            }
            Err(error) => self.fails(&error),
        }
    }

    fn settle(
        &mut self,
        number: usize,
        mut settle: Settle,
        access: Access,
        base: Option<ManifestId>,
        bounds: Bounds,
    ) -> Leader {
        let Some(mut answer) = self.perform(Process::Leader(number), &access, bounds) else {
            return Leader::Settling(settle, access, base);
        };
        match answer {
            Answer::Created => {
                let epoch = self.ghosts.epoch_of(number);
                // One that was removed and is created again, by whomever, changes no history.
                self.bases.entry(epoch).or_insert(base);
                if bounds.mutant == Mutant::PrunesBeforeLook {
                    self.remove_all_former(epoch);
                }
            }
            Answer::Names(_) if bounds.mutant == Mutant::NoLookAfterBase => {
                answer = Answer::Names(Vec::new());
            }
            _ => {}
        }
        match settle.step(answer) {
            Ok(Next::Access(access)) => Leader::Settling(settle, access, base),
            Ok(Next::Done(Guarded::SteppedDown { .. })) => Leader::Stopped,
            Ok(Next::Done(Guarded::Done(()))) => Leader::Repeating(base),
            Err(error) => self.fails(&error),
        }
    }

    fn publish(
        &mut self,
        number: usize,
        mut publish: Publish,
        access: Access,
        newest: Option<ManifestId>,
        bounds: Bounds,
    ) -> Leader {
        let Some(mut answer) = self.perform(Process::Leader(number), &access, bounds) else {
            return Leader::Publishing(publish, access, newest);
        };
        if bounds.mutant == Mutant::NoLookAfterManifest && matches!(answer, Answer::Names(_)) {
            answer = Answer::Names(Vec::new());
        }
        let manifest = publish.manifest();
        match publish.step(answer) {
            Ok(Next::Access(access)) => Leader::Publishing(publish, access, newest),
            Ok(Next::Done(Guarded::SteppedDown { .. })) => {
                if bounds.mutant == Mutant::DeletesWhenSteppingDown {
                    Leader::Deleting(manifest)
                } else {
                    Leader::Stopped
                }
            }
            Ok(Next::Done(Guarded::Done(manifest))) => {
                let before = self.published.insert(manifest.sequence, manifest.epoch);
                if before.is_some() {
                    self.twice = Some(manifest.sequence);
                }
                Leader::Acting(manifest)
            }
            Err(error) => self.fails(&error),
        }
    }

    fn tidy(
        &mut self,
        number: usize,
        mut tidy: Tidy,
        access: Access,
        newest: Option<ManifestId>,
        bounds: Bounds,
    ) -> Leader {
        let Some(answer) = self.perform(Process::Leader(number), &access, bounds) else {
            return Leader::Tidying(tidy, access, newest);
        };
        if let Access::Remove { name } = &access {
            self.gone
                .extend(name::manifests(std::slice::from_ref(name)));
        }
        match tidy.step(answer) {
            Ok(Next::Access(access)) => Leader::Tidying(tidy, access, newest),
            Ok(Next::Done(Guarded::SteppedDown { .. })) => Leader::Stopped,
            Ok(Next::Done(Guarded::Done(_))) => Leader::Leading(newest),
            Err(error) => self.fails(&error),
        }
    }

    fn prune(
        &mut self,
        number: usize,
        mut prune: Prune,
        access: Access,
        newest: Option<ManifestId>,
        bounds: Bounds,
    ) -> Leader {
        let epoch = self.ghosts.epoch_of(number);
        let access = self.removed(bounds.mutant, epoch, access);
        let Some(answer) = self.perform(Process::Leader(number), &access, bounds) else {
            return Leader::Pruning(prune, access, newest);
        };
        match prune.step(answer) {
            Ok(Next::Access(access)) => Leader::Pruning(prune, access, newest),
            Ok(Next::Done(Guarded::SteppedDown { .. })) => Leader::Stopped,
            Ok(Next::Done(Guarded::Done(_))) => Leader::Leading(newest),
            Err(error) => self.fails(&error),
        }
    }

    fn reader_step(&mut self, bounds: Bounds) {
        let (mut procedure, access) = self.reader.take().unwrap_or_else(|| {
            let procedure = ReadNewest::new();
            let access = procedure.begin();
            (procedure, access)
        });
        let Some(mut answer) = self.perform(Process::Reader, &access, bounds) else {
            self.reader = Some((procedure, access));
            return;
        };
        let fences = Access::List {
            prefix: name::FENCES,
        };
        if bounds.mutant == Mutant::ReaderWithoutLook && access == fences {
            answer = Answer::Names(Vec::new());
        }
        match procedure.step(answer) {
            Ok(Next::Access(access)) => self.reader = Some((procedure, access)),
            Ok(Next::Done(found)) => self.read = found.map(|(manifest, _)| manifest),
            Err(GuardError::Unsettled { .. }) => {}
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// `None` while a listing goes on.
    fn perform(&mut self, process: Process, access: &Access, bounds: Bounds) -> Option<Answer> {
        if let Some(answer) = self.made_up(bounds.mutant, process, access) {
            return Some(answer);
        }
        self.listings.perform(process, &mut self.records, access)
    }

    fn fails(&mut self, error: &GuardError) -> Leader {
        self.error = Some(error.to_string());
        Leader::Stopped
    }

    fn commit(&mut self, manifest: Option<ManifestId>) {
        if let Some(manifest) = manifest {
            self.used.entry(manifest.sequence).or_insert(manifest.epoch);
        }
    }

    fn fingerprint(&self) -> (u64, u64) {
        let mut first = DefaultHasher::new();
        self.hash(&mut first);
        let mut second = DefaultHasher::new();
        (0x9e37_79b9_u64, self).hash(&mut second);
        (first.finish(), second.finish())
    }
}

/// The fence of the leader at this place among the tokens.
fn fence_of(number: usize, epoch: u64) -> OwnFence {
    let holder = u128::try_from(number).unwrap_or(u128::MAX);
    OwnFence::new(epoch, Uuid::from_u128(holder)).unwrap()
}

pub(super) fn perform_on(records: &mut Records, access: &Access) -> Answer {
    let store = MemoryGuardStore::holding(std::mem::take(records));
    let answer = carry_out(&store, access).unwrap();
    *records = store.into_records();
    answer
}

/// Visits every reachable world, at most `limit`; returns how many there were.
pub(super) fn visit_all(bounds: Bounds, limit: usize) -> Result<usize, String> {
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
        let successors = world.successors(bounds);
        open.extend(successors.into_iter().map(|(_, next)| next));
    }
    Ok(seen.len())
}

/// One walk through the worlds, each step drawn from `seed`. One in `stops` steps is another process'
/// than the one before: the greater it is, the more happens while the others are stopped.
pub(super) fn walk(bounds: Bounds, stops: usize, seed: u64, steps: usize) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::new(bounds);
    let mut running = None;
    for step in 0..steps {
        let mut successors = world.successors(bounds);
        let goes_on = |(process, _): &(Process, World)| Some(*process) == running;
        if random.usize(..stops) > 0 && successors.iter().any(goes_on) {
            successors.retain(goes_on);
        }
        if successors.is_empty() {
            break;
        }
        let (process, next) = successors.swap_remove(random.usize(..successors.len()));
        running = Some(process);
        world = next;
        let mut fault = world.fault();
        // A new leader's sight takes long: now and then.
        if step % 10 == 9 {
            fault = fault.or_else(|| world.fault_of_the_sight());
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
    }
    world.fault_of_the_sight().map_or(Ok(()), Err)
}
