//! Bars as SVG: how each figure stands to its goal, and some figures beside their peers.

use bench_harness::report::Figure;

use crate::Bench;
use crate::page::number;

pub struct Plot {
    pub title: String,
    pub file: String,
    pub svg: String,
}

struct Bar {
    label: String,
    /// 0 to 1.
    length: f64,
    value: String,
    class: &'static str,
}

/// Figures whose peers are of one kind: what they measure, and which of them are drawn (all, if none is named).
const BESIDE: [(&str, &str, &[&str]); 8] = [
    (
        "rpc.ask.16B.1.ratio_best_peer",
        "Asks of 16 bytes a second, one at a time",
        &[],
    ),
    (
        "rpc.ask.16B.64.ratio_best_peer",
        "Asks of 16 bytes a second, 64 at a time",
        &[],
    ),
    (
        "rpc.ask.64KiB.64.ratio_best_peer",
        "Asks of 64 KiB a second, 64 at a time",
        &[],
    ),
    (
        "rpc.ask.16B.64.cpu_ratio_flink",
        "Microseconds of processor time an ask, beside Flink",
        &[],
    ),
    (
        "canal.decode.typed.cpu_ratio_java",
        "Seconds of processor time for a million typed rows",
        &[],
    ),
    (
        "region.pipeline.tuples_per_s",
        "Tuples a second",
        &["bare", "flink", "jet"],
    ),
    (
        "region.pipeline.cpu_ratio_flink",
        "Nanoseconds of processor time a tuple, beside Flink",
        &["cpu_ns", "flink_cpu_ns"],
    ),
    (
        "region.recovery.panic.p50_ms",
        "Milliseconds from a failure to the first tuple",
        &["flink", "jet"],
    ),
];

pub fn of(bench: &Bench) -> Vec<Plot> {
    let mut plots = vec![goals(bench)];
    for (name, title, peers) in BESIDE {
        let figure = bench.figures.iter().find(|figure| figure.name == name);
        plots.extend(figure.and_then(|figure| beside(figure, title, peers)));
    }
    plots
}

/// How many times better or worse than its goal a bar can show a figure to be.
const REACH: f64 = 16.0;

/// The goal is in the middle; each figure's bar ends where it stands, on a logarithmic scale.
fn goals(bench: &Bench) -> Plot {
    let bars = bench.figures.iter().map(|figure| {
        let better = better_than_goal(figure);
        let length = better.map_or(0.0, |better| {
            (better.ln() / REACH.ln() / 2.0 + 0.5).clamp(0.02, 1.0)
        });
        let mark = if figure.met { "✓" } else { "✗" };
        Bar {
            label: figure.name.clone(),
            length,
            value: match figure.value {
                Some(value) => format!("{mark} {}", number(value)),
                None => format!("{mark} not measured"),
            },
            class: if figure.met { "met" } else { "miss" },
        }
    });
    let title = format!(
        "{}: to the right of the line a goal is met; up to 16 times",
        bench.title
    );
    let bars: Vec<Bar> = bars.collect();
    Plot {
        svg: svg(&title, &bars, Some(0.5)),
        title,
        file: format!("{}-goals.svg", bench.name),
    }
}

/// 1: it is just met.
fn better_than_goal(figure: &Figure) -> Option<f64> {
    let value = figure.value?;
    let (sign, bound) = figure.goal.split_once(' ')?;
    let bound: f64 = bound.parse().ok()?;
    let better = match sign {
        ">=" => value / bound,
        "<=" if value <= 0.0 => REACH,
        "<=" => bound / value,
        _ => return None,
    };
    Some(better.max(1.0 / REACH))
}

/// The peers and, where it has their unit, the figure itself.
fn beside(figure: &Figure, title: &str, peers: &[&str]) -> Option<Plot> {
    let drawn = figure.peers.iter();
    let drawn = drawn.filter(|(name, _)| peers.is_empty() || peers.contains(&name.as_str()));
    let mut values: Vec<(String, f64, bool)> = drawn
        .map(|(name, value)| {
            let ours = name.starts_with("lockkeeper") || name == "cpu_ns";
            let name = name.strip_suffix("_cpu_ns").unwrap_or(name);
            let name = if name == "cpu_ns" { "lockkeeper" } else { name };
            (name.to_owned(), *value, ours)
        })
        .collect();
    if values.is_empty() {
        return None;
    }
    if !values.iter().any(|(_, _, ours)| *ours) {
        values.push(("lockkeeper".to_owned(), figure.value?, true));
    }
    values.sort_by(|one, other| other.1.total_cmp(&one.1));
    let most = values.first().map_or(1.0, |(_, most, _)| *most);
    let bars: Vec<Bar> = values
        .into_iter()
        .map(|(label, value, ours)| Bar {
            label,
            length: value / most,
            value: number(value),
            class: if ours { "ours" } else { "peer" },
        })
        .collect();
    Some(Plot {
        svg: svg(title, &bars, None),
        title: title.to_owned(),
        file: format!("{}.svg", figure.name),
    })
}

const ROW: usize = 22;
const LEFT: usize = 300;
const BARS: usize = 360;
const WIDTH: usize = 800;
const TOP: usize = 40;
const STYLE: &str = "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}.met,.ours{fill:#2a7f62}\
    .miss{fill:#c4501b}.peer{fill:#8a94a3}.line{stroke:#222;stroke-dasharray:4 3}\
    @media(prefers-color-scheme:dark){text{fill:#ddd}.line{stroke:#ddd}}";

/// `line`: where one stands across all bars.
fn svg(title: &str, bars: &[Bar], line: Option<f64>) -> String {
    let height = TOP + bars.len() * ROW + 8;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>{STYLE}</style>\n<text class=\"title\" x=\"8\" y=\"22\">{title}</text>\n"
    );
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + index * ROW;
        let (base, length) = (top + 14, bar.length * BARS as f64);
        svg += &format!(
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{}\" x=\"{LEFT}\" y=\"{}\" width=\"{length:.1}\" height=\"14\"/>\
             <text x=\"{:.1}\" y=\"{base}\">{}</text>\n",
            LEFT - 8,
            escaped(&bar.label),
            bar.class,
            top + 3,
            LEFT as f64 + length + 6.0,
            escaped(&bar.value),
        );
    }
    if let Some(at) = line {
        let x = LEFT as f64 + at * BARS as f64;
        svg += &format!(
            "<line class=\"line\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/>\n",
            TOP + bars.len() * ROW
        );
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
