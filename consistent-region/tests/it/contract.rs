//! The page that says which test shows which promise names tests that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// Functions right under an attribute that makes them tests, those in `proptest!` included.
fn tests(sources: &str) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    let mut is_test = false;
    for line in sources.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.ends_with("test]");
        } else if let Some((_, rest)) = line.split_once("fn ")
            && std::mem::take(&mut is_test)
        {
            tests.extend(rest.split('(').next());
        }
    }
    tests
}

#[test]
fn every_promise_names_a_test_that_there_is() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    sources(&package.join("src"), &mut text);
    sources(&package.join("tests"), &mut text);
    let tests = tests(&text);
    let page = fs::read_to_string(package.join("../docs/region-contract.md")).unwrap();

    let names = page.split('`').skip(1).step_by(2);
    let is_a_test_name = |name: &&str| name.matches('_').count() > 2 || name.starts_with("s1_");
    let missing: Vec<&str> = names
        .filter(is_a_test_name)
        .filter(|name| !tests.contains(name))
        .collect();
    assert!(missing.is_empty(), "no tests: {missing:?}");

    let ids = (1..=30).map(|n| format!("S{n}"));
    for id in ids.chain((1..=12).map(|n| format!("P{n}"))) {
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with(&format!("| {id} |")))
            .collect();
        let [row] = rows.as_slice() else {
            panic!("{id} has {} rows", rows.len());
        };
        let shows = row.rsplit('|').nth(1).unwrap();
        assert!(shows.contains('`') || shows.contains("not yet"), "{row}");
    }
}
