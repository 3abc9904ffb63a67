//! Every interleaving of the guard's procedures within bounds, and many beyond them.

use crate::searching::{first_found, is_full};

use super::explore::{Bounds, Mutant, visit_all, walk};

const SMALL: Bounds = Bounds {
    tokens: &[(1, 1), (1, 2)],
    operators: 0,
    sequences: 2,
    prunes: false,
    mutant: Mutant::None,
};
const LARGE: Bounds = Bounds {
    tokens: &[(1, 1), (1, 2), (1, 3), (1, 4)],
    operators: 0,
    sequences: 3,
    prunes: false,
    mutant: Mutant::None,
};
/// The coordination store was replaced: epochs begin anew, and two operators adopt its lineage.
const ADOPTED: Bounds = Bounds {
    tokens: &[(1, 1), (1, 2), (2, 1), (2, 2)],
    operators: 2,
    sequences: 3,
    prunes: false,
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
        walk(LARGE, 1, seed, steps).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

/// Each rule is needed: without it the search finds a broken history.
#[test]
fn every_rule_that_is_left_out_is_found() {
    for (mutant, known) in [
        (Mutant::NoLookAfterBase, 286),
        (Mutant::NoLookAfterManifest, 38),
        (Mutant::ListBeforeFence, 244),
        (Mutant::DeletesWhenSteppingDown, 31),
        (Mutant::ReaderWithoutLook, 38),
    ] {
        let bounds = Bounds {
            sequences: 2,
            mutant,
            ..LARGE
        };
        let found = first_found(known, |seed| walk(bounds, 1, seed, 300).err());
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}

#[test]
fn no_interleaving_with_an_adoption_breaks_the_history() {
    let bounds = Bounds {
        tokens: &[(1, 1), (2, 1)],
        operators: 1,
        sequences: 1,
        prunes: false,
        mutant: Mutant::None,
    };
    let worlds = visit_all(bounds, 2_000_000).unwrap();
    println!("{worlds} worlds");
    assert!(
        worlds > 1_000,
        "only {worlds} worlds: the search has lost its way"
    );
}

#[test]
fn a_thousand_random_interleavings_with_adoptions_keep_the_history() {
    let steps = if is_full() { 400 } else { 80 };
    for seed in 0..1_000 {
        walk(ADOPTED, 1, seed, steps).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

#[test]
fn every_rule_of_lineages_that_is_left_out_is_found() {
    for (mutant, known) in [(Mutant::AnyLineage, 1), (Mutant::AdoptsWithoutLook, 2_867)] {
        let bounds = Bounds { mutant, ..ADOPTED };
        let found = first_found(known, |seed| walk(bounds, 1, seed, 300).err());
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}

/// Leaders prune, and listings take their time.
const PRUNED: Bounds = Bounds {
    prunes: true,
    ..LARGE
};
/// What pruning could break takes a process that is stopped while others do much.
const STOPS: usize = 6;

#[test]
fn a_thousand_random_interleavings_of_leaders_that_prune_keep_the_history() {
    let steps = if is_full() { 600 } else { 120 };
    for seed in 0..1_000 {
        walk(PRUNED, STOPS, seed, steps).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

#[test]
fn every_rule_of_pruning_that_is_left_out_is_found() {
    for (mutant, known) in [
        (Mutant::LooksWithoutOwnFence, 909),
        (Mutant::ReaderWithoutAnchor, 16_763),
        (Mutant::PrunesBeforeLook, 0),
        (Mutant::PrunesItsOwnFence, 0),
        (Mutant::ForgetsHistory, 0),
    ] {
        let bounds = Bounds { mutant, ..PRUNED };
        let found = first_found(known, |seed| walk(bounds, STOPS, seed, 300).err());
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}
