//! The guides say what is so: their code is compiled, their error texts and metrics are in the
//! source, their files are the ones that they show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below `folder` whose names end so, as paths from the root.
fn files(folder: &str, end: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path, end));
        } else if path.ends_with(end) {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_page_with_code_is_compiled() {
    let compiled = read("tests/support/lib.rs");
    let pages = files("docs", ".md");
    let with_code = pages.iter().filter(|page| read(page).contains("```rust"));
    let missing: Vec<_> = with_code
        // its code is compared with its programs, by examples/tests/it/migration.rs
        .filter(|page| *page != "docs/migration.md")
        .filter(|page| !compiled.contains(&format!("\"{page}\"")))
        .collect();
    assert!(
        missing.is_empty(),
        "add to tests/support/lib.rs: {missing:?}"
    );
}

#[test]
fn no_code_in_the_guides_is_left_out() {
    for page in files("docs", ".md") {
        let ignored = read(&page)
            .lines()
            .any(|line| line.starts_with("```rust,ignore"));
        assert!(!ignored, "{page}");
    }
}

#[test]
fn every_page_is_in_the_book() {
    let summary = read("docs/SUMMARY.md");
    for page in files("docs", ".md") {
        let name = page.strip_prefix("docs/").unwrap();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("({name})")),
            "{page} is not in docs/SUMMARY.md"
        );
    }
}

#[test]
fn every_task_and_every_start_is_in_the_list_of_guides() {
    let list = read("docs/README.md");
    for page in [files("docs/tasks", ".md"), files("docs/start", ".md")].concat() {
        let name = page.strip_prefix("docs/").unwrap();
        assert!(list.contains(&format!("({name})")), "{page}");
    }
}

/// The source of the crates, as the compiler reads its strings: continued lines are one.
fn sources() -> Vec<String> {
    let crates = ["core", "remote", "fencing", "canal", "consistent-region"];
    let files = crates
        .iter()
        .flat_map(|name| files(&format!("{name}/src"), ".rs"));
    files
        .map(|file| {
            let text = read(&file).replace("\\\"", "\"");
            let mut parts = text.split("\\\n");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| text + part.trim_start())
        })
        .collect()
}

/// Whether the parts follow one another, with a short text between each two.
fn follow_one_another(source: &str, parts: &[&str]) -> bool {
    const BETWEEN: usize = 300;
    let [first, rest @ ..] = parts else {
        return true;
    };
    source.match_indices(first).any(|(at, _)| {
        let mut after = &source[at + first.len()..];
        rest.iter().all(|part| match after.find(part) {
            Some(at) if at <= BETWEEN => {
                after = &after[at + part.len()..];
                true
            }
            _ => false,
        })
    })
}

/// The error texts that the page explains: headings and first cells that are code.
fn error_texts(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| {
            let text = line
                .strip_prefix("### `")
                .or_else(|| line.strip_prefix("| `"))?;
            let text = text.split(" |").next()?;
            Some(text.trim_matches('`').trim())
        })
        .collect()
}

#[test]
fn every_error_text_of_the_troubleshooting_page_is_in_the_source() {
    let page = read("docs/troubleshooting.md");
    let texts = error_texts(&page);
    assert!(texts.len() > 50, "the page's form was changed: {texts:?}");
    let sources = sources();
    let unknown: Vec<_> = texts
        .into_iter()
        .filter(|text| {
            let parts: Vec<&str> = text
                .split('…')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .collect();
            !sources
                .iter()
                .any(|source| follow_one_another(source, &parts))
        })
        .collect();
    assert!(unknown.is_empty(), "nothing says this: {unknown:#?}");
}

#[test]
fn a_text_that_nothing_says_is_noticed() {
    let source = "the inbox holds {messages} messages, its limit";
    assert!(follow_one_another(
        source,
        &["the inbox holds", "messages, its limit"]
    ));
    assert!(!follow_one_another(source, &["the inbox holds", "bytes"]));
    assert!(!follow_one_another(
        source,
        &["messages, its limit", "the inbox holds"]
    ));
    assert_eq!(
        error_texts("### ``a `b` c``\n| `d` | e |\ntext"),
        ["a `b` c", "d"]
    );
}

/// The metric of a series: a histogram is shown as its sum and its number.
fn series(name: &str) -> String {
    let metric = ["_sum", "_count"]
        .into_iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    metric.unwrap_or(name).to_owned()
}

