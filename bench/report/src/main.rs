//! Makes the page of all benches from their stored results: `bench-report RESULTS PAGE` writes the page and its plots
//! beside it, `bench-report --check RESULTS PAGE` tells whether they are what the results give.

mod page;
mod plot;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench_harness::Failure;
use bench_harness::machine::Machine;
use bench_harness::report::Figure;

/// The benches in the order of the page: their results, and what they are about.
const BENCHES: [(&str, &str); 4] = [
    ("rpc", "Calls between two processes"),
    ("fencing", "How long nobody leads"),
    ("canal", "Rows of Canal"),
    ("region", "A consistent region"),
];

/// A bench as it was stored.
struct Bench {
    name: &'static str,
    title: &'static str,
    figures: Vec<Figure>,
    /// Where it ran; older results do not say.
    machine: Option<Machine>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--check", results, page] => check(&made(Path::new(results), Path::new(page))?),
        [results, page] => write(&made(Path::new(results), Path::new(page))?),
        _ => Err("bench-report [--check] RESULTS PAGE".into()),
    }
}

fn read(results: &Path) -> Result<Vec<Bench>, Failure> {
    let mut benches = Vec::new();
    for (name, title) in BENCHES {
        let file = results.join(format!("{name}.json"));
        if !file.exists() {
            continue;
        }
        let read = |error: serde_json::Error| format!("{}: {error}", file.display());
        benches.push(Bench {
            name,
            title,
            figures: serde_json::from_slice(&std::fs::read(&file)?).map_err(read)?,
            machine: Machine::stored(results, name)?,
        });
    }
    match benches.is_empty() {
        true => Err(format!("{} holds no results: run a bench first", results.display()).into()),
        false => Ok(benches),
    }
}

/// Every file and what is in it.
fn made(results: &Path, page: &Path) -> Result<BTreeMap<PathBuf, String>, Failure> {
    let folder = page.parent().ok_or("the page lies in no folder")?;
    let mut files = BTreeMap::new();
    let mut sections = Vec::new();
    for bench in read(results)? {
        let plots = plot::of(&bench);
        sections.push(page::section(&bench, &plots));
        for plot in plots {
            files.insert(folder.join(plot.file), plot.svg);
        }
    }
    files.insert(page.to_owned(), page::page(&sections));
    Ok(files)
}

fn write(files: &BTreeMap<PathBuf, String>) -> Result<(), Failure> {
    for (path, text) in files {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// An error names the first file that differs.
fn check(files: &BTreeMap<PathBuf, String>) -> Result<(), Failure> {
    for (path, text) in files {
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        if stored != *text {
            let path = path.display();
            return Err(
                format!("{path} is not what the results give: bench/run --report-only").into(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
