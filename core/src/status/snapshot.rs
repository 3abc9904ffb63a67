//! How a part of a program is, at one moment.

use serde::{Deserialize, Serialize};

use super::{StatusGraph, StatusValue, Unit};

/// How a part is. Begin with [`new`](Self::new) or `default` and add what there is to say; it is
/// shown in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StatusSnapshot {
    /// What kind of part it is.
    pub kind: StatusKind,
    /// What it is doing, if it is one thing at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StatusState>,
    /// Why it can't do its work now; `None`: it can. A process is ready when all its parts are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready: Option<String>,
    /// Single values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<StatusFact>,
    /// What there is several of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<StatusTable>,
    /// What flows through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<StatusGraph>,
    /// The last values of something that the part itself keeps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<StatusSeries>,
}

/// What kind of part it is: a console puts parts of one kind together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatusKind {
    /// A consistent region.
    Region,
    /// A process.
    Process,
    /// An election, or a watch of one.
    Leader,
    /// A client of a Canal server.
    Canal,
    /// An endpoint.
    Endpoint,
    /// The connections of a service.
    Connections,
    /// Something else.
    #[default]
    #[serde(other)]
    Other,
}

/// Whether something is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// Neither good nor bad.
    #[default]
    Neutral,
    /// As it should be.
    Good,
    /// On its way.
    Busy,
    /// Somebody should look at it.
    Warning,
    /// It does not work.
    Bad,
}

impl Level {
    pub(super) fn is_neutral(&self) -> bool {
        *self == Self::Neutral
    }
}

/// What a part is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusState {
    /// In a word or two.
    pub text: String,
    /// How good that is.
    pub level: Level,
}

/// A single value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusFact {
    /// What it is.
    pub label: String,
    /// The value.
    pub value: StatusValue,
    /// Its unit.
    #[serde(default, skip_serializing_if = "Unit::is_none")]
    pub unit: Unit,
    /// Whether its course is drawn.
    #[serde(default, skip_serializing_if = "Plot::is_none")]
    pub plot: Plot,
}

/// What a console draws of a number that it sees again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Plot {
    /// Nothing.
    #[default]
    None,
    /// The number.
    Value,
    /// How much it grows a second.
    Rate,
}

impl Plot {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// What there is several of, one a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusTable {
    /// What the rows are.
    pub caption: String,
    /// Label and unit of each column; the first names the row.
    pub columns: Vec<(String, Unit)>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<StatusValue>>,
}

/// The last values of something, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusSeries {
    /// What they are.
    pub label: String,
    /// Their unit.
    #[serde(default, skip_serializing_if = "Unit::is_none")]
    pub unit: Unit,
    /// The values. A console draws the last 240.
    pub points: Vec<f64>,
}

impl StatusSnapshot {
    /// An empty snapshot of that kind.
    #[must_use]
    pub fn new(kind: StatusKind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// The snapshot with a state.
    #[must_use]
    pub fn with_state(mut self, text: impl Into<String>, level: Level) -> Self {
        let text = text.into();
        self.state = Some(StatusState { text, level });
        self
    }

    /// The snapshot of a part that can't do its work, if there is a reason.
    #[must_use]
    pub fn with_unready(mut self, reason: Option<String>) -> Self {
        self.unready = reason;
        self
    }

    /// The snapshot with one value more.
    #[must_use]
    pub fn with(self, label: impl Into<String>, value: impl Into<StatusValue>) -> Self {
        self.with_unit(label, value, Unit::None)
    }

    /// The snapshot with one value more, in this unit.
    #[must_use]
    pub fn with_unit(
        self,
        label: impl Into<String>,
        value: impl Into<StatusValue>,
        unit: Unit,
    ) -> Self {
        self.with_plot(label, value, unit, Plot::None)
    }

    /// The snapshot with one value more, whose course is drawn.
    #[must_use]
    pub fn with_plot(
        mut self,
        label: impl Into<String>,
        value: impl Into<StatusValue>,
        unit: Unit,
        plot: Plot,
    ) -> Self {
        self.facts.push(StatusFact {
            label: label.into(),
            value: value.into(),
            unit,
            plot,
        });
        self
    }

    /// The snapshot with one table more.
    #[must_use]
    pub fn with_table(mut self, table: StatusTable) -> Self {
        self.tables.push(table);
        self
    }

    /// The snapshot with a graph.
    #[must_use]
    pub fn with_graph(mut self, graph: StatusGraph) -> Self {
        self.graph = Some(graph);
        self
    }

    /// The snapshot with one series more.
    #[must_use]
    pub fn with_series(
        mut self,
        label: impl Into<String>,
        unit: Unit,
        points: impl IntoIterator<Item = f64>,
    ) -> Self {
        self.series.push(StatusSeries {
            label: label.into(),
            unit,
            points: points.into_iter().collect(),
        });
        self
    }

    /// The first single value of that label.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<&StatusValue> {
        self.facts
            .iter()
            .find(|fact| fact.label == label)
            .map(|fact| &fact.value)
    }
}

impl StatusTable {
    /// A table without rows.
    #[must_use]
    pub fn new<L: Into<String>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = (L, Unit)>,
    ) -> Self {
        let columns = columns.into_iter();
        Self {
            caption: caption.into(),
            columns: columns.map(|(label, unit)| (label.into(), unit)).collect(),
            rows: Vec::new(),
        }
    }

    /// The table with one row more.
    #[must_use]
    pub fn with_row(mut self, cells: impl IntoIterator<Item = StatusValue>) -> Self {
        self.rows.push(cells.into_iter().collect());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_a_later_version_is_read_as_far_as_it_is_known() {
        let text = rmp_serde::to_vec_named(&std::collections::BTreeMap::from([
            ("kind", "lighthouse"),
            ("colour", "red"),
        ]));
        let read: StatusSnapshot = rmp_serde::from_slice(&text.unwrap()).unwrap();
        assert_eq!(read, StatusSnapshot::default());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let snapshot = StatusSnapshot::new(StatusKind::Canal)
            .with_state("streaming", Level::Good)
            .with_unready(Some("nobody listens".into()))
            .with_plot("rows", 5_u64, Unit::None, Plot::Rate)
            .with_unit("lag", 0.5, Unit::Seconds)
            .with_table(
                StatusTable::new("batches", [("id", Unit::None), ("size", Unit::Bytes)])
                    .with_row([1_u64.into(), 2_u64.into()]),
            )
            .with_series("rounds", Unit::Seconds, [0.25, 0.5]);
        let bytes = rmp_serde::to_vec_named(&snapshot).unwrap();
        let read: StatusSnapshot = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(read, snapshot);
    }
}
