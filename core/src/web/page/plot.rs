//! A line of the last values, as an inline picture.

use std::fmt::Write;

use maud::{Markup, html};

use super::value::{clipped, number};
use crate::{status::StatusSeries, web::history::POINTS};

/// The picture's own measures; it is scaled to its place.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 48.0;
const MARGIN: f64 = 3.0;

/// The last values of something, with the last, smallest and greatest of them in words.
pub(super) fn plot(series: &StatusSeries) -> Markup {
    let skipped = series.points.len().saturating_sub(POINTS);
    let points: Vec<f64> = series.points[skipped..]
        .iter()
        .copied()
        .filter(|point| point.is_finite())
        .collect();
    let (Some(last), Some(range)) = (points.last(), Range::of(&points)) else {
        return html! {
            figure.plot { figcaption { (clipped(&series.label)) ": no values yet" } }
        };
    };
    let words = format!(
        "now {}, from {} to {}",
        number(*last, series.unit),
        number(range.least, series.unit),
        number(range.most, series.unit),
    );
    html! {
        figure.plot {
            figcaption { (clipped(&series.label)) ": " span.words { (words) } }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" aria-hidden="true"
                focusable="false" {
                path.line d=(line(&points, &range)) vector-effect="non-scaling-stroke" {}
            }
        }
    }
}

struct Range {
    least: f64,
    most: f64,
}

impl Range {
    fn of(points: &[f64]) -> Option<Self> {
        let least = points.iter().copied().reduce(f64::min)?;
        let most = points.iter().copied().reduce(f64::max)?;
        Some(Self { least, most })
    }

    /// From the bottom, which is zero where nothing is below it: a small change of a great number
    /// must not look great.
    fn height(&self, point: f64) -> f64 {
        let bottom = self.least.min(0.0);
        let size = self.most.max(0.0) - bottom;
        if size > 0.0 {
            (point - bottom) / size
        } else {
            0.0
        }
    }
}

/// The newest value stands at the right, each older one a step to its left.
#[expect(clippy::cast_precision_loss, reason = "at most 240 points")]
fn line(points: &[f64], range: &Range) -> String {
    let step = WIDTH / (POINTS - 1) as f64;
    let mut path = String::new();
    for (place, point) in points.iter().enumerate() {
        let x = WIDTH - (points.len() - 1 - place) as f64 * step;
        let y = HEIGHT - MARGIN - range.height(*point) * (HEIGHT - 2.0 * MARGIN);
        let letter = if place == 0 { 'M' } else { 'L' };
        // Writing to a string cannot fail.
        let _ = write!(path, "{letter}{x:.1} {y:.1}");
    }
    if points.len() == 1 {
        path.push_str("h-1");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Unit;

    fn series(points: Vec<f64>) -> StatusSeries {
        StatusSeries {
            label: "rounds".into(),
            unit: Unit::Seconds,
            points,
        }
    }

    #[test]
    fn a_plot_says_in_words_what_it_shows_and_stands_on_zero() {
        let text = plot(&series(vec![0.5, 1.0])).into_string();
        assert!(text.contains("now 1.0 s, from 500 ms to 1.0 s"), "{text}");
        assert!(text.contains("M298.7 24.0L300.0 3.0"), "{text}");
    }

    #[test]
    fn a_plot_of_nothing_of_one_value_and_of_no_numbers_is_drawn() {
        let none = plot(&series(vec![f64::NAN, f64::INFINITY])).into_string();
        assert!(none.contains("no values yet") && !none.contains("<svg"));
        assert!(
            plot(&series(vec![0.0]))
                .into_string()
                .contains("M300.0 45.0h-1")
        );
        let many = plot(&series(vec![1.0; 10 * POINTS])).into_string();
        assert_eq!(many.matches('L').count(), POINTS - 1);
        assert!(many.contains("M0.0 "), "{many}");
    }
}
