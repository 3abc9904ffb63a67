//! The pages that name tests: each that they name is there.

use std::collections::BTreeSet;
use std::path::Path;

/// All Rust below a folder.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    all
}

/// The rows of a page's table.
fn rows(page: &str) -> Vec<String> {
    let path = format!("{}/../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| id"));
    rows.map(str::to_owned).collect()
}

#[test]
fn every_promise_and_every_pain_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "tests", "../examples/src", "../examples/tests"];
    let sources: String = folders
        .iter()
        .map(|folder| sources(&root.join(folder)))
        .collect();
    let (mut faults, mut ids) = (Vec::new(), BTreeSet::new());
    for row in [rows("canal-contract.md"), rows("canal-pains.md")].concat() {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (id, proof) = (cells[0], cells[cells.len() - 1]);
        if id.is_empty() {
            continue;
        }
        assert!(ids.insert(id.to_owned()), "{id} is there twice");
        let tests = proof
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| name.contains("::"));
        let mut named = 0;
        for test in tests {
            named += 1;
            let name = test.rsplit("::").next().unwrap();
            if !sources.contains(&format!("fn {name}(")) {
                faults.push(format!("{id}: there is no {test}"));
            }
        }
        // What the server itself loses, and what a guide's doc tests check.
        if named == 0 && !proof.contains("](") {
            faults.push(format!("{id}: no test"));
        }
    }
    assert!(ids.len() >= 24 + 40, "{ids:?}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
