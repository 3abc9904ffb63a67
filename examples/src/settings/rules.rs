//! The limits of values: the first that is broken is told, with its key and where it was written.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::SettingsError;
use super::layers::Layers;

/// The longest time that a setting may have.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

pub(super) struct Rules<'a> {
    layers: &'a Layers,
    broken: Option<SettingsError>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(layers: &'a Layers) -> Self {
        Self {
            layers,
            broken: None,
        }
    }

    /// Nothing was broken.
    pub(super) fn kept(self) -> Result<(), SettingsError> {
        self.broken.map_or(Ok(()), Err)
    }

    pub(super) fn must(&mut self, key: &str, holds: bool, rule: impl Display) {
        if !holds && self.broken.is_none() {
            self.broken = Some(self.layers.refuse(key, &rule.to_string()));
        }
    }

    pub(super) fn within<T: PartialOrd + Display>(
        &mut self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
    ) {
        let (least, most) = (range.start(), range.end());
        let rule = format!("is {value}, it must be {least} to {most}");
        self.must(key, range.contains(&value), rule);
    }

    /// A time of a millisecond to 30 days.
    pub(super) fn time(&mut self, key: &str, value: Duration) {
        self.times(key, value, Duration::from_millis(1)..=LONGEST);
    }

    pub(super) fn times(&mut self, key: &str, value: Duration, range: RangeInclusive<Duration>) {
        let text = humantime::format_duration;
        let rule = format!(
            "is {}, it must be {} to {}",
            text(value),
            text(*range.start()),
            text(*range.end())
        );
        self.must(key, range.contains(&value), rule);
    }

    pub(super) fn text(&mut self, key: &str, value: &str, most: usize) {
        let rule = format!("has {} bytes, it must have 1 to {most}", value.len());
        self.must(key, (1..=most).contains(&value.len()), rule);
    }
}
