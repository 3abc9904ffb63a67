//! How far the searches through interleavings go.
//!
//! The ordinary run goes through the smallest worlds and a part of the walks, and begins near the
//! walks that are known to find what they look for. With `LOCKKEEPER_FULL_SEARCH=1` everything is
//! searched from the beginning.

pub(crate) fn is_full() -> bool {
    std::env::var("LOCKKEEPER_FULL_SEARCH").is_ok_and(|value| value == "1")
}

/// The first of 20,000 seeds that finds something; `known` is one that did.
pub(crate) fn first_found<T>(known: u64, walk: impl Fn(u64) -> Option<T>) -> Option<T> {
    let begin = if is_full() { 0 } else { known };
    let found = (begin..20_000).find_map(|seed| walk(seed).map(|found| (seed, found)));
    if let Some((seed, _)) = &found {
        println!("found with seed {seed}");
    }
    found.map(|(_, found)| found)
}
