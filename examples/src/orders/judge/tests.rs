//! The judge can fail: each way to be wrong shows in its own counter.

use std::fs;
use std::path::Path;

use lockkeeper_consistent_region::operator::{Cut, Operator, Output};

use super::*;
use crate::orders::account::RowChange;
use crate::orders::output::{OrdersOutput, OutputSabotage};
use crate::orders::script::{self, Script};
use crate::orders::totals::Totals;

const SEED: u64 = 11;
const ROWS: u64 = 3_000;

/// Runs the job's operators without a region: `cuts` cuts over the script.
fn write(data: &Path, sabotage: OutputSabotage, mut changes: Vec<Vec<RowChange>>) {
    let mut totals = Totals::new(Box::new(|_| ()));
    let mut sink = OrdersOutput::new(OutputFolder::new(data), sabotage);
    let committer = sink.committer().unwrap();
    let last = changes.len();
    let mut completed = 0;
    for (number, transaction) in changes.drain(..).enumerate() {
        let batch = transaction
            .iter()
            .flat_map(RowChange::account_changes)
            .collect();
        let mut lines = Output::new();
        totals.process(batch, &mut lines).unwrap();
        totals.drain(&mut lines).unwrap();
        sink.process(lines.take(), &mut Output::new()).unwrap();
        // numbers have gaps: an aborted cut's number is never used again
        let seq = number as u64 * 2 + 1;
        let cut = Cut {
            seq,
            term: 1,
            attempt: 1,
            completed,
            last: number + 1 == last,
        };
        let token = sink.prepare(cut).unwrap().stage.unwrap()().unwrap();
        committer.commit(seq, &token).unwrap();
        // a commit is repeated after a restore
        committer.commit(seq, &token).unwrap();
        completed = seq;
    }
}

fn script() -> Vec<Vec<RowChange>> {
    Script::new(SEED, ROWS).collect()
}

fn verdict(data: &Path) -> Verdict {
    judge(data, &script::accounts(SEED, ROWS)).unwrap()
}

#[test]
fn a_right_output_is_right() {
    let data = tempfile::tempdir().unwrap();
    write(data.path(), OutputSabotage::None, script());
    let verdict = verdict(data.path());
    assert!(verdict.is_right(), "{verdict:?}");
    assert_eq!(verdict.cuts, script().len() as u64);
}

#[test]
fn a_lost_row_is_counted_as_lost() {
    let data = tempfile::tempdir().unwrap();
    let mut changes = script();
    changes[1].pop();
    write(data.path(), OutputSabotage::None, changes);
    let verdict = verdict(data.path());
    assert!(!verdict.is_right());
    assert!(verdict.lost >= 1 && verdict.duplicated == 0, "{verdict:?}");
}

#[test]
fn a_row_counted_twice_is_counted_as_duplicated() {
    let data = tempfile::tempdir().unwrap();
    let mut changes = script();
    let twice = changes[1][0].clone();
    changes[1].push(twice);
    write(data.path(), OutputSabotage::None, changes);
    let verdict = verdict(data.path());
    assert!(!verdict.is_right());
    assert!(verdict.duplicated >= 1 && verdict.lost == 0, "{verdict:?}");
}

#[test]
fn a_cut_that_is_published_twice_is_counted_as_duplicated() {
    let data = tempfile::tempdir().unwrap();
    write(data.path(), OutputSabotage::DoubleCommit, script());
    let verdict = verdict(data.path());
    assert!(!verdict.is_right());
    assert!(verdict.duplicated > 0, "{verdict:?}");
    assert!(
        verdict
            .chain_errors
            .iter()
            .any(|error| error.contains("repetition"))
    );
}

#[test]
fn a_missing_cut_is_refused_even_when_later_cuts_hide_it() {
    let data = tempfile::tempdir().unwrap();
    write(data.path(), OutputSabotage::None, script());
    fs::remove_file(data.path().join("out/cut-3.jsonl")).unwrap();
    assert!(
        verdict(data.path())
            .chain_errors
            .iter()
            .any(|error| error == "cut 3 is missing")
    );
    fs::remove_file(data.path().join("out/chain/cut-3.json")).unwrap();
    assert!(!verdict(data.path()).chain_errors.is_empty());
}

#[test]
fn an_output_without_its_last_cut_is_refused() {
    let data = tempfile::tempdir().unwrap();
    write(data.path(), OutputSabotage::None, script());
    let last = script().len() * 2 - 1;
    fs::remove_file(data.path().join(format!("out/cut-{last}.jsonl"))).unwrap();
    fs::remove_file(data.path().join(format!("out/chain/cut-{last}.json"))).unwrap();
    let verdict = verdict(data.path());
    assert!(
        verdict.lost > 0 && !verdict.chain_errors.is_empty(),
        "{verdict:?}"
    );
}

#[test]
fn a_cut_of_another_attempt_is_never_overwritten() {
    let data = tempfile::tempdir().unwrap();
    let folder = OutputFolder::new(data.path());
    let mut sink = OrdersOutput::new(folder, OutputSabotage::None);
    let committer = sink.committer().unwrap();
    let mut stage = |attempt| {
        let cut = Cut {
            seq: 1,
            term: 1,
            attempt,
            completed: 0,
            last: false,
        };
        sink.prepare(cut).unwrap().stage.unwrap()().unwrap()
    };
    let (first, second) = (stage(1), stage(2));
    committer.commit(1, &first).unwrap();
    assert!(committer.commit(1, &second).is_err());
    // a region that goes back behind the cut takes it back, and may then publish it anew
    committer.take_back_above(0).unwrap();
    committer.commit(1, &second).unwrap();
    committer.abort_all_except(&[second]).unwrap();
    assert_eq!(fs::read_dir(data.path().join("staged")).unwrap().count(), 0);
}
