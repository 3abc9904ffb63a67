//! `lockkeeper store`: what lies in a region's store, whether it is whole, and what nobody needs.

use std::sync::Arc;

use lockkeeper_consistent_region::archive::{Adoption, Archive, ArchiveError};
use lockkeeper_consistent_region::store::{CheckpointStore, ObjectName, StoreError};
use serde_json::json;

use super::Shown;
use super::ending::{Ending, Failure};
use super::options::StoreCommand;
use crate::region::{place, text};

/// Blocks: stores do.
pub(super) fn run(command: &StoreCommand) -> Result<Shown, Failure> {
    match command {
        StoreCommand::List { store } => list(&archive(store)?),
        StoreCommand::Verify { store } => verify(&archive(store)?),
        StoreCommand::Prune {
            store,
            dry_run,
            assume_dead,
        } => prune(store, *dry_run, assume_dead),
    }
}

fn open(store: &str) -> Result<Arc<dyn CheckpointStore>, Failure> {
    place::open(store).map_err(Failure::usage)
}

fn archive(store: &str) -> Result<Archive, Failure> {
    Archive::open(open(store)?).map_err(failure)
}

fn list(archive: &Archive) -> Result<Shown, Failure> {
    let overview = archive.overview().map_err(failure)?;
    let mut shown = Vec::new();
    text::overview(&mut shown, &overview, false).map_err(unwritten)?;
    Shown::new(Ending::Done, String::from_utf8_lossy(&shown), &overview)
}

fn verify(archive: &Archive) -> Result<Shown, Failure> {
    let verdicts = archive.verify().map_err(failure)?;
    let mut shown = Vec::new();
    text::verdicts(&mut shown, &verdicts).map_err(unwritten)?;
    let ending = match verdicts.iter().all(|verdict| verdict.faults.is_empty()) {
        true => Ending::Done,
        false => Ending::Refused,
    };
    Shown::new(ending, String::from_utf8_lossy(&shown), &verdicts)
}

/// Removes what rounds that came to nothing have left. A region does so by itself with its next cut:
/// this is for one that is not started again soon.
fn prune(store: &str, dry_run: bool, assume_dead: &[String]) -> Result<Shown, Failure> {
    let store = open(store)?;
    let archive = Archive::open(Arc::clone(&store)).map_err(failure)?;
    // A change of nothing, under a new term: whoever is alive is a refusal, and a coordinator that lives
    // after all is fenced out before anything is removed.
    let term = match dry_run {
        true => archive.overview().map_err(failure)?.highest_term,
        false => {
            let nothing = Adoption::default();
            archive.adopt(&nothing, assume_dead).map_err(failure)?.term
        }
    };
    // what a coordinator with a higher term writes meanwhile is its own
    let is_left_over =
        |name: &str| ObjectName::parse(name).is_some_and(|name| name.stamp.term <= term);
    let mut names = archive.overview().map_err(failure)?.unnamed;
    names.retain(|name| is_left_over(name));
    let mut unfinished = 0;
    if !dry_run {
        for name in &names {
            store.remove_object(name).map_err(unusable)?;
        }
        unfinished = store.remove_unfinished(&is_left_over).map_err(unusable)?;
    }
    let (count, verb) = (names.len(), if dry_run { "would be" } else { "were" });
    let text = match dry_run {
        true => format!("{count} objects that no cut names {verb} removed\n"),
        false => format!(
            "{count} objects that no cut names and {unfinished} half-written ones {verb} removed\n"
        ),
    };
    let json = json!({"objects": names, "unfinished": unfinished, "removed": !dry_run});
    Shown::new(Ending::Done, text, &json)
}

fn failure(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Store(_) | ArchiveError::Log(_) => Failure::unreachable(error.to_string()),
        _ => Failure::refused(error.to_string()),
    }
}

fn unusable(error: StoreError) -> Failure {
    Failure::unreachable(error.to_string())
}

fn unwritten(error: std::io::Error) -> Failure {
    Failure::usage(error.to_string())
}
