//! Compares what the job wrote with the truth. Reads the output folder and nothing of the job.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::output::{ChainLink, OutputFolder, WrittenLine};

/// What the judge found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Row changes that the output covers.
    pub changes: u64,
    /// Customers in the output.
    pub customers: u64,
    /// Row changes of the truth that the output misses.
    pub lost: u64,
    /// Row changes that the output has and the truth has not, or has twice.
    pub duplicated: u64,
    /// Every customer's total and number of rows is that of the truth.
    pub totals_match: bool,
    /// Every customer's digest is that of the truth.
    pub digest_match: bool,
    /// Cuts in the output.
    pub cuts: u64,
    /// What is wrong with the order of the cuts; empty when nothing is.
    pub chain_errors: Vec<String>,
}

impl Verdict {
    /// Whether the output is the truth.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.lost == 0
            && self.duplicated == 0
            && self.totals_match
            && self.digest_match
            && self.chain_errors.is_empty()
    }
}

/// The cuts of an output in order.
#[derive(Debug)]
struct Cut {
    link: ChainLink,
    lines: Vec<WrittenLine>,
}

/// Judges the output of the job whose data lies in `data`.
///
/// # Errors
/// When a file can't be read or is no output of the job, naming it.
pub fn judge(data: &Path, truth: &HashMap<String, Account>) -> anyhow::Result<Verdict> {
    let folder = OutputFolder::new(data);
    let mut chain_errors = Vec::new();
    let cuts = read_cuts(&folder, &mut chain_errors)?;
    let mut accounts: HashMap<&str, &WrittenLine> = HashMap::new();
    let mut repeated = 0;
    let mut covered = (0, 0);
    for cut in &cuts {
        let (previous, through) = covered;
        let link = &cut.link;
        if link.previous != previous {
            chain_errors.push(format!(
                "cut {} follows cut {}, the output has cut {previous} before it",
                link.cut, link.previous
            ));
        }
        if link.changes_before != through {
            chain_errors.push(format!(
                "cut {} starts behind {} changes, the cuts before it cover {through}",
                link.cut, link.changes_before
            ));
            repeated += through.saturating_sub(link.changes_before);
        }
        let mut new_changes = 0;
        for line in &cut.lines {
            let before = accounts
                .insert(&line.customer, line)
                .map_or(0, |line| line.changes);
            new_changes += line.changes.saturating_sub(before);
        }
        let promised = link.changes_through.saturating_sub(link.changes_before);
        if new_changes != promised {
            chain_errors.push(format!(
                "cut {} has {new_changes} new changes, its chain says {promised}",
                link.cut
            ));
        }
        covered = (link.cut, link.changes_through);
    }
    if !cuts.last().is_some_and(|cut| cut.link.last) {
        chain_errors.push("the last cut of the job is missing".to_owned());
    }
    Ok(Verdict {
        changes: covered.1,
        chain_errors,
        ..compare(&accounts, truth, cuts.len(), repeated)
    })
}

fn compare(
    accounts: &HashMap<&str, &WrittenLine>,
    truth: &HashMap<String, Account>,
    cuts: usize,
    repeated: u64,
) -> Verdict {
    let mut verdict = Verdict {
        customers: accounts.len() as u64,
        duplicated: repeated,
        totals_match: true,
        digest_match: true,
        cuts: cuts as u64,
        ..Verdict::default()
    };
    let mut customers: Vec<&str> = accounts.keys().copied().collect();
    customers.extend(truth.keys().map(String::as_str));
    customers.sort_unstable();
    customers.dedup();
    for customer in customers {
        let written = accounts
            .get(customer)
            .map_or_else(Account::default, |line| Account {
                total: line.total,
                count: line.count,
                changes: line.changes,
                digest: line.digest,
            });
        let right = truth.get(customer).copied().unwrap_or_default();
        verdict.lost += right.changes.saturating_sub(written.changes);
        verdict.duplicated += written.changes.saturating_sub(right.changes);
        verdict.totals_match &= (written.total, written.count) == (right.total, right.count);
        verdict.digest_match &= written.digest == right.digest;
    }
    verdict
}

fn read_cuts(folder: &OutputFolder, errors: &mut Vec<String>) -> anyhow::Result<Vec<Cut>> {
    let chain = numbered(&folder.chain(), ".json")?;
    let lines = numbered(&folder.published(), ".jsonl")?;
    for cut in lines.keys().filter(|cut| !chain.contains_key(cut)) {
        errors.push(format!("cut {cut} is not in the chain"));
    }
    let mut cuts = Vec::new();
    for (cut, path) in chain {
        let link: ChainLink = serde_json::from_slice(&fs::read(&path)?)
            .with_context(|| format!("{}: not a link of the chain", path.display()))?;
        if link.cut != cut {
            errors.push(format!("cut {cut} is a repetition of cut {}", link.cut));
        }
        let Some(path) = lines.get(&cut) else {
            errors.push(format!("cut {cut} is missing"));
            continue;
        };
        cuts.push(Cut {
            link,
            lines: read_lines(path)?,
        });
    }
    Ok(cuts)
}

fn read_lines(path: &Path) -> anyhow::Result<Vec<WrittenLine>> {
    let file = fs::File::open(path).with_context(|| path.display().to_string())?;
    BufReader::new(file)
        .lines()
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_str(&line?)
                .with_context(|| format!("{} line {}", path.display(), number + 1))
        })
        .collect()
}

/// The files `cut-<seq><suffix>` of a folder by their number; anything else there is an error.
fn numbered(folder: &Path, suffix: &str) -> anyhow::Result<BTreeMap<u64, std::path::PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            name.strip_prefix("cut-")?
                .strip_suffix(suffix)?
                .parse()
                .ok()
        });
        match number {
            Some(number) => found.insert(number, entry.path()),
            None => bail!("{}: no file of an output", entry.path().display()),
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
