//! What the fuzz targets of `fuzz/` check, as property tests: on their corpus, on damaged inputs of it,
//! and on any bytes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

type Body = fn(&[u8]);

macro_rules! targets {
    ($($target:ident: $body:path,)*) => {
        const TARGETS: &[(&str, &str)] = &[$((stringify!($target), stringify!($body)),)*];

        $(mod $target {
            #[test]
            fn each_input_of_the_corpus_is_read_or_refused() {
                super::hold_on_the_corpus(stringify!($target), $body);
            }

            #[test]
            fn damaged_inputs_and_any_bytes_are_read_or_refused() {
                super::hold_on_damaged_inputs(stringify!($target), $body);
            }
        })*
    };
}

targets! {
    core_payload: lockkeeper_core::fuzzing::payload,
    remote_handshake: lockkeeper_remote::fuzzing::handshake,
    remote_frames: lockkeeper_remote::fuzzing::frames,
    remote_connection: lockkeeper_remote::fuzzing::connection,
    fencing_guard: lockkeeper_fencing::fuzzing::guard,
    fencing_election: lockkeeper_fencing::fuzzing::election,
    canal_server: lockkeeper_canal::fuzzing::server,
    canal_entry: lockkeeper_canal::fuzzing::entry,
    canal_row: lockkeeper_canal::fuzzing::row,
    canal_zookeeper: lockkeeper_canal::fuzzing::zookeeper,
    canal_queue: lockkeeper_canal::fuzzing::queue,
    region_log: lockkeeper_consistent_region::fuzzing::log,
    region_objects: lockkeeper_consistent_region::fuzzing::objects,
    region_state: lockkeeper_consistent_region::fuzzing::state,
    region_worker: lockkeeper_consistent_region::fuzzing::worker,
}

#[test]
fn every_fuzz_target_is_checked_in_the_ordinary_run_and_has_a_corpus() {
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let built: BTreeSet<_> = manifest
        .lines()
        .filter_map(|line| {
            line.strip_prefix("path = \"targets/")?
                .strip_suffix(".rs\"")
        })
        .collect();
    let checked: BTreeSet<_> = TARGETS.iter().map(|(target, _)| *target).collect();
    assert_eq!(checked, built);
    for (target, body) in TARGETS {
        let source = fuzz().join("targets").join(format!("{target}.rs"));
        let source = std::fs::read_to_string(source).unwrap();
        let body: String = body.split_whitespace().collect();
        assert!(source.contains(&format!("({body})")), "{target}: {source}");
        assert!(!corpus(target).is_empty(), "{target} has no corpus");
    }
}

fn hold_on_the_corpus(target: &str, body: Body) {
    for (file, input) in corpus(target) {
        // Shown if the test fails.
        println!("{}", file.display());
        body(&input);
    }
}

fn hold_on_damaged_inputs(target: &str, body: Body) {
    let inputs: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, input)| input).collect();
    let damaged = (any::<Index>(), vec(damage(), 1..4)).prop_map(move |(input, damage)| {
        let mut bytes = input.get(&inputs).clone();
        for damage in damage {
            damage.apply(&mut bytes);
        }
        bytes
    });
    let bytes = prop_oneof![3 => damaged.boxed(), 1 => vec(any::<u8>(), 0..200).boxed()];
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let checked = TestRunner::new(config).run(&bytes, |bytes| {
        body(&bytes);
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{target}: {error}");
    }
}

/// What may happen to bytes on their way.
#[derive(Clone, Debug)]
enum Damage {
    Change(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    Repeat(Index, Index),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<(Index, u8)>().prop_map(|(at, byte)| Damage::Change(at, byte)),
        (any::<Index>(), vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        any::<(Index, Index)>().prop_map(|(from, to)| Damage::Remove(from, to)),
        any::<(Index, Index)>().prop_map(|(from, to)| Damage::Repeat(from, to)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |index: &Index| index.index(bytes.len() + 1);
        let range = |one: &Index, other: &Index| {
            let (one, other) = (place(one), place(other));
            one.min(other)..one.max(other)
        };
        match self {
            Self::Change(at, byte) => {
                let at = place(at);
                if let Some(changed) = bytes.get_mut(at) {
                    *changed = *byte;
                }
            }
            Self::Insert(at, inserted) => {
                let at = place(at);
                bytes.splice(at..at, inserted.iter().copied());
            }
            Self::Remove(from, to) => drop(bytes.drain(range(from, to))),
            Self::Repeat(from, to) => bytes.extend_from_within(range(from, to)),
            Self::Cut(at) => bytes.truncate(place(at)),
        }
    }
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The inputs of a target with their files, in the order of names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| (file.clone(), std::fs::read(&file).unwrap());
    files.into_iter().map(read).collect()
}
