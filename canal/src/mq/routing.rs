//! To which topic and partition a row goes: Canal's own rules, from its own configuration texts.

mod hash;
mod pattern;
#[cfg(test)]
mod tests;

use pattern::Pattern;

use super::error::MqError;
use crate::parsed::Parsed;
use crate::protocol::generated::entry as wire;

/// Which topic and partition rows go to. The texts are those of Canal's `instance.properties`,
/// so that a server's settings can be taken over as they are:
///
/// | Canal's setting | here |
/// |---|---|
/// | `canal.mq.topic` | [`to`](Self::to) |
/// | `canal.mq.dynamicTopic` | [`with_dynamic_topic`](Self::with_dynamic_topic) |
/// | `canal.mq.partition` | [`with_partition`](Self::with_partition) |
/// | `canal.mq.partitionHash` | [`with_partition_hash`](Self::with_partition_hash) |
/// | `canal.mq.partitionsNum` | [`with_partitions`](Self::with_partitions) |
/// | `canal.mq.dynamicTopicPartitionNum` | [`with_dynamic_topic_partitions`](Self::with_dynamic_topic_partitions) |
/// | `canal.mq.database.hash = false` | [`without_database_hash`](Self::without_database_hash) |
///
/// Rows with equal hashed columns go to one partition, in the order in which the database wrote
/// them. An update that changes such a column goes where its new value belongs, so its order
/// against the row's earlier changes is not kept: hash what never changes.
///
/// ```
/// # use lockkeeper_canal::mq::MqRouting;
/// let routing = MqRouting::to("changes")
///     .with_dynamic_topic(r"orders:shop\.orders,shop")?
///     .with_partition_hash(r"shop\..*:$pk$")?;
/// # Ok::<_, lockkeeper_canal::mq::MqError>(())
/// ```
#[derive(Debug, Clone)]
pub struct MqRouting {
    topic: String,
    dynamic: Vec<TopicRule>,
    partition: u32,
    hashes: Vec<(Pattern, HashBy)>,
    database_hash: bool,
    partitions: Option<u32>,
    dynamic_partitions: Vec<(Pattern, u32)>,
}

/// `topic:pattern`, or a pattern alone for a topic of the table's or schema's own name.
#[derive(Debug, Clone)]
struct TopicRule {
    topic: Option<String>,
    pattern: Pattern,
}

/// What is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HashBy {
    Table,
    PrimaryKey,
    Columns(Vec<String>),
}

