//! From a tuple's key to the instance that counts it.

use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Keys fall into this many groups; a group is the unit that moves when a width changes. Fixed for
/// the life of a region (S28 of the semantics list, issue 7).
pub const KEY_GROUPS: u16 = 128;

/// Hashes `key` to the same value in every process, on every machine and in every release.
///
/// The standard library's hashers promise no such thing. Not made to withstand chosen keys: who
/// can choose keys can load one instance.
#[must_use]
pub fn stable_hash<K: Hash + ?Sized>(key: &K) -> u64 {
    let mut hasher = StableHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The group of a key, from its [`stable_hash`].
#[must_use]
pub fn key_group(hash: u64) -> u16 {
    u16::try_from(hash % u64::from(KEY_GROUPS)).unwrap_or(0)
}

/// The instance that owns `group` when the operator is `width` wide: ranges of groups, as even as
/// can be.
#[must_use]
pub fn instance_of_group(group: u16, width: u16) -> u16 {
    let owner = u32::from(group) * u32::from(width) / u32::from(KEY_GROUPS);
    u16::try_from(owner).unwrap_or(0)
}

/// The groups that instance `index` of `width` owns.
#[must_use]
pub fn groups_of_instance(index: u16, width: u16) -> Range<u16> {
    let owns = |group: &u16| instance_of_group(*group, width) == index;
    let first = (0..KEY_GROUPS).find(owns).unwrap_or(KEY_GROUPS);
    let owned = (first..KEY_GROUPS).take_while(owns).count();
    first..first.saturating_add(u16::try_from(owned).unwrap_or(KEY_GROUPS))
}

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// See [`stable_hash`].
struct StableHasher(u64);

impl Default for StableHasher {
    fn default() -> Self {
        Self(SEED)
    }
}

impl StableHasher {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut little = [0; 8];
            little.copy_from_slice(word);
            self.mix(u64::from_le_bytes(little));
        }
        let rest = words.remainder();
        let mut little = [0; 8];
        little[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(little));
        self.mix(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }

    // The defaults hash numbers in the machine's own byte order.
    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }
    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }
    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }
    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_le_bytes());
    }
    fn write_usize(&mut self, number: usize) {
        self.mix(u64::try_from(number).unwrap_or(u64::MAX));
    }
    fn write_i8(&mut self, number: i8) {
        self.write_u8(number.cast_unsigned());
    }
    fn write_i16(&mut self, number: i16) {
        self.write_u16(number.cast_unsigned());
    }
    fn write_i32(&mut self, number: i32) {
        self.write_u32(number.cast_unsigned());
    }
    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }
    fn write_i128(&mut self, number: i128) {
        self.write_u128(number.cast_unsigned());
    }
    fn write_isize(&mut self, number: isize) {
        self.mix(i64::try_from(number).unwrap_or(i64::MAX).cast_unsigned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_same_for_ever() {
        // Checkpoints hold state by key group: a changed hash would look for it elsewhere.
        let hashes = [
            stable_hash(&1_u64),
            stable_hash("alice"),
            stable_hash(&(7_i32, "bob")),
        ];
        assert_eq!(
            hashes,
            [
                14_943_549_432_719_704_045,
                15_781_908_357_200_873_764,
                16_681_323_851_901_267_683,
            ]
        );
    }

    #[test]
    fn every_instance_owns_its_share_of_the_groups() {
        for width in 1..=KEY_GROUPS {
            let mut owned = vec![0_u16; usize::from(width)];
            for group in 0..KEY_GROUPS {
                owned[usize::from(instance_of_group(group, width))] += 1;
            }
            let (least, most) = (owned.iter().min(), owned.iter().max());
            assert!(
                most.unwrap() - least.unwrap() <= 1,
                "width {width}: {owned:?}"
            );
        }
    }

    #[test]
    fn the_groups_of_the_instances_are_all_groups_once() {
        for width in [1, 2, 3, 7, 100, KEY_GROUPS] {
            let all: Vec<u16> = (0..width)
                .flat_map(|index| groups_of_instance(index, width))
                .collect();
            assert_eq!(all, (0..KEY_GROUPS).collect::<Vec<_>>(), "width {width}");
        }
        assert!(groups_of_instance(1, 1).is_empty());
    }

    #[test]
    fn small_numbers_spread_over_the_groups() {
        let mut seen = [0_u32; KEY_GROUPS as usize];
        for key in 0..12_800_u64 {
            seen[usize::from(key_group(stable_hash(&key)))] += 1;
        }
        assert!(
            seen.iter().all(|&count| (50..200).contains(&count)),
            "{seen:?}"
        );
    }
}
