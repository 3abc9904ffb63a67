//! A world of leaders and a reader that run the real procedures against the memory store, one
//! access a step, each stopped between any two steps for as long as the search likes.
//!
//! What is right is judged by ghost records that the procedures never see.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use lockkeeper_core::token::Lineage;

use super::adopting::{Ghosts, Operator};
use crate::guard::procedure::{
    Access, Announce, Answer, Next, Procedure, Publish, ReadNewest, ResolveEpoch, Settle, Tidy,
    What, carry_out,
};
use crate::guard::{Base, GuardError, Guarded, ManifestId, MemoryGuardStore, name};

/// A rule that is broken on purpose, to show that the search would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    NoLookAfterBase,
    NoLookAfterManifest,
    ListBeforeFence,
    DeletesWhenSteppingDown,
    ReaderWithoutLook,
    /// A leader does not look which lineage counts.
    AnyLineage,
    /// An adoption does not look at the fences there are.
    AdoptsWithoutLook,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The tokens of the leaderships, as lineage and epoch.
    pub(super) tokens: &'static [(u64, u64)],
    /// How many operators adopt lineage 2 in the place of 1.
    pub(super) operators: usize,
    pub(super) sequences: u64,
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
    Stopped,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    records: Records,
    /// By their place among the tokens.
    leaders: BTreeMap<usize, Leader>,
    operators: Vec<Operator>,
    ghosts: Ghosts,
    reader: Option<(ReadNewest, Access)>,
    bases: BTreeMap<u64, Option<ManifestId>>,
    gone: BTreeSet<ManifestId>,
    published: BTreeMap<u64, u64>,
    twice: Option<u64>,
    used: BTreeMap<u64, u64>,
    read: Option<ManifestId>,
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        World {
            records: Records::new(),
            leaders: (0..bounds.tokens.len())
                .map(|leader| (leader, Leader::Waiting))
                .collect(),
            operators: vec![Operator::Waiting; bounds.operators],
            ghosts: Ghosts::default(),
            reader: None,
            bases: BTreeMap::new(),
            gone: BTreeSet::new(),
            published: BTreeMap::new(),
            twice: None,
            used: BTreeMap::new(),
            read: None,
        }
    }

    /// Every world that one step of one process can lead to.
    pub(super) fn successors(&self, bounds: Bounds) -> Vec<World> {
        let mut successors = Vec::new();
        for (&number, leader) in &self.leaders {
            self.leader_steps(number, leader, bounds, &mut successors);
        }
        for number in 0..self.operators.len() {
            if self.operators[number] != Operator::Done {
                let mut next = self.clone();
                next.operator_step(number, bounds);
                successors.push(next);
            }
        }
        if self.read.is_none() {
            let mut next = self.clone();
            next.reader_step(bounds);
            successors.push(next);
        }
        successors
    }

    fn leader_steps(&self, number: usize, leader: &Leader, bounds: Bounds, out: &mut Vec<World>) {
        let mut go = |next_leader: &dyn Fn(&mut World) -> Leader| {
            let mut next = self.clone();
            let leader = next_leader(&mut next);
            next.leaders.insert(number, leader);
            out.push(next);
        };
        let epoch = self.ghosts.epoch_of(number);
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
                go(&|world| world.resolve(number, resolve.clone(), &access, bounds));
            }
            Leader::Announcing(announce, access, before) => {
                go(&|world| world.announce(epoch, announce.clone(), &access, &before, bounds));
            }
            Leader::Settling(settle, access, base) => {
                go(&|world| world.settle(epoch, settle.clone(), &access, base, bounds));
            }
            Leader::Repeating(base) => go(&|world| {
                world.commit(base);
                Leader::Leading(base)
            }),
            Leader::Leading(newest) => {
                let sequence = newest.map_or(0, |manifest| manifest.sequence) + 1;
                if sequence <= bounds.sequences {
                    let publish = Publish::new(ManifestId { sequence, epoch }, Vec::new());
                    go(&|_| Leader::Publishing(publish.clone(), publish.begin(), newest));
                }
                let sweep = Tidy::new(epoch, What::LeftOver);
                go(&|_| Leader::Tidying(sweep.clone(), sweep.begin(), newest));
            }
            Leader::Publishing(publish, access, newest) => {
                go(&|world| world.publish(publish.clone(), &access, newest, bounds));
            }
            Leader::Deleting(manifest) => go(&|world| {
                world.perform(&Access::Remove {
                    name: manifest.name(),
                });
                world.gone.insert(manifest);
                Leader::Stopped
            }),
            Leader::Acting(manifest) => go(&|world| {
                world.commit(Some(manifest));
                let retire = Tidy::new(epoch, What::RetiredBelow(manifest.sequence));
                let access = retire.begin();
                Leader::Tidying(retire, access, Some(manifest))
            }),
            Leader::Tidying(tidy, access, newest) => {
                go(&|world| world.tidy(tidy.clone(), &access, newest));
            }
        }
    }

    fn resolve(
        &mut self,
        number: usize,
        mut resolve: ResolveEpoch,
        access: &Access,
        bounds: Bounds,
    ) -> Leader {
        let (lineage, own) = bounds.tokens[number];
        let answer = self.perform(access);
        if answer == Answer::Created {
            self.ghosts.first = Some(lineage);
        }
        let epoch = match resolve.step(answer) {
            Ok(Next::Access(access)) => return Leader::Resolving(resolve, access),
            Ok(Next::Done(epoch)) => epoch,
            Err(GuardError::LineageChanged { .. }) if bounds.mutant == Mutant::AnyLineage => own,
            Err(GuardError::LineageChanged { .. }) => return Leader::Stopped,
            Err(error) => panic!("{error}"),
        };
        self.ghosts.resolved(number, lineage, epoch);
        let announce = Announce::new(epoch).unwrap();
        let access = announce.begin();
        Leader::Announcing(announce, access, None)
    }

    fn operator_step(&mut self, number: usize, bounds: Bounds) {
        let blind = bounds.mutant == Mutant::AdoptsWithoutLook;
        let operator = std::mem::replace(&mut self.operators[number], Operator::Done);
        self.operators[number] = operator.step(&mut self.records, &mut self.ghosts, blind);
    }

    fn announce(
        &mut self,
        epoch: u64,
        mut announce: Announce,
        access: &Access,
        before: &Option<Records>,
        bounds: Bounds,
    ) -> Leader {
        let mut before = before.clone();
        if bounds.mutant == Mutant::ListBeforeFence && before.is_none() {
            before = Some(self.records.clone());
        }
        let lists_the_chain = !matches!(access, Access::Create { .. })
            && *access
                != (Access::List {
                    prefix: name::FENCES,
                });
        let answer = match &before {
            Some(before) if lists_the_chain => perform_on(&mut before.clone(), access),
            _ => self.perform(access),
        };
        match announce.step(answer).unwrap() {
            Next::Access(access) => Leader::Announcing(announce, access, before),
            Next::Done(Guarded::SteppedDown { .. }) => Leader::Stopped,
            Next::Done(Guarded::Done(chain)) => {
                let base = chain.newest();
                let record = Base {
                    manifest: base,
                    left_out: Vec::new(),
                };
                let settle = Settle::new(epoch, &record).unwrap();
                let access = settle.begin();
                Leader::Settling(settle, access, base)
            }
        }
    }

    fn settle(
        &mut self,
        epoch: u64,
        mut settle: Settle,
        access: &Access,
        base: Option<ManifestId>,
        bounds: Bounds,
    ) -> Leader {
        let mut answer = self.perform(access);
        match answer {
            Answer::Created => {
                self.bases.insert(epoch, base);
            }
            Answer::Names(_) if bounds.mutant == Mutant::NoLookAfterBase => {
                answer = Answer::Names(Vec::new());
            }
            _ => {}
        }
        match settle.step(answer).unwrap() {
            Next::Access(access) => Leader::Settling(settle, access, base),
            Next::Done(Guarded::SteppedDown { .. }) => Leader::Stopped,
            Next::Done(Guarded::Done(())) => Leader::Repeating(base),
        }
    }

    fn publish(
        &mut self,
        mut publish: Publish,
        access: &Access,
        newest: Option<ManifestId>,
        bounds: Bounds,
    ) -> Leader {
        let mut answer = self.perform(access);
        if bounds.mutant == Mutant::NoLookAfterManifest && matches!(answer, Answer::Names(_)) {
            answer = Answer::Names(Vec::new());
        }
        let manifest = publish.manifest();
        match publish.step(answer).unwrap() {
            Next::Access(access) => Leader::Publishing(publish, access, newest),
            Next::Done(Guarded::SteppedDown { .. }) => {
                if bounds.mutant == Mutant::DeletesWhenSteppingDown {
                    Leader::Deleting(manifest)
                } else {
                    Leader::Stopped
                }
            }
            Next::Done(Guarded::Done(manifest)) => {
                let before = self.published.insert(manifest.sequence, manifest.epoch);
                if before.is_some() {
                    self.twice = Some(manifest.sequence);
                }
                Leader::Acting(manifest)
            }
        }
    }

    fn tidy(&mut self, mut tidy: Tidy, access: &Access, newest: Option<ManifestId>) -> Leader {
        let answer = self.perform(access);
        if let Access::Remove { name } = access {
            self.gone
                .extend(name::manifests(std::slice::from_ref(name)));
        }
        match tidy.step(answer).unwrap() {
            Next::Access(access) => Leader::Tidying(tidy, access, newest),
            Next::Done(Guarded::SteppedDown { .. }) => Leader::Stopped,
            Next::Done(Guarded::Done(_)) => Leader::Leading(newest),
        }
    }

    fn reader_step(&mut self, bounds: Bounds) {
        let (mut procedure, access) = self.reader.take().unwrap_or_else(|| {
            let procedure = ReadNewest::new();
            let access = procedure.begin();
            (procedure, access)
        });
        let mut answer = self.perform(&access);
        if bounds.mutant == Mutant::ReaderWithoutLook
            && access
                == (Access::List {
                    prefix: name::FENCES,
                })
        {
            answer = Answer::Names(Vec::new());
        }
        match procedure.step(answer) {
            Ok(Next::Access(access)) => self.reader = Some((procedure, access)),
            Ok(Next::Done(found)) => self.read = found.map(|(manifest, _)| manifest),
            Err(GuardError::Unsettled { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn perform(&mut self, access: &Access) -> Answer {
        perform_on(&mut self.records, access)
    }

    fn commit(&mut self, manifest: Option<ManifestId>) {
        if let Some(manifest) = manifest {
            self.used.entry(manifest.sequence).or_insert(manifest.epoch);
        }
    }

    /// What is wrong with this world, judged by the ghosts only.
    pub(super) fn fault(&self) -> Option<String> {
        if let Some(fault) = &self.ghosts.fault {
            return Some(fault.clone());
        }
        if let Some(sequence) = self.twice {
            return Some(format!("number {sequence} was published twice"));
        }
        for (&sequence, &epoch) in self.published.iter().chain(&self.used) {
            if self.epoch_in_chain(sequence) != Some(epoch) {
                return Some(format!(
                    "{sequence}.{epoch} took effect and is in no later chain"
                ));
            }
        }
        if let Some(read) = self.read
            && self.epoch_in_chain(read.sequence) != Some(read.epoch)
        {
            return Some(format!(
                "a reader acted on {read}, which dropped out of the chain"
            ));
        }
        let newest = self.newest()?;
        (!self.exists(newest)).then(|| format!("the newest manifest {newest} was deleted"))
    }

    fn exists(&self, manifest: ManifestId) -> bool {
        self.records.contains_key(&manifest.name())
    }

    fn newest(&self) -> Option<ManifestId> {
        let (&epoch, &base) = self.bases.last_key_value()?;
        let begin = base.map_or(0, |manifest| manifest.sequence);
        let mut own = (begin + 1..=9).map(|sequence| ManifestId { sequence, epoch });
        own.rfind(|manifest| self.exists(*manifest)).or(base)
    }

    fn epoch_in_chain(&self, sequence: u64) -> Option<u64> {
        let mut epoch = *self.bases.last_key_value()?.0;
        loop {
            let base = self.bases[&epoch];
            if base.is_none_or(|manifest| sequence > manifest.sequence) {
                let manifest = ManifestId { sequence, epoch };
                let was = self.exists(manifest) || self.gone.contains(&manifest);
                return was.then_some(epoch);
            }
            epoch = base?.epoch;
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
        open.extend(world.successors(bounds));
    }
    Ok(seen.len())
}

/// One walk through the worlds, each step drawn from `seed`.
pub(super) fn walk(bounds: Bounds, seed: u64, steps: usize) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::new(bounds);
    for _ in 0..steps {
        let mut successors = world.successors(bounds);
        if successors.is_empty() {
            break;
        }
        world = successors.swap_remove(random.usize(..successors.len()));
        if let Some(fault) = world.fault() {
            return Err(fault);
        }
    }
    Ok(())
}