impl MqRouting {
    /// Everything to partition 0 of one topic, until other rules are added.
    pub fn to(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            dynamic: Vec::new(),
            partition: 0,
            hashes: Vec::new(),
            database_hash: true,
            partitions: None,
            dynamic_partitions: Vec::new(),
        }
    }

    /// The topic of rows that no rule sends elsewhere.
    pub(crate) fn default_topic(&self) -> &str {
        &self.topic
    }

    /// Rules with commas between them, the first that fits `schema.table`, then the first that
    /// fits `schema`: `topic:name`, `topic:expression`, or a name or expression alone, which makes
    /// a topic of each table's (or schema's) own name in small letters. Dots in a topic's name
    /// become `_`, in the default topic's as well. An expression with `\.` in it is for
    /// tables, one without for schemas. What fits none goes to the default topic.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] for an expression that is none.
    pub fn with_dynamic_topic(mut self, rules: &str) -> Result<Self, MqError> {
        for rule in items(rules) {
            let (topic, pattern) = match rule.split_once(':') {
                Some((topic, pattern)) => (Some(topic.trim().to_owned()), pattern.trim()),
                None => (None, rule),
            };
            if pattern.is_empty() || topic.as_deref() == Some("") {
                return Err(MqError::InvalidArgument(format!(
                    "dynamic topic rule `{rule}`: it must be `topic:schema.table` or `schema.table`"
                )));
            }
            let pattern = Pattern::parse(pattern)?;
            self.dynamic.push(TopicRule { topic, pattern });
        }
        Ok(self)
    }

    /// The partition of what no hash rule fits, when there are no hash rules. Default 0.
    #[must_use]
    pub fn with_partition(self, partition: u32) -> Self {
        Self { partition, ..self }
    }

    /// Rules with commas between them, the first that fits `schema.table` counts:
    /// `schema.table:id^name` hashes these columns, `:$pk$` the primary key, and a name or
    /// expression alone the table's name. Rows that no rule fits, statements and schema changes
    /// go to partition 0. Columns' names are taken without regard to case, as Canal does for
    /// protobuf messages; for flat ones it does not, and hashes nothing under another case.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] for an expression that is none, or a rule without columns.
    pub fn with_partition_hash(mut self, rules: &str) -> Result<Self, MqError> {
        for rule in items(rules) {
            let (pattern, hash_by) = match rule.rsplit_once(':') {
                None => (rule, HashBy::Table),
                Some((pattern, columns)) if columns.eq_ignore_ascii_case("$pk$") => {
                    (pattern, HashBy::PrimaryKey)
                }
                Some((pattern, columns)) => {
                    let names = columns
                        .split('^')
                        .map(str::trim)
                        .filter(|name| !name.is_empty());
                    (pattern, HashBy::Columns(names.map(str::to_owned).collect()))
                }
            };
            if pattern.is_empty() || hash_by == HashBy::Columns(Vec::new()) {
                return Err(MqError::InvalidArgument(format!(
                    "partition hash rule `{rule}`: it must be `schema.table:column^column`, \
                     `schema.table:$pk$` or `schema.table`"
                )));
            }
            self.hashes.push((Pattern::parse(pattern)?, hash_by));
        }
        Ok(self)
    }

    /// Over how many partitions rows are hashed. Default: as many as the topic has.
    #[must_use]
    pub fn with_partitions(self, partitions: u32) -> Self {
        Self {
            partitions: Some(partitions),
            ..self
        }
    }

    /// The same for some topics: `topic:count` or `expression:count`, with commas.
    ///
    /// # Errors
    /// [`MqError::InvalidArgument`] for a rule without a count above 0.
    pub fn with_dynamic_topic_partitions(mut self, rules: &str) -> Result<Self, MqError> {
        for rule in items(rules) {
            let parts = rule.rsplit_once(':');
            let parts = parts.and_then(|(topic, count)| Some((topic, count.trim().parse().ok()?)));
            let Some((topic, count @ 1..)) = parts else {
                return Err(MqError::InvalidArgument(format!(
                    "partition count rule `{rule}`: it must be `topic:count`, with a count of 1 or more"
                )));
            };
            self.dynamic_partitions
                .push((Pattern::parse(topic.trim())?, count));
        }
        Ok(self)
    }

    /// Leaves the schema's name out of the hash, as Canal before 1.1.6 did.
    #[must_use]
    pub fn without_database_hash(self) -> Self {
        Self {
            database_hash: false,
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), MqError> {
        if self.topic.is_empty() {
            return Err(MqError::InvalidArgument("the topic has no name".to_owned()));
        }
        if self.partitions == Some(0) {
            return Err(MqError::InvalidArgument(
                "the number of partitions must be at least 1".to_owned(),
            ));
        }
        Ok(())
    }

    /// The topic of a table's rows and statements.
    pub(super) fn topic_of(&self, schema: &str, table: &str) -> String {
        if self.dynamic.is_empty() {
            return self.topic.clone();
        }
        let found = (!schema.is_empty() && !table.is_empty()).then(|| {
            self.dynamic_topic(&format!("{schema}.{table}"), true)
                .or_else(|| self.dynamic_topic(schema, false))
        });
        found
            .flatten()
            .unwrap_or_else(|| self.topic.clone())
            .replace('.', "_")
    }

    fn dynamic_topic(&self, name: &str, is_table: bool) -> Option<String> {
        let rule = self
            .dynamic
            .iter()
            .find(|rule| rule.pattern.fits_topic(name, is_table))?;
        Some(rule.topic.clone().unwrap_or_else(|| name.to_lowercase()))
    }

    /// Over how many partitions the rows of a topic are spread, which has `existing` ones.
    fn spread(&self, topic: &str, existing: u32) -> u32 {
        let rule = self
            .dynamic_partitions
            .iter()
            .find(|(pattern, _)| pattern.fits(topic));
        rule.map(|(_, count)| *count)
            .or(self.partitions)
            .unwrap_or(existing)
            .max(1)
    }

    /// The rows of an entry by partition, each with the rows' numbers in order; what has no rows
    /// is in one partition with none.
    pub(super) fn split(
        &self,
        parsed: &Parsed,
        topic: &str,
        existing: u32,
    ) -> Result<Vec<(u32, Vec<usize>)>, MqError> {
        let split = self.partitions_of(parsed, self.spread(topic, existing));
        match split.iter().find(|(partition, _)| *partition >= existing) {
            Some((partition, _)) => Err(MqError::UnknownPartition {
                topic: topic.to_owned(),
                partition: *partition,
                partitions: existing,
            }),
            None => Ok(split),
        }
    }

    fn partitions_of(&self, parsed: &Parsed, spread: u32) -> Vec<(u32, Vec<usize>)> {
        let rows = parsed.rows();
        let all = || (0..rows.len()).collect::<Vec<_>>();
        if self.hashes.is_empty() {
            return vec![(self.partition, all())];
        }
        let (schema, table) = (&parsed.header.schema_name, &parsed.header.table_name);
        let name = format!("{schema}.{table}");
        let rule = self.hashes.iter().find(|(pattern, _)| pattern.fits(&name));
        let hash_by = match rule {
            Some((_, hash_by)) if !rows.is_empty() => hash_by,
            _ => return vec![(0, all())],
        };
        if *hash_by == HashBy::Table {
            return vec![(hash::partition(hash::of(table), spread), all())];
        }
        let start = match self.database_hash {
            true => hash::of(schema),
            false => 0,
        };
        let mut split: Vec<(u32, Vec<usize>)> = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let columns = parsed
                .image(row)
                .iter()
                .filter(|column| hash_by.takes(column));
            let hash = columns.fold(start, |hash, column| hash ^ hash::of_column(column));
            let partition = hash::partition(hash, spread);
            match split.iter_mut().find(|(at, _)| *at == partition) {
                Some((_, rows)) => rows.push(index),
                None => split.push((partition, vec![index])),
            }
        }
        split
    }
}

impl HashBy {
    fn takes(&self, column: &wire::Column) -> bool {
        match self {
            Self::Table => false,
            Self::PrimaryKey => column.is_key,
            Self::Columns(names) => names
                .iter()
                .any(|name| name.as_bytes().eq_ignore_ascii_case(&column.name)),
        }
    }
}

/// The parts of one of Canal's lists: commas or semicolons between them.
fn items(rules: &str) -> impl Iterator<Item = &str> {
    rules
        .split([',', ';'])
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
