//! How much is done: from the environment.

use std::str::FromStr;

use bench_harness::Failure;

#[derive(Debug)]
pub struct Settings {
    /// How often each pair of runs is made.
    pub rounds: usize,
    /// The same for those with a JVM.
    pub jvm_rounds: usize,
    pub tuples: u64,
    pub jvm_tuples: u64,
    /// How often something is killed.
    pub kills: usize,
    /// The parts that are run; empty: all.
    only: Vec<String>,
}

impl Settings {
    pub fn from_environment() -> Result<Self, Failure> {
        let only: String = variable("ONLY", String::new())?;
        Ok(Self {
            rounds: variable("ROUNDS", 5)?,
            jvm_rounds: variable("JVM_ROUNDS", 3)?,
            tuples: variable("TUPLES", 50_000_000)?,
            jvm_tuples: variable("JVM_TUPLES", 10_000_000)?,
            kills: variable("KILLS", 30)?,
            only: only
                .split(',')
                .filter(|it| !it.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }

    pub fn all(&self) -> bool {
        self.only.is_empty()
    }

    pub fn wants(&self, part: &str) -> bool {
        self.all() || self.only.iter().any(|only| only == part)
    }

    /// A name that is no part.
    pub fn unknown(&self, parts: &[&str]) -> Option<&str> {
        let known = |only: &&String| parts.contains(&only.as_str());
        self.only
            .iter()
            .find(|only| !known(only))
            .map(String::as_str)
    }
}

fn variable<T: FromStr>(name: &str, default: T) -> Result<T, Failure> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{name} is {text:?}: it can't be read").into()),
        Err(_) => Ok(default),
    }
}
