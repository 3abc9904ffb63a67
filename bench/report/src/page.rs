//! The page in Markdown.

use bench_harness::report::Figure;

use crate::Bench;
use crate::plot::Plot;

pub fn page(sections: &[String]) -> String {
    let mut page = String::from(
        "# Measured\n\n\
         Written by `bench/run` from [`bench/results`](../../bench/results); not to be edited. What the figures mean and where \
         the time goes is in [Performance](../performance.md), how they are measured in \
         [bench/README.md](../../bench/README.md). A goal that is missed, or not measured, is a miss. The load is that of the \
         machine's last minute when the figure was written: above the number of its cores the figures say little.\n",
    );
    for section in sections {
        page.push('\n');
        page.push_str(section);
    }
    page
}

pub fn section(bench: &Bench, plots: &[Plot]) -> String {
    let met = bench.figures.iter().filter(|figure| figure.met).count();
    let mut section = format!(
        "## {}\n\n{met} of {} goals are met. {}\n",
        bench.title,
        bench.figures.len(),
        match &bench.machine {
            Some(machine) => format!("Measured on {machine}."),
            None => "On which machine was not recorded.".to_owned(),
        }
    );
    for plot in plots {
        section += &format!("\n![{}]({})\n", plot.title, plot.file);
    }
    section +=
        "\n| figure | value | goal | met | runs | load | of |\n|---|---|---|---|---|---|---|\n";
    for figure in &bench.figures {
        section += &row(figure);
    }
    section
}

fn row(figure: &Figure) -> String {
    let value = match figure.value {
        Some(value) => format!("{} {}", number(value), figure.unit),
        None => "not measured".to_owned(),
    };
    let peers = figure.peers.iter();
    let peers: Vec<String> = peers
        .map(|(name, value)| format!("{name} {}", number(*value)))
        .collect();
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} |\n",
        figure.name,
        value.trim(),
        goal(&figure.goal),
        if figure.met { "yes" } else { "**MISS**" },
        figure.runs,
        figure
            .load
            .map_or("?".to_owned(), |load| format!("{load:.1}")),
        peers.join(", ")
    )
}

/// A goal's bound in few digits.
fn goal(goal: &str) -> String {
    match goal
        .split_once(' ')
        .map(|(sign, bound)| (sign, bound.parse()))
    {
        Some((">=", Ok(bound))) => format!("≥ {}", number(bound)),
        Some(("<=", Ok(bound))) => format!("≤ {}", number(bound)),
        _ => goal.to_owned(),
    }
}

/// Three digits that say something, and thousands apart.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = match text.split_once('.') {
        Some((whole, rest)) => (whole, format!(".{rest}")),
        None => (text.as_str(), String::new()),
    };
    let (sign, whole) = match whole.strip_prefix('-') {
        Some(whole) => ("-", whole),
        None => ("", whole),
    };
    let first = whole.len() % 3;
    let mut groups: Vec<&str> = Vec::new();
    if first > 0 {
        groups.push(&whole[..first]);
    }
    groups.extend((first..whole.len()).step_by(3).map(|at| &whole[at..at + 3]));
    format!("{sign}{}{rest}", groups.join(","))
}
