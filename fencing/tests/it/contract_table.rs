//! `docs/fencing-contract.md` is whole, and names tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many promises each group of the table has.
const GROUPS: [(&str, usize); 11] = [
    ("1.", 8),
    ("2.", 22),
    ("3.", 6),
    ("4.", 7),
    ("5.", 7),
    ("6.", 11),
    ("7.", 2),
    ("E", 4),
    ("R", 3),
    ("H", 4),
    ("G", 2),
];

/// All Rust of a folder.
fn sources_of(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources_of(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    all
}

#[test]
fn the_table_of_leaders_is_whole_and_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("docs/fencing-contract.md")).unwrap();
    let mut sources = BTreeMap::<String, String>::new();
    let mut exists = |test: &str| {
        let Some((package, name)) = test.split_once("::") else {
            return false;
        };
        let all = sources
            .entry(package.to_owned())
            .or_insert_with(|| sources_of(&root.join(package)));
        // Of the contract's functions some take the store by its type.
        all.contains(&format!("fn {name}(")) || all.contains(&format!("fn {name}<"))
    };
    let (mut ids, mut faults) = (BTreeSet::new(), Vec::new());
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [id, _, proof] = cells[..] else {
            faults.push(format!("not three cells: {row}"));
            continue;
        };
        if id == "id" {
            continue;
        }
        if !ids.insert(id) {
            faults.push(format!("{id} is there twice"));
        }
        if !proof.starts_with("decision: ") && !proof.starts_with('`') {
            faults.push(format!("{id}: neither a test nor a decision"));
        }
    }
    // Those in the text as well; a path into a crate is none.
    let named = page.split('`').skip(1).step_by(2);
    let is_test = |name: &&str| name.contains("::") && !name.starts_with("lockkeeper_");
    for test in named.filter(is_test) {
        if !exists(test) {
            faults.push(format!("there is no {test}"));
        }
    }
    for (group, last) in GROUPS {
        for number in 1..=last {
            let id = format!("{group}{number}");
            if !ids.contains(id.as_str()) {
                faults.push(format!("{id} is missing"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
