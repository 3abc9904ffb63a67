//! The table of one key group, and what it holds of a key.

use std::fmt;
use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table;

use crate::graph::stable_hash;

/// The cut that a change belongs to first, counted by the state itself from 1.
///
/// Four bytes, since with eight an entry of two numbers would be a third larger, and what a look-up
/// waits for is memory.
pub(super) type Generation = u32;

/// What is known of a key.
#[derive(Debug, Clone)]
pub(super) enum Entry<V> {
    Value {
        changed: Generation,
        value: V,
    },
    /// The key was removed, and the next change to be written must say so.
    Removed {
        changed: Generation,
    },
}

impl<V> Entry<V> {
    pub(super) fn changed(&self) -> Generation {
        match self {
            Self::Value { changed, .. } | Self::Removed { changed } => *changed,
        }
    }

    pub(super) fn value(&self) -> Option<&V> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::Removed { .. } => None,
        }
    }

    /// The value, as one that `generation` changes.
    pub(super) fn changed_value(&mut self, generation: Generation) -> Option<&mut V> {
        match self {
            Self::Value { changed, value } => {
                *changed = generation;
                Some(value)
            }
            Self::Removed { .. } => None,
        }
    }

    pub(super) fn into_value(self) -> Option<V> {
        match self {
            Self::Value { value, .. } => Some(value),
            Self::Removed { .. } => None,
        }
    }

    /// The value, made by `make` if the key was removed, as one that `generation` changes; and whether it was
    /// made.
    pub(super) fn change(
        &mut self,
        generation: Generation,
        make: impl FnOnce() -> V,
    ) -> (&mut V, bool) {
        let made = self.value().is_none();
        if made {
            let (changed, value) = (generation, make());
            *self = Self::Value { changed, value };
        }
        match self.changed_value(generation) {
            Some(value) => (value, made),
            None => unreachable!("a removed key was given its value above"),
        }
    }
}

/// Keys and entries by the [`stable_hash`] that chose the group: it is made once a look-up, by the caller.
#[derive(Clone)]
pub(super) struct Table<K, V>(HashTable<(K, Entry<V>)>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(HashTable::new())
    }
}

/// A hash with its halves exchanged. By its low bits a table finds a key's place, and by its high bits it
/// tells keys apart; but the low bits chose the group, and are the same for all keys of one: entries would
/// lie in a few heaps, each to be searched from its beginning.
fn place(hash: u64) -> u64 {
    hash.rotate_left(u64::BITS / 2)
}

fn place_of<K: Hash, V>((key, _): &(K, Entry<V>)) -> u64 {
    place(stable_hash(key))
}

impl<K: Hash + Eq, V> Table<K, V> {
    pub(super) fn get(&self, hash: u64, key: &K) -> Option<&Entry<V>> {
        let found = self.0.find(place(hash), |(other, _)| other == key);
        found.map(|(_, entry)| entry)
    }

    /// The place of what is nearly always the entry of this key, without a look at it: the first whose seven
    /// bits of hash are the same. To compare keys would be to wait for the entry.
    pub(super) fn likely_place(&self, hash: u64) -> Option<usize> {
        self.0.find_bucket_index(place(hash), |_| true)
    }

    /// When what lies at a place was changed, for those who want it to be read.
    pub(super) fn changed_at(&self, place: usize) -> Generation {
        let found = self.0.get_bucket(place);
        found.map_or(0, |(_, entry)| entry.changed())
    }

    /// The entry at a place, if it is this key's.
    pub(super) fn get_at(&mut self, place: usize, key: &K) -> Option<&mut Entry<V>> {
        let found = self.0.get_bucket_mut(place);
        found.and_then(|(other, entry)| (other == key).then_some(entry))
    }

    /// The entry of a key; what `make` gives if there is none yet.
    pub(super) fn get_or_insert_with(
        &mut self,
        hash: u64,
        key: &K,
        make: impl FnOnce() -> Entry<V>,
    ) -> &mut Entry<V>
    where
        K: Clone,
    {
        let place = place(hash);
        // Not `entry`, which makes room for a new one before it looks.
        let (_, entry) = match self.0.find_entry(place, |(other, _)| other == key) {
            Ok(found) => found.into_mut(),
            Err(absent) => {
                let new = (key.clone(), make());
                let table = absent.into_table();
                table.insert_unique(place, new, place_of).into_mut()
            }
        };
        entry
    }

    /// The entry that was there before.
    pub(super) fn insert(&mut self, hash: u64, key: K, entry: Entry<V>) -> Option<Entry<V>> {
        let same = |(other, _): &(K, Entry<V>)| *other == key;
        match self.0.entry(place(hash), same, place_of) {
            hash_table::Entry::Occupied(mut found) => {
                Some(std::mem::replace(&mut found.get_mut().1, entry))
            }
            hash_table::Entry::Vacant(place) => {
                place.insert((key, entry));
                None
            }
        }
    }

    pub(super) fn remove(&mut self, hash: u64, key: &K) -> Option<Entry<V>> {
        let found = self.0.find_entry(place(hash), |(other, _)| other == key);
        let ((_, entry), _) = found.ok()?.remove();
        Some(entry)
    }

    /// Takes everything out of `newer`, in place of what is here.
    pub(super) fn absorb(&mut self, newer: &mut Self) {
        for (key, entry) in newer.0.drain() {
            self.insert(stable_hash(&key), key, entry);
        }
    }
}

impl<K, V> Table<K, V> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &Entry<V>)> {
        self.0.iter().map(|(key, entry)| (key, entry))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::graph::key_group;

    #[test]
    fn the_keys_of_one_group_lie_all_over_its_table() {
        let of_one_group = (0_u64..).filter(|key| key_group(stable_hash(key)) == 5);
        let places: Vec<u64> = of_one_group
            .take(800)
            .map(|key| place(stable_hash(&key)))
            .collect();

        // 1,024 places by the low bits, 128 tags by the high ones: by chance 555 and 128 of them are taken.
        let low: HashSet<u64> = places.iter().map(|place| place % 1024).collect();
        let high: HashSet<u64> = places.iter().map(|place| place >> 57).collect();
        assert!(low.len() > 450, "{} places", low.len());
        assert!(high.len() > 100, "{} tags", high.len());
    }

    #[test]
    fn an_entry_of_two_numbers_takes_three_words() {
        assert_eq!(size_of::<(u64, Entry<u64>)>(), 24);
    }
}
