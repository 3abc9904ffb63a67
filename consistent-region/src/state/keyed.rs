//! A map by key, as the state of a keyed operator.

use std::fmt;
use std::hash::Hash;
use std::io::{self, BufReader, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::format::{EntryWriter, SavedEntry, read_entries};
use super::saved::{Loaded, Loader};
use super::shard::{Frozen, Shard};
use super::table::Generation;
use crate::graph::{KEY_GROUPS, key_group, stable_hash};
use crate::operator::{Cut, InstanceContext, OperatorError, Prepared, WriteState};

/// Entries that are waited for at once: about as many as a core's caches can ask for.
const AHEAD: usize = 32;

/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;

/// A map by key for an operator's state, by key group.
///
/// - A cut is taken at once, whatever the size: [`prepare`](Self::prepare) freezes the map, and the
///   pause of tuples does not grow with it. While it is written, only entries that are touched are
///   copied, each once, and the copies are merged as the writer goes on: in memory at most what
///   changes while a cut is being written is there twice.
/// - With [`incremental`](Self::incremental) cuts hold what changed since the cut before; the region
///   writes a whole state again when the changes together are as long as one (S29 of the semantics
///   list, issue 7). It keeps removed keys until a cut has said so.
/// - In memory an entry takes what key and value take, and some eight bytes more.
/// - With more keys than the processor's caches hold, give it whole batches:
///   [`update_each`](Self::update_each).
/// - It is restored at any width: each instance takes the key groups that it owns (S28).
///   The key must be the one that the graph shares out by
///   ([`RegionBuilder::keyed`](crate::graph::RegionBuilder::keyed)).
///
/// Not for values that are changed in place through other handles, and not for keys whose
/// [`Hash`] differs between programs.
///
/// An operator hands its own methods on to it:
///
/// ```
/// # use actix::{Actor, Context};
/// # use lockkeeper_consistent_region::operator::*;
/// # use lockkeeper_consistent_region::state::*;
/// struct Counts { counts: KeyedState<u64, u64>, context: InstanceContext }
/// # impl Actor for Counts { type Context = Context<Self>; }
/// impl Operator for Counts {
///     type Input = u64;
///     type Output = ();
///     const STATE_TYPE: &'static str = "counts";
///     const RESCALE: Rescale = Rescale::ByKey;
///
///     fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
///         for number in batch {
///             *self.counts.entry(number) += 1;
///         }
///         Ok(())
///     }
///     fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
///         Ok(self.counts.prepare(cut))
///     }
///     fn changes(&mut self, cut: Cut) -> Result<Option<WriteState>, OperatorError> {
///         Ok(self.counts.changes(cut))
///     }
///     fn loader(&self) -> Option<Loader> {
///         Some(self.counts.loader(&self.context))
///     }
///     fn loaded(&mut self, state: Loaded) -> Result<(), OperatorError> {
///         self.counts.take(state)
///     }
///     fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
///         self.counts.clear();
///         Ok(())
///     }
/// }
/// ```
pub struct KeyedState<K, V> {
    groups: Vec<Shard<K, V>>,
    len: usize,
    incremental: bool,
    /// Changes from now on are first written by the cut of this generation.
    generation: Generation,
    /// Which cut the changes may be relative to, and its generation.
    baseline: Baseline,
    /// What the next call of [`changes`](Self::changes) may leave out: the cut that is being
    /// prepared, and the generation that is saved already.
    saved: Option<(u64, Generation)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Baseline {
    /// Nothing is saved.
    None,
    /// The state was read back from a cut: whatever the region's newest complete one is.
    Restored,
    Prepared {
        seq: u64,
        generation: Generation,
    },
}

/// Where a key is looked for first.
#[derive(Debug, Clone, Copy, Default)]
struct Likely {
    hash: u64,
    place: Option<usize>,
}

/// What a loader of this state makes.
struct Groups<K, V> {
    groups: Vec<Shard<K, V>>,
    len: usize,
}

impl<K, V> Default for KeyedState<K, V> {
    fn default() -> Self {
        Self {
            groups: groups(),
            len: 0,
            incremental: false,
            generation: 1,
            baseline: Baseline::None,
            saved: None,
        }
    }
}

fn groups<K, V>() -> Vec<Shard<K, V>> {
    (0..KEY_GROUPS).map(|_| Shard::default()).collect()
}

fn group_of(hash: u64) -> usize {
    usize::from(key_group(hash))
}

impl<K, V> KeyedState<K, V>
where
    K: Hash + Eq + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    V: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// An empty map, whose cuts are written whole.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets cuts hold what changed only. For state of which little changes from cut to cut.
    #[must_use]
    pub fn incremental(mut self) -> Self {
        self.incremental = true;
        self
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let hash = stable_hash(key);
        self.groups[group_of(hash)].get(hash, key)
    }

    /// The value of a key, to be changed; the default if there is none yet.
    pub fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.entry_with(key, V::default)
    }

    /// The value of a key, to be changed; what `make` gives if there is none yet.
    pub fn entry_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let hash = stable_hash(&key);
        let group = &mut self.groups[group_of(hash)];
        let (value, made) = group.get_or_insert_with(hash, &key, self.generation, make);
        self.len += usize::from(made);
        value
    }

    /// Gives each item of a batch, in order, with the value of its key to `update`; what `make` gives is the
    /// value of a key that has none yet.
    ///
    /// For batches of an operator's input: with more keys than the processor's caches hold, a look-up is
    /// mostly the wait for memory, and here the waits of many overlap. For a few keys
    /// [`entry`](Self::entry) does as well.
    ///
    /// ```
    /// # use lockkeeper_consistent_region::state::KeyedState;
    /// let mut counts = KeyedState::<String, u64>::new();
    /// let words = ["sea", "sky", "sea"].map(str::to_owned).to_vec();
    /// let mut said = Vec::new();
    /// counts.update_each(words, |word| word, |_| 0, |word, count| {
    ///     *count += 1;
    ///     said.push((word, *count));
    /// });
    /// assert_eq!(said[2], ("sea".to_owned(), 2));
    /// ```
    pub fn update_each<T>(
        &mut self,
        batch: Vec<T>,
        key: impl Fn(&T) -> &K,
        make: impl Fn(&T) -> V,
        mut update: impl FnMut(T, &mut V),
    ) {
        let mut batch = batch.into_iter();
        let mut looked_up = [Likely::default(); AHEAD];
        loop {
            let ahead = batch.as_slice();
            let count = ahead.len().min(AHEAD);
            if count == 0 {
                return;
            }
            self.look_ahead(ahead.iter().map(&key), &mut looked_up);
            for (item, likely) in batch.by_ref().take(count).zip(looked_up) {
                let Likely { hash, place } = likely;
                let group = &mut self.groups[group_of(hash)];
                if let Some(value) =
                    place.and_then(|place| group.get_at(place, key(&item), self.generation))
                {
                    update(item, value);
                    continue;
                }
                let group = &mut self.groups[group_of(hash)];
                let (value, made) =
                    group.get_or_insert_with(hash, key(&item), self.generation, || make(&item));
                self.len += usize::from(made);
                update(item, value);
            }
        }
    }

    /// Where the entries of the next keys are likely to be; brings them into the processor's caches.
    fn look_ahead<'a>(&self, keys: impl Iterator<Item = &'a K>, looked_up: &mut [Likely; AHEAD])
    where
        K: 'a,
    {
        for (key, likely) in keys.zip(&mut *looked_up) {
            let hash = stable_hash(key);
            let place = self.groups[group_of(hash)].likely_place(hash);
            *likely = Likely { hash, place };
        }
        // Nothing lies between these reads, so that the processor begins with all of them.
        let mut read = 0;
        for Likely { hash, place } in looked_up {
            if let Some(place) = *place {
                read ^= self.groups[group_of(*hash)].changed_at(place);
            }
        }
        // Nobody needs them, and they would not be done.
        std::hint::black_box(read);
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: K, value: V) {
        // The value is made twice only if the key is new.
        let new = value.clone();
        *self.entry_with(key, || new) = value;
    }

    /// Removes a key; its value, if there was one.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = stable_hash(key);
        let group = &mut self.groups[group_of(hash)];
        let removed = group.remove(hash, key, self.generation, self.incremental);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Every key and its value, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.groups.iter().flat_map(Shard::iter)
    }

    /// Removes everything: the state before the first tuple.
    pub fn clear(&mut self) {
        *self = Self {
            incremental: self.incremental,
            ..Self::default()
        };
    }

    /// How many entries are in memory twice, because a cut is being written.
    #[must_use]
    pub fn copied(&self) -> usize {
        self.groups.iter().map(Shard::copied).sum()
    }

    /// The state of a cut: for [`Operator::prepare`](crate::operator::Operator::prepare).
    pub fn prepare(&mut self, cut: Cut) -> Prepared {
        let since = match self.baseline {
            Baseline::Prepared { seq, generation } if seq == cut.completed => Some(generation),
            Baseline::Restored => Some(0),
            _ => None,
        };
        // Without increments nobody has to be told of a removed key.
        let said = if self.incremental {
            since
        } else {
            Some(Generation::MAX)
        };
        if let Some(said) = said {
            for group in &mut self.groups {
                group.forget_removed(said);
            }
        }
        self.saved = since.map(|since| (cut.seq, since));
        self.begin_generation(cut.seq);
        let frozen = self.freeze();
        Prepared {
            state: Some(Box::new(move |to| write_whole(frozen, to))),
            stage: None,
        }
    }

    /// What changes from now on is not in cut `seq`.
    fn begin_generation(&mut self, seq: u64) {
        let generation = self.generation;
        match generation.checked_add(1) {
            Some(next) => {
                self.generation = next;
                self.baseline = Baseline::Prepared { seq, generation };
            }
            // Counted anew from a cut that is written whole. What changed before may be written once too
            // often, and never too seldom.
            None => {
                self.generation = 1;
                self.baseline = Baseline::None;
            }
        }
    }

    /// What changed since the cut before: for
    /// [`Operator::changes`](crate::operator::Operator::changes), right after
    /// [`prepare`](Self::prepare). `None` when only the whole state tells.
    pub fn changes(&mut self, cut: Cut) -> Option<WriteState> {
        let (_, since) = self
            .saved
            .take_if(|(seq, _)| self.incremental && *seq == cut.seq)?;
        let frozen = self.freeze();
        Some(Box::new(move |to| write_changes(frozen, since, to)))
    }

    fn freeze(&mut self) -> Vec<Frozen<K, V>> {
        self.groups.iter_mut().map(Shard::freeze).collect()
    }

    /// Reads the state of the key groups that the instance owns: for
    /// [`Operator::loader`](crate::operator::Operator::loader).
    #[must_use]
    pub fn loader(&self, context: &InstanceContext) -> Loader {
        self.upgrading_loader(context, |_, entry| decoded(entry))
    }

    /// The same for state that an older program may have written: `upgrade` is given each entry
    /// with the `STATE_VERSION` of its writer, and makes key and value of it.
    #[must_use]
    pub fn upgrading_loader(
        &self,
        context: &InstanceContext,
        upgrade: impl Fn(u32, &SavedEntry) -> io::Result<(K, Option<V>)> + Send + 'static,
    ) -> Loader {
        let owned = context.key_groups();
        Loader::new(move |saved| {
            let mut loaded = Groups {
                groups: groups::<K, V>(),
                len: 0,
            };
            while let Some(mut part) = saved.next_part()? {
                let version = part.version();
                let mut buffered = BufReader::with_capacity(BUFFER, &mut part);
                read_entries(&mut buffered, |entry| {
                    if owned.contains(&entry.group) {
                        let (key, value) = upgrade(version, &entry)?;
                        loaded.groups[usize::from(entry.group)].insert_saved(key, value);
                    }
                    Ok(())
                })?;
                part.finish()?;
            }
            loaded.len = loaded.groups.iter().map(|group| group.iter().count()).sum();
            Ok(loaded)
        })
    }

    /// Takes what a loader of this state has read: for
    /// [`Operator::loaded`](crate::operator::Operator::loaded).
    ///
    /// # Errors
    /// When the loader was that of another state.
    pub fn take(&mut self, loaded: Loaded) -> Result<(), OperatorError> {
        let Groups { groups, len } = loaded.take::<Groups<K, V>>()?;
        self.clear();
        (self.groups, self.len) = (groups, len);
        self.baseline = Baseline::Restored;
        Ok(())
    }
}

