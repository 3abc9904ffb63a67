//! The receiver's side: which registration is new, which is only said again.

use std::collections::HashMap;
use std::hash::Hash;

use uuid::Uuid;

use super::Attempt;

/// What an attempt is, seen from the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A registration that was not seen before: it takes the place of a former one of that key.
    New,
    /// A later attempt of the registration that is known: answer the same again.
    Repeated,
    /// An attempt that was overtaken by a later one: its sender does not wait any longer.
    Late,
}

/// The registrations that a receiver knows, one a key (a worker, a partner).
#[derive(Clone, Debug)]
pub struct RegistrationAttempts<K> {
    known: HashMap<K, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    attempt: Attempt,
    /// The one that it replaced: late attempts of it must not replace it back.
    before: Option<Uuid>,
}

impl<K: Hash + Eq> RegistrationAttempts<K> {
    /// Knows none.
    #[must_use]
    pub fn new() -> Self {
        RegistrationAttempts {
            known: HashMap::new(),
        }
    }

    /// Takes note of an attempt.
    pub fn judge(&mut self, key: K, attempt: Attempt) -> Verdict {
        let Some(known) = self.known.get_mut(&key) else {
            self.known.insert(
                key,
                Known {
                    attempt,
                    before: None,
                },
            );
            return Verdict::New;
        };
        if known.attempt.registration == attempt.registration {
            if attempt.number <= known.attempt.number {
                return Verdict::Late;
            }
            known.attempt = attempt;
            return Verdict::Repeated;
        }
        if known.before == Some(attempt.registration) {
            return Verdict::Late;
        }
        let before = Some(known.attempt.registration);
        *known = Known { attempt, before };
        Verdict::New
    }

    /// Forgets a key that has left.
    pub fn forget(&mut self, key: &K) {
        self.known.remove(key);
    }
}

impl<K: Hash + Eq> Default for RegistrationAttempts<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_attempt_registers_nobody_twice() {
        let mut attempts = RegistrationAttempts::new();
        let [first, second] = [1, 2].map(Uuid::from_u128);
        let mut judge = |registration, number| {
            attempts.judge(
                "worker",
                Attempt {
                    registration,
                    number,
                },
            )
        };
        assert_eq!(judge(first, 2), Verdict::New);
        assert_eq!(judge(first, 1), Verdict::Late);
        assert_eq!(judge(first, 3), Verdict::Repeated);
        assert_eq!(judge(second, 1), Verdict::New);
        assert_eq!(
            judge(first, 4),
            Verdict::Late,
            "of the registration that was replaced"
        );
    }
}
