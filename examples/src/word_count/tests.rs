//! The parts by themselves: words, and the comparison that can fail.

use super::output::{Table, differences};
use super::words::words_of;

#[test]
fn words_are_runs_of_letters_and_digits_in_small_letters() {
    let words: Vec<_> = words_of("The lock-keeper's 2 Ärmel, and THE lock\r").collect();
    let expected = [
        "the", "lock", "keeper", "s", "2", "ärmel", "and", "the", "lock",
    ];
    assert_eq!(words, expected);
}

#[test]
fn a_lost_a_doubled_and_an_invented_word_are_seen() {
    let table = |counts: &[(&str, u64)]| -> Table {
        let counts = counts.iter();
        counts.map(|(word, n)| ((*word).to_owned(), *n)).collect()
    };
    let plain = table(&[("a", 1), ("b", 2), ("c", 3)]);
    let region = table(&[("b", 4), ("c", 3), ("d", 1)]);
    let expected = [("a", 0, 1), ("b", 4, 2), ("d", 1, 0)];
    let expected = expected.map(|(word, region, plain)| (word.to_owned(), region, plain));
    assert_eq!(differences(&region, &plain), expected);
    assert!(differences(&plain, &plain).is_empty());
}