/// Every name in `text` that begins with one of `prefixes`.
fn names(text: &str, prefixes: &[&str]) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| {
            let begins = |prefix: &&str| word.starts_with(*prefix) && *word != *prefix;
            prefixes.iter().any(begins)
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_metric_in_the_guides_exists() {
    let counted: String = files("core/src", ".rs")
        .iter()
        .chain(&files("remote/src", ".rs"))
        .chain(&files("canal/src", ".rs"))
        .chain(&["consistent-region/src/coordinator/measure.rs".to_owned()])
        .map(|file| read(file))
        .collect();
    let prefixes = [
        "lockkeeper_rpc_",
        "lockkeeper_remote_",
        "lockkeeper_canal_",
        "lockkeeper_region_",
    ];
    let counted = names(&counted, &prefixes);
    let guide = read("docs/tasks/metrics.md");
    let own = guide
        .split("```rust")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let own = names(own, &["shop_"]);
    for page in files("docs", ".md")
        .into_iter()
        .chain(files("docs/deploy", ""))
    {
        let used: BTreeSet<String> = names(&read(&page), &prefixes)
            .iter()
            .map(|name| series(name))
            .collect();
        let unknown: Vec<_> = used.difference(&counted).collect();
        assert!(unknown.is_empty(), "{page}: nothing counts {unknown:?}");
    }
    for file in [
        "docs/deploy/alerts.yaml",
        "docs/deploy/grafana-dashboard.json",
    ] {
        let used = names(&read(file), &["shop_"]);
        assert!(!used.is_empty(), "{file}");
        let unknown: Vec<_> = used.difference(&own).collect();
        assert!(
            unknown.is_empty(),
            "{file}: the guide's code does not set {unknown:?}"
        );
    }
    // Canal's have a page of their own
    let pages = guide + &read("docs/canal.md");
    let missing: Vec<_> = counted
        .iter()
        .filter(|name| !pages.contains(name.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "neither in docs/tasks/metrics.md nor in docs/canal.md: {missing:?}"
    );
}

/// A file of Prometheus' alert rules, with what it may say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertFile {
    groups: Vec<AlertGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertGroup {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    _for: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[test]
fn every_alert_is_explained_and_the_dashboard_is_json() {
    let guide = read("docs/tasks/metrics.md");
    let file: AlertFile = serde_saphyr::from_str(&read("docs/deploy/alerts.yaml")).unwrap();
    let [group] = file.groups.as_slice() else {
        panic!("more than one group");
    };
    assert_eq!(group.name, "lockkeeper");
    assert!(group.rules.len() >= 10);
    for rule in &group.rules {
        let alert = &rule.alert;
        assert!(
            guide.contains(&format!("`{alert}`")),
            "{alert} is not in docs/tasks/metrics.md"
        );
        assert!(!rule.expr.is_empty(), "{alert}");
        assert!(rule.labels.contains_key("severity"), "{alert}");
        assert!(rule.annotations.contains_key("summary"), "{alert}");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("docs/deploy/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    assert!(targets.flatten().all(|target| target["expr"].is_string()));
}

#[test]
fn the_unit_is_the_one_of_the_guide_and_its_flags_exist() {
    let unit = read("docs/deploy/orders.service");
    let guide = read("docs/tasks/systemd.md");
    assert!(guide.contains(&format!("```ini\n{unit}```")), "they differ");
    let options = read("examples/src/orders/options.rs");
    let flags = unit
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("--"));
    for flag in flags {
        let field = format!("pub {}:", flag.replace('-', "_"));
        assert!(options.contains(&field), "orders has no --{flag}");
    }
}

/// The words of a bash array.
fn array(script: &str, name: &str) -> Vec<String> {
    let (_, rest) = script.split_once(&format!("\n{name}=(")).unwrap();
    let (words, _) = rest.split_once(')').unwrap();
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_stage_of_the_supply_chain_is_explained() {
    let (script, page) = (read("tests/supply-chain"), read("docs/supply-chain.md"));
    let stages = array(&script, "STAGES");
    assert!(stages.len() >= 8, "{stages:?}");
    for stage in stages {
        assert!(
            page.contains(&format!("--only {stage}`")),
            "{stage} is not in the page"
        );
    }
}

#[test]
fn every_crate_that_is_published_is_released_after_those_it_needs() {
    let order = array(&read("tests/supply-chain"), "CRATES");
    let workspace = read("Cargo.toml");
    let (_, members) = workspace.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let mut published = 0;
    for member in members
        .split(',')
        .map(|member| member.trim().trim_matches('"'))
    {
        let manifest = read(&format!("{member}/Cargo.toml"));
        if manifest.contains("publish = false") {
            continue;
        }
        published += 1;
        let name = manifest
            .split("name = \"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let place = order.iter().position(|released| released == name);
        let place = place.unwrap_or_else(|| panic!("{name} is not in tests/supply-chain"));
        let (_, needed) = manifest.split_once("\n[dependencies]\n").unwrap();
        let (needed, _) = needed.split_once("\n[").unwrap();
        for line in needed
            .lines()
            .filter(|line| line.starts_with("lockkeeper-"))
        {
            let needed = line.split(' ').next().unwrap();
            let before = order.iter().position(|released| released == needed);
            assert!(
                before < Some(place) && before.is_some(),
                "{name} needs {needed}"
            );
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = read(&format!("{member}/{licence}"));
            assert_eq!(text, read(licence), "{member}/{licence}");
        }
    }
    assert_eq!(published, order.len());
}
