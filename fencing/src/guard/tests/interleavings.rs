//! Every interleaving of the guard's procedures within bounds, and many beyond them.

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
    for seed in 0..1_000 {
        walk(LARGE, seed, 300).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

/// Each rule is needed: without it the search finds a broken history.
#[test]
fn every_rule_that_is_left_out_is_found() {
    for mutant in [
        Mutant::NoLookAfterBase,
        Mutant::NoLookAfterManifest,
        Mutant::ListBeforeFence,
        Mutant::DeletesWhenSteppingDown,
        Mutant::ReaderWithoutLook,
    ] {
        let all = |epochs| Bounds {
            epochs,
            sequences: 2,
            mutant,
        };
        let found = visit_all(all(2), 2_000_000).err();
        let found = found.or_else(|| (0..20_000).find_map(|seed| walk(all(4), seed, 300).err()));
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}
