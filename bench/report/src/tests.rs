//! The page of two small benches.

use std::fs;

use super::*;

const RPC: &str = r#"[
  {"name": "rpc.ask.16B.64.ratio_best_peer", "value": 1.5, "unit": "ratio", "goal": ">= 1", "met": true, "runs": 5,
   "peers": {"lockkeeper": 3000.0, "a<b": 2000.0}, "load": 0.4},
  {"name": "rpc.slow", "value": 20.0, "unit": "ms", "goal": "<= 5", "met": false, "runs": 1, "peers": {}}
]"#;
const REGION: &str = r#"[
  {"name": "region.lost", "value": null, "unit": "ms", "goal": "<= 100", "met": false, "runs": 0, "peers": {}}
]"#;

fn results() -> tempdir::Folder {
    let folder = tempdir::Folder::new();
    fs::write(folder.path().join("rpc.json"), RPC).unwrap();
    fs::write(folder.path().join("region.json"), REGION).unwrap();
    folder
}

mod tempdir {
    //! A folder that goes with its value.

    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    static NEXT: AtomicU32 = AtomicU32::new(0);

    pub struct Folder(PathBuf);

    impl Folder {
        pub fn new() -> Self {
            let next = NEXT.fetch_add(1, Ordering::SeqCst);
            let name = format!("bench-report-{}-{next}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[test]
fn every_figure_has_a_row_and_a_miss_says_so() {
    let folder = results();
    let page = folder.path().join("page.md");
    let files = made(folder.path(), &page).unwrap();
    let text = &files[&page];
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(
        rows,
        [
            "| `rpc.ask.16B.64.ratio_best_peer` | 1.50 ratio | ≥ 1.00 | yes | 5 | 0.4 | a<b 2,000, lockkeeper 3,000 |",
            "| `rpc.slow` | 20.0 ms | ≤ 5.00 | **MISS** | 1 | ? |  |",
            "| `region.lost` | not measured | ≤ 100 | **MISS** | 0 | ? |  |",
        ]
    );
    assert!(text.contains("1 of 2 goals are met."), "{text}");
}

#[test]
fn plots_have_a_bar_a_figure_and_texts_that_are_xml() {
    let folder = results();
    let page = folder.path().join("page.md");
    let files = made(folder.path(), &page).unwrap();
    let goals = &files[&folder.path().join("rpc-goals.svg")];
    assert_eq!(goals.matches("<rect").count(), 2);
    assert_eq!(goals.matches("class=\"miss\"").count(), 1);
    let peers = &files[&folder.path().join("rpc.ask.16B.64.ratio_best_peer.svg")];
    assert!(peers.contains(">a&lt;b<"), "{peers}");
    let longest = peers.find("lockkeeper").unwrap();
    assert!(
        longest < peers.find("a&lt;b").unwrap(),
        "the longest is first"
    );
}

#[test]
fn a_page_that_is_older_than_the_results_is_noticed() {
    let folder = results();
    let page = folder.path().join("page.md");
    write(&made(folder.path(), &page).unwrap()).unwrap();
    check(&made(folder.path(), &page).unwrap()).unwrap();
    fs::write(folder.path().join("rpc.json"), RPC.replace("1.5", "1.6")).unwrap();
    let error = check(&made(folder.path(), &page).unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("bench/run --report-only"),
        "{error}"
    );
}

#[test]
fn numbers_have_three_digits_and_thousands_apart() {
    let texts = [0.0, 0.01234, 0.1234, 1.234, 12.34, 1_234.0, 30_000_000.0].map(page::number);
    assert_eq!(
        texts,
        [
            "0",
            "0.0123",
            "0.123",
            "1.23",
            "12.3",
            "1,234",
            "30,000,000"
        ]
    );
}
