//! Figures with their goals: the table and the JSON that all benches of the project write.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::Failure;

/// One figure. A goal that was missed is told, never left out.
#[derive(Debug, Serialize)]
pub struct Figure {
    pub name: String,
    /// None: not measured, which is a miss.
    pub value: Option<f64>,
    pub unit: &'static str,
    /// Such as `>= 0.6`.
    pub goal: String,
    pub met: bool,
    pub runs: usize,
    /// The medians that the value comes from.
    pub peers: BTreeMap<String, f64>,
}

/// A bound on a figure.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub fn new(name: &str, unit: &'static str, goal: Goal, value: Option<f64>) -> Self {
        let (text, met) = match goal {
            Goal::AtLeast(bound) => (format!(">= {bound}"), value.is_some_and(|it| it >= bound)),
            Goal::AtMost(bound) => (format!("<= {bound}"), value.is_some_and(|it| it <= bound)),
        };
        Self {
            name: name.to_owned(),
            value,
            unit,
            goal: text,
            met,
            runs: 0,
            peers: BTreeMap::new(),
        }
    }

    pub fn runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    pub fn peer(mut self, name: &str, value: f64) -> Self {
        self.peers.insert(name.to_owned(), value);
        self
    }
}

/// The middle one.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the table, and writes it and its figures as `NAME.md` and `NAME.json` into the folder.
pub fn write(figures: &[Figure], folder: &Path, name: &str) -> Result<(), Failure> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut table = format!(
        "Load average: {}\n\n| figure | value | goal | met | runs | of |\n|---|---|---|---|---|---|\n",
        load.trim()
    );
    for figure in figures {
        let value = match figure.value {
            Some(value) => format!("{value:.3} {}", figure.unit),
            None => "not measured".to_owned(),
        };
        let peers = figure.peers.iter();
        let peers: Vec<_> = peers
            .map(|(name, value)| format!("{name} {value:.1}"))
            .collect();
        table += &format!(
            "| {} | {value} | {} | {} | {} | {} |\n",
            figure.name,
            figure.goal,
            if figure.met { "yes" } else { "MISS" },
            figure.runs,
            peers.join(", ")
        );
    }
    println!("\n{table}");
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{name}.md")), table)?;
    std::fs::write(
        folder.join(format!("{name}.json")),
        serde_json::to_string_pretty(figures)? + "\n",
    )?;
    Ok(())
}
