//! One key group of a keyed state: copied only where it changes while it is being written.

use std::hash::Hash;
use std::mem;
use std::sync::Arc;

use super::table::{Entry, Generation, Table};
use crate::graph::stable_hash;

/// What a writer sees of a group.
pub(super) type Frozen<K, V> = Arc<Table<K, V>>;

/// The entries of one key group.
///
/// While a writer holds the group ([`freeze`](Self::freeze)), changes go to `over`: only what is
/// touched is copied. When the writer lets go, they are merged at the next touch.
///
/// A `hash` is the key's [`stable_hash`].
#[derive(Debug)]
pub(super) struct Shard<K, V> {
    base: Base<K, V>,
    over: Table<K, V>,
    /// Keys of removed entries, which are dropped when no change has to say so any more.
    removed: Vec<K>,
}

#[derive(Debug)]
enum Base<K, V> {
    /// The shard's alone. There is no count of holders to be looked at: it would let the processor begin
    /// with one entry only when it has done with the one before.
    Owned(Table<K, V>),
    /// A writer holds it, or has held it since the last touch.
    Frozen(Frozen<K, V>),
}

impl<K, V> Default for Base<K, V> {
    fn default() -> Self {
        Self::Owned(Table::default())
    }
}

impl<K, V> Base<K, V> {
    fn table(&self) -> &Table<K, V> {
        match self {
            Self::Owned(table) => table,
            Self::Frozen(table) => table,
        }
    }
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Self {
            base: Base::default(),
            over: Table::default(),
            removed: Vec::new(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Shard<K, V> {
    /// The group as it is now, for a writer. Costs nothing if the last writer has let go.
    pub(super) fn freeze(&mut self) -> Frozen<K, V> {
        self.take_back();
        let frozen = match mem::take(&mut self.base) {
            Base::Owned(table) => Arc::new(table),
            Base::Frozen(table) if self.over.is_empty() => table,
            Base::Frozen(table) => {
                // Two cuts in a row are being written: what changed between them is copied once.
                let mut table = Table::clone(&table);
                table.absorb(&mut self.over);
                Arc::new(table)
            }
        };
        self.base = Base::Frozen(Arc::clone(&frozen));
        frozen
    }

    /// Owns the base again if the writer has let go, with everything merged.
    fn take_back(&mut self) {
        if matches!(self.base, Base::Frozen(_)) {
            self.try_take_back();
        }
    }

    /// Apart, so that what most look-ups need of it is one comparison.
    #[inline(never)]
    fn try_take_back(&mut self) {
        if let Base::Frozen(frozen) = &mut self.base
            && let Some(table) = Arc::get_mut(frozen)
        {
            let mut table = mem::take(table);
            table.absorb(&mut self.over);
            self.base = Base::Owned(table);
        }
    }

    /// The base if nobody else holds it, with everything merged.
    fn settled(&mut self) -> Option<&mut Table<K, V>> {
        self.take_back();
        match &mut self.base {
            Base::Owned(table) => Some(table),
            Base::Frozen(_) => None,
        }
    }

    /// See [`Table::likely_place`]; none while a writer may hold the group.
    pub(super) fn likely_place(&self, hash: u64) -> Option<usize> {
        match &self.base {
            Base::Owned(table) => table.likely_place(hash),
            Base::Frozen(_) => None,
        }
    }

    /// See [`Table::changed_at`].
    pub(super) fn changed_at(&self, place: usize) -> Generation {
        self.base.table().changed_at(place)
    }

    /// The value of a key at a place that was likely, if it is there and has one.
    pub(super) fn get_at(
        &mut self,
        place: usize,
        key: &K,
        generation: Generation,
    ) -> Option<&mut V> {
        match &mut self.base {
            Base::Owned(table) => table.get_at(place, key)?.changed_value(generation),
            Base::Frozen(_) => None,
        }
    }

    pub(super) fn get(&self, hash: u64, key: &K) -> Option<&V> {
        let base = self.base.table();
        let entry = match self.over.is_empty() {
            true => base.get(hash, key),
            false => self.over.get(hash, key).or_else(|| base.get(hash, key)),
        };
        entry?.value()
    }

    /// The value of a key, made by `make` if there is none; and whether it was made.
    pub(super) fn get_or_insert_with(
        &mut self,
        hash: u64,
        key: &K,
        generation: Generation,
        make: impl FnOnce() -> V,
    ) -> (&mut V, bool) {
        let new = || Entry::Removed {
            changed: generation,
        };
        self.take_back();
        let entry = match &mut self.base {
            Base::Owned(table) => table.get_or_insert_with(hash, key, new),
            Base::Frozen(table) => self.over.get_or_insert_with(hash, key, || {
                table.get(hash, key).cloned().unwrap_or_else(new)
            }),
        };
        entry.change(generation, make)
    }

    /// Removes a key. With `tombstone` a later change can say so.
    pub(super) fn remove(
        &mut self,
        hash: u64,
        key: &K,
        generation: Generation,
        tombstone: bool,
    ) -> Option<V> {
        self.get(hash, key)?;
        let gone = Entry::Removed {
            changed: generation,
        };
        if tombstone {
            self.removed.push(key.clone());
        }
        let before = match self.settled() {
            Some(base) if tombstone => base.insert(hash, key.clone(), gone),
            Some(base) => base.remove(hash, key),
            None => {
                let before = self.over.insert(hash, key.clone(), gone);
                if !tombstone {
                    self.removed.push(key.clone());
                }
                before.or_else(|| self.base.table().get(hash, key).cloned())
            }
        };
        before.and_then(Entry::into_value)
    }

    /// Forgets the removed keys that every change after generation `since` has said, if nobody
    /// holds the group.
    pub(super) fn forget_removed(&mut self, since: Generation) {
        if self.removed.is_empty() {
            return;
        }
        self.take_back();
        let Base::Owned(base) = &mut self.base else {
            return;
        };
        self.removed.retain(|key| {
            let hash = stable_hash(key);
            match base.get(hash, key) {
                Some(Entry::Removed { changed }) if *changed <= since => {
                    base.remove(hash, key);
                    false
                }
                Some(Entry::Removed { .. }) => true,
                Some(Entry::Value { .. }) | None => false,
            }
        });
    }

    /// For a state that was read back.
    pub(super) fn insert_saved(&mut self, key: K, value: Option<V>) {
        let hash = stable_hash(&key);
        if let Some(base) = self.settled() {
            match value {
                None => drop(base.remove(hash, &key)),
                Some(value) => {
                    let changed = 0;
                    base.insert(hash, key, Entry::Value { changed, value });
                }
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let over = &self.over;
        let is_older = |key: &K| over.is_empty() || over.get(stable_hash(key), key).is_none();
        let base = self.base.table().iter();
        base.filter(move |(key, _)| is_older(key))
            .chain(over.iter())
            .filter_map(|(key, entry)| Some((key, entry.value()?)))
    }

    /// Entries that are there twice because a writer holds the group.
    pub(super) fn copied(&self) -> usize {
        self.over.len()
    }
}
