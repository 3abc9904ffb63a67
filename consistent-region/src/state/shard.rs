//! One key group of a keyed state: copied only where it changes while it is being written.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};
use std::sync::Arc;

use crate::graph::StableHasher;

/// Keys are hashed alike everywhere; whoever can choose keys can load one instance anyway.
pub(super) type Map<K, E> = HashMap<K, E, BuildHasherDefault<StableHasher>>;

/// A value and when it changed last.
#[derive(Debug, Clone)]
pub(super) struct Entry<V> {
    /// `None`: the key was removed, and the next change to be written must say so.
    pub(super) value: Option<V>,
    /// The generation of the cut that it belongs to first.
    pub(super) changed: u64,
}

/// What a writer sees of a group.
pub(super) type Frozen<K, V> = Arc<Map<K, Entry<V>>>;

/// The entries of one key group.
///
/// While a writer holds the group ([`freeze`](Self::freeze)), changes go to `over`: only what is
/// touched is copied. When the writer lets go, they are merged at the next touch.
#[derive(Debug)]
pub(super) struct Shard<K, V> {
    base: Frozen<K, V>,
    over: Map<K, Entry<V>>,
    /// Keys of removed entries, which are dropped when no change has to say so any more.
    removed: Vec<K>,
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Self {
            base: Arc::default(),
            over: Map::default(),
            removed: Vec::new(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Shard<K, V> {
    /// The group as it is now, for a writer. Costs nothing if the last writer has let go.
    pub(super) fn freeze(&mut self) -> Frozen<K, V> {
        if self.settled().is_none() && !self.over.is_empty() {
            // Two cuts in a row are being written: what changed between them is copied once.
            let mut base = Map::clone(&self.base);
            base.extend(self.over.drain());
            self.base = Arc::new(base);
        }
        Arc::clone(&self.base)
    }

    /// The base if nobody else holds it, with everything merged.
    fn settled(&mut self) -> Option<&mut Map<K, Entry<V>>> {
        let base = Arc::get_mut(&mut self.base)?;
        if !self.over.is_empty() {
            base.extend(self.over.drain());
        }
        Some(base)
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let entry = match self.over.is_empty() {
            true => self.base.get(key),
            false => self.over.get(key).or_else(|| self.base.get(key)),
        };
        entry?.value.as_ref()
    }

    /// The value of a key, made by `make` if there is none; and whether it was made.
    pub(super) fn get_or_insert_with(
        &mut self,
        key: K,
        generation: u64,
        make: impl FnOnce() -> V,
    ) -> (&mut V, bool) {
        let new = || Entry {
            value: None,
            changed: generation,
        };
        // Only this shard hands the base out: what is not shared now stays so, and is not copied.
        let entry = if Arc::strong_count(&self.base) == 1 {
            self.settled();
            Arc::make_mut(&mut self.base).entry(key).or_insert_with(new)
        } else {
            let base = &self.base;
            let copied = |key: &K| base.get(key).cloned().unwrap_or_else(new);
            self.over.entry(key).or_insert_with_key(copied)
        };
        entry.changed = generation;
        let made = entry.value.is_none();
        (entry.value.get_or_insert_with(make), made)
    }

    /// Removes a key. With `tombstone` a later change can say so.
    pub(super) fn remove(&mut self, key: &K, generation: u64, tombstone: bool) -> Option<V> {
        self.get(key)?;
        let gone = Entry {
            value: None,
            changed: generation,
        };
        if tombstone {
            self.removed.push(key.clone());
        }
        let before = match self.settled() {
            Some(base) if tombstone => base.insert(key.clone(), gone),
            Some(base) => base.remove(key),
            None => {
                let before = self.over.insert(key.clone(), gone);
                if !tombstone {
                    self.removed.push(key.clone());
                }
                before.or_else(|| self.base.get(key).cloned())
            }
        };
        before.and_then(|entry| entry.value)
    }

    /// Forgets the removed keys that every change after generation `since` has said, if nobody
    /// holds the group.
    pub(super) fn forget_removed(&mut self, since: u64) {
        if self.removed.is_empty() || self.settled().is_none() {
            return;
        }
        let Some(base) = Arc::get_mut(&mut self.base) else {
            return;
        };
        self.removed.retain(|key| match base.get(key) {
            Some(entry) if entry.value.is_none() && entry.changed <= since => {
                base.remove(key);
                false
            }
            Some(entry) => entry.value.is_none(),
            None => false,
        });
    }

    /// For a state that was read back.
    pub(super) fn insert_saved(&mut self, key: K, value: Option<V>) {
        if let Some(base) = self.settled() {
            match value {
                None => drop(base.remove(&key)),
                Some(value) => {
                    let (value, changed) = (Some(value), 0);
                    base.insert(key, Entry { value, changed });
                }
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let over = &self.over;
        let base = self.base.iter().filter(|(key, _)| !over.contains_key(key));
        base.chain(over)
            .filter_map(|(key, entry)| Some((key, entry.value.as_ref()?)))
    }

    /// Entries that are there twice because a writer holds the group.
    pub(super) fn copied(&self) -> usize {
        self.over.len()
    }
}
