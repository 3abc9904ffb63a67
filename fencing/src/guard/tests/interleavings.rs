//! Every interleaving of the guard's procedures within bounds, and many beyond them.

use crate::searching::{first_found, is_full};

use super::explore::{Bounds, Mutant, visit_all, walk};

const SMALL: Bounds = Bounds {
    epochs: 2,
    sequences: 2,
    mutant: Mutant::None,
};
const LARGE: Bounds = Bounds {
    epochs: 4,
    sequences: 3,
    mutant: Mutant::None,
};

#[test]
fn no_interleaving_of_two_leaders_and_a_reader_breaks_the_history() {
    let worlds = visit_all(SMALL, 2_000_000).unwrap();
    println!("{worlds} worlds");
    assert!(
        worlds > 1_000,
        "only {worlds} worlds: the search has lost its way"
    );
}

#[test]
fn a_thousand_random_interleavings_of_four_leaders_keep_the_history() {
    // Long ones take a while; most of what can go wrong does so early.
    let steps = if is_full() { 300 } else { 60 };
    for seed in 0..1_000 {
        walk(LARGE, seed, steps).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

/// Each rule is needed: without it the search finds a broken history.
#[test]
fn every_rule_that_is_left_out_is_found() {
    for (mutant, known) in [
        (Mutant::NoLookAfterBase, 20),
        (Mutant::NoLookAfterManifest, 10),
        (Mutant::ListBeforeFence, 170),
        (Mutant::DeletesWhenSteppingDown, 140),
        (Mutant::ReaderWithoutLook, 90),
    ] {
        let bounds = Bounds {
            epochs: 4,
            sequences: 2,
            mutant,
        };
        let found = first_found(known, |seed| walk(bounds, seed, 300).err());
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}
