//! What of a cut an instance is given, also when its operator had another width.

use crate::graph::groups_of_instance;
use crate::manifest::RestorePoint;
use crate::operator::control::Restore;
use crate::protocol::InstanceId;
use crate::state::{Rescale, SavedObject};

/// The share of `instance`, one of `width`.
pub(super) fn of_cut(
    instance: &InstanceId,
    width: u16,
    rescale: Rescale,
    point: &RestorePoint,
) -> Restore {
    let before = point
        .widths
        .get(&instance.operator)
        .copied()
        .unwrap_or(width);
    let rescaled = before != width;
    let is_given = |former: &InstanceId| {
        former.operator == instance.operator
            && match (rescaled, rescale) {
                (false, _) => former.index == instance.index,
                (true, Rescale::ByKey) => {
                    let theirs = groups_of_instance(former.index, before);
                    let ours = groups_of_instance(instance.index, width);
                    theirs.start < ours.end && ours.start < theirs.end
                }
                (true, Rescale::Everything) => true,
                // Refused before, if there is any state.
                (true, Rescale::Refused) => false,
            }
    };
    let objects = point
        .objects
        .iter()
        .filter(|object| is_given(&object.instance));
    // Whoever there is now commits again what its predecessors had staged, once.
    let commits = |former: &InstanceId| {
        former.operator == instance.operator
            && match rescaled {
                false => former.index == instance.index,
                true => former.index % width == instance.index,
            }
    };
    let tokens = point.tokens.iter().filter(|token| commits(&token.instance));
    Restore::Cut {
        seq: point.seq,
        oldest_retained: point.oldest_retained,
        objects: objects
            .map(|record| SavedObject {
                record: record.clone(),
            })
            .collect(),
        tokens: tokens.map(|token| token.token.clone()).collect(),
        rescaled,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::manifest::{CommitToken, ObjectRecord};
    use crate::store::Encoding;

    fn id(index: u16) -> InstanceId {
        InstanceId {
            operator: "totals".to_owned(),
            index,
        }
    }

    fn point(width: u16) -> RestorePoint {
        let object = |index| ObjectRecord {
            instance: id(index),
            object: format!("object-{index}"),
            length: 1,
            crc32: 0,
            state_type: "totals".to_owned(),
            state_version: 1,
            encoding: Encoding::Plain,
            base: Vec::new(),
        };
        let token = |index: u16| CommitToken {
            instance: id(index),
            seq: 5,
            token: index.to_le_bytes().to_vec(),
            can_take_back: true,
        };
        RestorePoint {
            seq: 5,
            oldest_retained: 5,
            objects: (0..width).map(object).collect(),
            tokens: (0..width).map(token).collect(),
            widths: BTreeMap::from([("totals".to_owned(), width)]),
        }
    }

    fn given(index: u16, width: u16, rescale: Rescale, before: u16) -> (Vec<u16>, usize) {
        match of_cut(&id(index), width, rescale, &point(before)) {
            Restore::Cut {
                objects, tokens, ..
            } => {
                let indices = objects.iter().map(|object| object.record.instance.index);
                (indices.collect(), tokens.len())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn s28_each_instance_is_given_what_its_key_groups_were_saved_by() {
        use Rescale::{ByKey, Everything, Refused};
        assert_eq!(given(1, 2, Refused, 2), (vec![1], 1), "the same width");
        assert_eq!(given(0, 3, ByKey, 2), (vec![0], 1));
        assert_eq!(given(1, 3, ByKey, 2), (vec![0, 1], 1));
        assert_eq!(given(2, 3, ByKey, 2), (vec![1], 0));
        assert_eq!(given(0, 1, ByKey, 3), (vec![0, 1, 2], 3));
        assert_eq!(given(1, 2, Everything, 3), (vec![0, 1, 2], 1));
    }

    #[test]
    fn s28_every_staged_output_is_committed_by_one_instance() {
        for (before, width) in [(3, 2), (2, 3), (5, 1), (1, 4)] {
            let committed: usize = (0..width)
                .map(|index| given(index, width, Rescale::ByKey, before).1)
                .sum();
            assert_eq!(committed, usize::from(before), "{before} to {width}");
        }
    }
}
