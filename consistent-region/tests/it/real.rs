//! Tests on real servers: `tests/services/up` starts them. Without one a test says what it skips; with
//! `CI=true` that is a failure.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "sql")]
mod sql;

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The values of `names`; `None` after saying that `test` is skipped.
fn servers<const N: usize>(test: &str, names: [&str; N]) -> Option<[String; N]> {
    let values = names.map(variable);
    if values.iter().all(Option::is_some) {
        return Some(values.map(Option::unwrap_or_default));
    }
    assert!(
        variable("CI").is_none_or(|ci| ci != "true"),
        "{test} has no server: set {names:?}"
    );
    println!("SKIPPED {test}: no server, set {names:?}");
    None
}
