//! What was saved, as it is read back: object by object, each a stream that is verified.

use std::any::Any;
use std::fmt;
use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;

use crate::manifest::ObjectRecord;
use crate::operator::OperatorError;
use crate::store::{CheckpointStore, Encoding, StoreError, VerifyingReader, read_verified};

/// What happens to an operator's state when it is restored with another number of instances (S28 of
/// the semantics list, issue 7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rescale {
    /// The region fails and says so, before any operator is touched: another width would lose or
    /// double something. Operators that wrote no state have nothing to lose.
    #[default]
    Refused,
    /// Each instance reads what those instances saved that owned some of its key groups
    /// ([`InstanceContext::key_groups`](crate::operator::InstanceContext::key_groups)), and takes
    /// what is its own. Needs an [`Operator::loader`](crate::operator::Operator::loader).
    ByKey,
    /// Each instance reads what all instances saved, and takes what it likes: partitions of a
    /// source, for instance. Needs a loader as well.
    Everything,
}

/// Reads saved state on a blocking pool, into what the operator then takes with
/// [`Operator::loaded`](crate::operator::Operator::loaded).
pub struct Loader(Box<Load>);

type Load = dyn FnOnce(&mut Saved<'_>) -> Result<Loaded, OperatorError> + Send;

/// What a [`Loader`] has made of saved state: a value of the operator's own choice.
pub struct Loaded(Box<dyn Any + Send>);

impl Loader {
    /// A loader that makes a `T` of what was saved.
    pub fn new<T: Send + 'static>(
        load: impl FnOnce(&mut Saved<'_>) -> Result<T, OperatorError> + Send + 'static,
    ) -> Self {
        Self(Box::new(move |saved| {
            load(saved).map(|value| Loaded(Box::new(value)))
        }))
    }

    /// Reads what was saved.
    ///
    /// # Errors
    /// Those of the store, and what the loader itself finds wrong.
    pub fn load(self, saved: &mut Saved<'_>) -> Result<Loaded, OperatorError> {
        (self.0)(saved)
    }
}

impl Loaded {
    /// The value, if it is of type `T`.
    ///
    /// # Errors
    /// When the operator's loader made something else: a mistake in the operator.
    pub fn take<T: 'static>(self) -> Result<T, OperatorError> {
        let value = self.0.downcast::<T>().map_err(|_| {
            let expected = std::any::type_name::<T>();
            OperatorError::Permanent(format!("the loader did not make a {expected}"))
        })?;
        Ok(*value)
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loader")
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loaded")
    }
}

/// One object that is to be read, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedObject {
    pub(crate) record: ObjectRecord,
}

/// The objects of a cut that an instance is to read, in their order: for each instance that saved
/// something the whole state first, then what changed since.
pub struct Saved<'a> {
    store: &'a dyn CheckpointStore,
    parts: std::collections::VecDeque<ObjectRecord>,
    /// Every object has been read to its end, or is being read.
    left: usize,
}

impl<'a> Saved<'a> {
    pub(crate) fn new(store: &'a dyn CheckpointStore, objects: &[SavedObject]) -> Self {
        let parts = objects.iter().flat_map(|object| object.record.parts());
        let parts: std::collections::VecDeque<ObjectRecord> = parts.cloned().collect();
        Self {
            store,
            left: parts.len(),
            parts,
        }
    }

    /// The next object; `None` after the last.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn next_part(&mut self) -> Result<Option<SavedPart>, OperatorError> {
        let Some(record) = self.parts.pop_front() else {
            return Ok(None);
        };
        self.left = self.parts.len();
        let stored = read_verified(self.store, &record)?;
        let reader = match record.encoding {
            Encoding::Plain => Reader::Plain(stored),
            Encoding::Lz4Frame => Reader::Lz4(Box::new(FrameDecoder::new(stored))),
        };
        Ok(Some(SavedPart {
            instance: record.instance.index,
            version: record.state_version,
            reader,
        }))
    }

    /// How many objects were not read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }
}

impl fmt::Debug for Saved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("parts", &self.parts).finish()
    }
}

/// One object of saved state: a stream that fails where it is not as it was written. What was read
/// may be believed only after [`finish`](Self::finish).
pub struct SavedPart {
    instance: u16,
    version: u32,
    reader: Reader,
}

enum Reader {
    Plain(Stored),
    Lz4(Box<FrameDecoder<Stored>>),
}

type Stored = VerifyingReader<Box<dyn Read + Send>>;

impl SavedPart {
    /// The index of the instance that saved it.
    #[must_use]
    pub fn instance(&self) -> u16 {
        self.instance
    }

    /// The `STATE_VERSION` of the operator that saved it.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Reads what is left and says whether the object was as written.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or what the medium fails with.
    pub fn finish(self) -> Result<(), StoreError> {
        match self.reader {
            Reader::Plain(stored) => stored.finish(),
            Reader::Lz4(decoder) => decoder.into_inner().finish(),
        }
    }
}

impl Read for SavedPart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.reader {
            Reader::Plain(stored) => stored.read(buffer),
            Reader::Lz4(decoder) => decoder.read(buffer),
        }
    }
}

impl fmt::Debug for SavedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedPart")
            .field("instance", &self.instance)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