/// Key and value of an entry that this program's version wrote.
fn decoded<K: DeserializeOwned, V: DeserializeOwned>(
    entry: &SavedEntry,
) -> io::Result<(K, Option<V>)> {
    let value = match &entry.value {
        None => None,
        Some(value) => Some(SavedEntry::decode(value)?),
    };
    Ok((SavedEntry::decode(&entry.key)?, value))
}

/// Lets each group go as soon as it is written.
fn write_whole<K: Serialize, V: Serialize>(
    frozen: Vec<Frozen<K, V>>,
    to: &mut dyn Write,
) -> io::Result<()> {
    write_entries(frozen, to, |writer, group, key, value, _| {
        if value.is_none() {
            return Ok(());
        }
        writer.put(group, key, value)
    })
}

fn write_changes<K: Serialize, V: Serialize>(
    frozen: Vec<Frozen<K, V>>,
    since: Generation,
    to: &mut dyn Write,
) -> io::Result<()> {
    write_entries(frozen, to, |writer, group, key, value, changed| {
        if changed <= since {
            return Ok(());
        }
        writer.put(group, key, value)
    })
}

fn write_entries<K, V>(
    frozen: Vec<Frozen<K, V>>,
    to: &mut dyn Write,
    mut write: impl FnMut(&mut EntryWriter<'_>, u16, &K, Option<&V>, Generation) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = EntryWriter::new(to)?;
    for (group, entries) in (0_u16..).zip(frozen) {
        for (key, entry) in entries.iter() {
            write(&mut writer, group, key, entry.value(), entry.changed())?;
        }
    }
    writer.finish()
}

impl<K, V> fmt::Debug for KeyedState<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedState")
            .field("len", &self.len)
            .field("incremental", &self.incremental)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
