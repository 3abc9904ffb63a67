//! What is right in the end: reads what the job wrote and what it was told, nothing of how it works.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use lockkeeper_examples::orders::judge::Verdict;
use lockkeeper_examples::orders::output::{ChainLink, OutputFolder};

/// Asks `orders-verify`: totals, counts and digests against the table, changes against what the database
/// acknowledged to the loader.
pub(crate) fn verdict(data: &Path) -> anyhow::Result<Verdict> {
    let judge = std::env::current_exe()?.with_file_name("orders-verify");
    let output = Command::new(judge).arg(data).output()?;
    if output.status.code().is_none_or(|code| code > 1) {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    serde_json::from_slice(&output.stdout).context("the verdict of orders-verify")
}

/// What a verdict finds.
pub(crate) fn of_verdict(verdict: &Verdict) -> Vec<String> {
    let mut findings = verdict.chain_errors.clone();
    let mut finding = |wrong: bool, text: String| findings.extend(wrong.then_some(text));
    finding(
        verdict.lost > 0,
        format!("{} acknowledged row changes are lost", verdict.lost),
    );
    finding(
        verdict.duplicated > 0,
        format!("{} row changes are counted twice", verdict.duplicated),
    );
    finding(!verdict.totals_match, "totals differ from SQL's".to_owned());
    finding(
        !verdict.digest_match,
        "digests of the rows differ from the table's".to_owned(),
    );
    findings
}

/// The chain of the published cuts, ascending.
pub(crate) fn chain(data: &Path) -> anyhow::Result<Vec<ChainLink>> {
    let mut links = Vec::new();
    for entry in fs::read_dir(OutputFolder::new(data).chain())? {
        let link: ChainLink = serde_json::from_slice(&fs::read(entry?.path())?)?;
        links.push(link);
    }
    links.sort_by_key(|link| link.cut);
    Ok(links)
}

/// Terms along the chain never go back, and every cut that a leader told to be complete is in it.
pub(crate) fn of_chain(links: &[ChainLink], told: &BTreeSet<u64>) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut newest = 0;
    for link in links {
        let term = term_of(link).with_context(|| format!("the name {:?}", link.staged))?;
        if term < newest {
            findings.push(format!(
                "cut {} is of term {term}, a cut before it of term {newest}: a deposed leader's effect",
                link.cut
            ));
        }
        newest = newest.max(term);
    }
    let published: BTreeSet<u64> = links.iter().map(|link| link.cut).collect();
    findings.extend(
        told.difference(&published)
            .map(|cut| format!("cut {cut} was told to be complete and is not in the output")),
    );
    Ok(findings)
}

/// `cut-<seq>.<term>.<attempt>`
fn term_of(link: &ChainLink) -> Option<u64> {
    link.staged.split('.').nth(1)?.parse().ok()
}

/// Panics in the logs of a folder.
pub(crate) fn of_logs(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let lines = BufReader::new(fs::File::open(&path)?).lines();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for line in lines {
            let line = line?;
            if line.contains("panicked at") {
                findings.push(format!("{name}: {line}"));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(cut: u64, term: u64) -> ChainLink {
        ChainLink {
            cut,
            previous: 0,
            changes_before: 0,
            changes_through: 0,
            last: false,
            staged: format!("cut-{cut}.{term}.1"),
        }
    }

    #[test]
    fn terms_that_grow_and_cuts_that_are_there_are_right() {
        let links = [link(1, 3), link(4, 3), link(5, 9)];
        assert_eq!(
            of_chain(&links, &[1, 5].into()).unwrap(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_cut_of_a_deposed_leader_is_found() {
        let links = [link(1, 3), link(4, 9), link(5, 3)];
        let found = of_chain(&links, &BTreeSet::new()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("deposed"), "{found:?}");
    }

    #[test]
    fn a_complete_cut_that_is_gone_is_found() {
        let found = of_chain(&[link(1, 3)], &[1, 2].into()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("cut 2"), "{found:?}");
    }

    #[test]
    fn each_part_of_a_verdict_is_a_finding_of_its_own() {
        let wrong = Verdict {
            lost: 1,
            duplicated: 2,
            chain_errors: vec!["a hole".to_owned()],
            ..Verdict::default()
        };
        assert_eq!(of_verdict(&wrong).len(), 5);
        let right = Verdict {
            totals_match: true,
            digest_match: true,
            ..Verdict::default()
        };
        assert_eq!(of_verdict(&right), Vec::<String>::new());
    }

    #[test]
    fn a_panic_in_a_log_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let log = "INFO fine\nthread 'main' panicked at src/a.rs:1:1:\nboom\n";
        fs::write(folder.path().join("worker-0.log"), log).unwrap();
        let found = of_logs(folder.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("worker-0.log"), "{found:?}");
    }
}
