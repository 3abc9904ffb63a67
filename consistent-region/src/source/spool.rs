//! Rows of a source in the region's store, so that the source may be told early that it can forget
//! them.
//!
//! The spool is a chain of segments, each an object named by the index of its first row. A segment is
//! created only if there is none of its name: when a worker that was taken for dead writes on, it and
//! its successor come to the same name, and the second of them has to stop. So there is one chain,
//! whoever wrote its parts, and what is in it may be acknowledged.
//!
//! All calls block.

use std::io::Read;
use std::sync::Arc;

use crate::operator::InstanceContext;
use crate::store::{CheckpointStore, StoreError, plain_name};

/// The longest segment that is read, in bytes.
const LONGEST: u64 = 1 << 30;
/// Bytes of the two indices at a segment's begin, and of the checksum at its end.
const INDEX: usize = 8;
const CHECKSUM: usize = 4;

/// The spool of one instance.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    store: Arc<dyn CheckpointStore>,
    prefix: String,
}

/// Rows that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Index of the first row.
    pub(crate) first: u64,
    /// Index behind the last row; above `first`.
    pub(crate) end: u64,
    /// The rows, in the source's own words.
    pub(crate) content: Vec<u8>,
}

impl Segment {
    /// Two indices, the content, and a CRC-32 (IEEE) of all that; numbers in big endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * INDEX + self.content.len() + CHECKSUM);
        bytes.extend_from_slice(&self.first.to_be_bytes());
        bytes.extend_from_slice(&self.end.to_be_bytes());
        bytes.extend_from_slice(&self.content);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let (rest, checksum) = bytes
            .split_last_chunk::<CHECKSUM>()
            .ok_or("it is shorter than its checksum")?;
        if crc32fast::hash(rest).to_be_bytes() != *checksum {
            return Err("the checksum differs");
        }
        let short = "it is shorter than its indices";
        let (first, rest) = rest.split_first_chunk::<INDEX>().ok_or(short)?;
        let (end, content) = rest.split_first_chunk::<INDEX>().ok_or(short)?;
        Ok(Self {
            first: u64::from_be_bytes(*first),
            end: u64::from_be_bytes(*end),
            content: content.to_vec(),
        })
    }
}

/// Why a segment can't be appended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    /// Somebody else has written on from here: what was read before is out of date.
    #[error("another process has spooled row {first} meanwhile")]
    Overtaken { first: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Spool {
    pub(crate) fn of(context: &InstanceContext) -> Self {
        let instance = context.instance();
        Self {
            store: Arc::clone(context.store()),
            // No name of a checkpoint begins with a letter: the region's own tidying leaves these alone.
            prefix: format!(
                "spool-{}.{}-",
                plain_name(&instance.operator),
                instance.index
            ),
        }
    }

    fn name(&self, first: u64) -> String {
        format!("{}{first}", self.prefix)
    }

    /// Makes a segment durable.
    pub(crate) fn append(&self, segment: &Segment) -> Result<(), AppendError> {
        let (name, bytes) = (self.name(segment.first), segment.to_bytes());
        let written = self
            .store
            .write_object(&name, &mut |to| to.write_all(&bytes));
        match written {
            Ok(_) => Ok(()),
            Err(StoreError::Exists { .. }) => Err(AppendError::Overtaken {
                first: segment.first,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the segments begin, in ascending order.
    pub(crate) fn begins(&self) -> Result<Vec<u64>, StoreError> {
        let names = self.store.list_objects()?;
        let mut begins: Vec<u64> = names
            .iter()
            .filter_map(|name| name.strip_prefix(&self.prefix)?.parse().ok())
            .collect();
        begins.sort_unstable();
        Ok(begins)
    }

    /// Reads the segment that begins with row `first`; `None` when there is none.
    pub(crate) fn read(&self, first: u64) -> Result<Option<Segment>, StoreError> {
        let name = self.name(first);
        let damaged = |what: String| StoreError::Damaged {
            location: self.store.location(),
            name: name.clone(),
            what,
        };
        let reader = match self.store.read_object(&name) {
            Ok(reader) => reader,
            Err(StoreError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        let read = reader.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(|source| StoreError::Io {
            location: self.store.location(),
            name: name.clone(),
            source,
        })?;
        let segment = Segment::from_bytes(&bytes).map_err(|what| damaged(what.to_owned()))?;
        if segment.first != first || segment.end <= first {
            let Segment { first, end, .. } = segment;
            return Err(damaged(format!("it holds the rows {first} to {end}")));
        }
        Ok(Some(segment))
    }

    /// Removes the segments that lie below `index` as a whole.
    pub(crate) fn remove_below(&self, index: u64) -> Result<(), StoreError> {
        let begins = self.begins()?;
        // A segment ends at the latest where the next one begins.
        for pair in begins.windows(2) {
            if let [first, next] = pair
                && *next <= index
            {
                self.store.remove_object(&self.name(*first))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(first: u64, end: u64) -> Segment {
        Segment {
            first,
            end,
            content: format!("{first} to {end}").into_bytes(),
        }
    }

    #[test]
    fn segments_come_back_in_order_and_are_removed_as_a_whole() {
        let spool = Spool::of(&InstanceContext::alone("source"));
        for (first, end) in [(0, 9), (9, 10), (10, 120)] {
            spool.append(&segment(first, end)).unwrap();
        }
        assert_eq!(spool.begins().unwrap(), [0, 9, 10]);
        assert_eq!(spool.read(9).unwrap(), Some(segment(9, 10)));
        assert_eq!(spool.read(11).unwrap(), None);
        spool.remove_below(9).unwrap();
        assert_eq!(spool.begins().unwrap(), [9, 10]);
        spool.remove_below(9_999).unwrap();
        assert_eq!(
            spool.begins().unwrap(),
            [10],
            "the last one's end is not known"
        );
    }

    #[test]
    fn of_two_writers_at_one_row_the_second_has_to_stop() {
        let spool = Spool::of(&InstanceContext::alone("source"));
        spool.append(&segment(0, 9)).unwrap();
        let error = spool.append(&segment(0, 5)).unwrap_err();
        assert!(
            matches!(error, AppendError::Overtaken { first: 0 }),
            "{error}"
        );
        assert_eq!(spool.read(0).unwrap(), Some(segment(0, 9)));
    }

    #[test]
    fn a_damaged_segment_is_no_end_of_the_spool() {
        let context = InstanceContext::alone("source");
        let spool = Spool::of(&context);
        let name = spool.name(0);
        for bytes in [&b""[..], b"abc", b"something else and 4 bytes"] {
            context.store().remove_object(&name).unwrap();
            let written = context
                .store()
                .write_object(&name, &mut |to| to.write_all(bytes));
            written.unwrap();
            let error = spool.read(0).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        }
    }
}
