//! Figures with their goals: the table and the JSON that all benches of the project write.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::machine::Machine;

/// One figure. A goal that was missed is told, never left out.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    /// None: not measured, which is a miss.
    pub value: Option<f64>,
    pub unit: String,
    /// Such as `>= 0.6`.
    pub goal: String,
    pub met: bool,
    pub runs: usize,
    /// The medians that the value comes from.
    pub peers: BTreeMap<String, f64>,
    /// The machine's load over the last minute when it was stored.
    #[serde(default)]
    pub load: Option<f64>,
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
            unit: unit.to_owned(),
            goal: text,
            met,
            runs: 0,
            peers: BTreeMap::new(),
            load: None,
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

/// The value below which that part of all lies: 0.5 the middle, 1.0 the greatest.
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * part).ceil() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Prints the table, and writes it and its figures as `NAME.md` and `NAME.json` into the folder.
pub fn write(mut figures: Vec<Figure>, folder: &Path, name: &str) -> Result<(), Failure> {
    tell_load(&mut figures);
    store(&figures, folder, name)
}

/// The same for a part of the figures: they take the places of those with their names, and the others stay.
pub fn write_part(mut part: Vec<Figure>, folder: &Path, name: &str) -> Result<(), Failure> {
    tell_load(&mut part);
    let mut figures: Vec<Figure> = match std::fs::read(folder.join(format!("{name}.json"))) {
        Ok(kept) => serde_json::from_slice(&kept)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    for figure in part {
        match figures.iter_mut().find(|kept| kept.name == figure.name) {
            Some(kept) => *kept = figure,
            None => figures.push(figure),
        }
    }
    store(&figures, folder, name)
}

fn tell_load(figures: &mut [Figure]) {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
    for figure in figures {
        figure.load = load;
    }
}

fn store(figures: &[Figure], folder: &Path, name: &str) -> Result<(), Failure> {
    let mut table = String::from(
        "| figure | value | goal | met | runs | load | of |\n|---|---|---|---|---|---|---|\n",
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
        let load = figure
            .load
            .map_or("?".to_owned(), |load| format!("{load:.1}"));
        table += &format!(
            "| {} | {value} | {} | {} | {} | {load} | {} |\n",
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
    Machine::here().store(folder, name)
}
