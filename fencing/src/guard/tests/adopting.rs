//! In the world of leaders: operators who adopt another lineage, and what is right about it.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_core::token::Lineage;

use crate::guard::procedure::{Access, Adopt, Answer, Next, Procedure};
use crate::guard::{GuardError, name};

const FORMER: u64 = 1;
const ADOPTED: u64 = 2;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    Waiting,
    Adopting(Adopt, Access),
    Done,
}

impl Operator {
    /// `highest`: the highest fence there is; `perform` answers nothing while a listing goes on.
    pub(super) fn step(
        self,
        highest: u64,
        perform: impl FnOnce(&Access) -> Option<Answer>,
        ghosts: &mut Ghosts,
        blind: bool,
    ) -> Operator {
        let (mut adopt, access) = match self {
            Operator::Waiting => {
                ghosts.adoption_begins(highest);
                let adopt = Adopt::new(Lineage::from(FORMER), Lineage::from(ADOPTED));
                let access = adopt.begin();
                return Operator::Adopting(adopt, access);
            }
            Operator::Adopting(adopt, access) => (adopt, access),
            Operator::Done => return Operator::Done,
        };
        let Some(mut answer) = perform(&access) else {
            return Operator::Adopting(adopt, access);
        };
        let looks = access
            == (Access::List {
                prefix: name::FENCES,
            });
        if blind && looks {
            answer = Answer::Names(Vec::new());
        }
        match adopt.step(answer) {
            Ok(Next::Access(access)) => Operator::Adopting(adopt, access),
            Ok(Next::Done(_)) => {
                ghosts.adopted = true;
                Operator::Done
            }
            // Leaders took over all the time: the operator does it again.
            Err(GuardError::Unsettled { .. }) => Operator::Waiting,
            Err(error) => {
                ghosts.fault = Some(error.to_string());
                Operator::Done
            }
        }
    }
}

/// What the procedures never see.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Ghosts {
    /// The lineage that the first leader has brought.
    pub(super) first: Option<u64>,
    /// The highest fence when the first operator began.
    above: Option<u64>,
    /// An operator was told that it is done.
    adopted: bool,
    /// The leaders that began after that.
    late: BTreeSet<usize>,
    epochs: BTreeMap<usize, u64>,
    pub(super) fault: Option<String>,
}

impl Ghosts {
    pub(super) fn begins(&mut self, leader: usize) {
        if self.adopted {
            self.late.insert(leader);
        }
    }

    fn adoption_begins(&mut self, highest: u64) {
        self.above.get_or_insert(highest);
    }

    /// The guard's epoch; 0 for a leader that has none yet.
    pub(super) fn epoch_of(&self, leader: usize) -> u64 {
        self.epochs.get(&leader).copied().unwrap_or(0)
    }

    pub(super) fn resolved(&mut self, leader: usize, lineage: u64, epoch: u64) {
        self.epochs.insert(leader, epoch);
        let comes_first = self.first == Some(lineage);
        if self.late.contains(&leader) && lineage != ADOPTED {
            self.fault = Some(format!(
                "lineage {lineage} leads after {ADOPTED} was adopted"
            ));
        } else if !comes_first && (lineage != ADOPTED || self.above.is_none()) {
            self.fault = Some(format!("lineage {lineage} leads, which nobody has adopted"));
        } else if !comes_first && self.above.is_some_and(|above| epoch <= above) {
            self.fault = Some(format!(
                "epoch {epoch} of the adopted lineage is not above the fences there were"
            ));
        }
    }
}
