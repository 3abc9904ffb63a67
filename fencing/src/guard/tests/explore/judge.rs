//! What is right, judged by ghost records that the procedures never see.

use super::{Records, World, fence_of};
use crate::guard::procedure::Next;
use crate::guard::procedure::{Announce, Procedure, carry_out};
use crate::guard::{Chain, Guarded, ManifestId, MemoryGuardStore};

/// Above all leaders of a world.
const LAST_EPOCH: u64 = 1_000;

impl World {
    /// What is wrong with this world.
    pub(in crate::guard::tests) fn fault(&self) -> Option<String> {
        let told = self.error.as_ref().or(self.ghosts.fault.as_ref());
        if let Some(fault) = told {
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

    /// A leader that came now would see what the ghosts say.
    pub(in crate::guard::tests) fn fault_of_the_sight(&self) -> Option<String> {
        let chain = match sight(self.records.clone()) {
            Ok(chain) => chain,
            Err(error) => return Some(format!("a new leader cannot enter: {error}")),
        };
        if chain.newest() != self.newest() {
            return Some(format!(
                "a new leader continues {:?} instead of {:?}",
                chain.newest(),
                self.newest()
            ));
        }
        let published = self.published.iter();
        let mut published = published.map(|(&sequence, &epoch)| ManifestId { sequence, epoch });
        published
            .find(|manifest| self.exists(*manifest) && !chain.contains(*manifest))
            .map(|manifest| format!("a new leader does not see {manifest} in its chain"))
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
}

/// The chain that a leader above all others would see.
fn sight(records: Records) -> Result<Chain, String> {
    let store = MemoryGuardStore::holding(records);
    let mut announce = Announce::new(fence_of(usize::MAX, LAST_EPOCH));
    let mut access = announce.begin();
    loop {
        let answer = carry_out(&store, &access).map_err(|error| error.to_string())?;
        match announce.step(answer).map_err(|error| error.to_string())? {
            Next::Access(next) => access = next,
            Next::Done(Guarded::Done(chain)) => return Ok(chain),
            Next::Done(stepped_down) => return Err(format!("{stepped_down:?}")),
        }
    }
}
