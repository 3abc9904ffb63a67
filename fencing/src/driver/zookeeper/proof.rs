//! From when on the ensemble's own count of a session's time can have begun.

use std::time::Duration;

use crate::clock::BootTime;

/// The moment from which a session certainly holds for its whole length.
///
/// The answer to a read proves little: a server that is cut off the ensemble's leader goes on to
/// answer from memory. Requests here are writes, which the majority carries out. Even their answer does
/// not prove that the leader counts from *this* request: a follower tells the leader which sessions
/// are alive only with the leader's next ping, every half tick. It does prove that the follower was
/// connected until then, so what was asked half a tick or more before has been told. A session has
/// two ticks or more, so a quarter of it is enough; counted is from the request before.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionProof {
    interval: Duration,
    counts_from: BootTime,
    last: BootTime,
}

impl SessionProof {
    /// The opening of a session is itself carried out by the leader.
    pub(super) fn opened(sent: BootTime, session: Duration) -> Self {
        SessionProof {
            interval: session / 4,
            counts_from: sent,
            last: sent,
        }
    }

    /// A write that was sent at `sent` has been answered.
    pub(super) fn answered(&mut self, sent: BootTime) {
        if sent.since(self.last) >= self.interval {
            self.counts_from = self.last;
            self.last = sent;
        }
    }

    pub(super) fn counts_from(&self) -> BootTime {
        self.counts_from
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::simulation::{Counting, LAG, SESSION, Script, World, first_failure, scripts};

    const WHOLE: Duration = Duration::from_millis(SESSION);

    impl Counting for SessionProof {
        fn answered(&mut self, sent: BootTime, _: BootTime) -> BootTime {
            SessionProof::answered(self, sent);
            self.counts_from()
        }
    }

    /// The interval is a quarter of the session on the leader's own clock, which may run fast.
    fn proof(script: &Script) -> SessionProof {
        let _ = script;
        SessionProof::opened(BootTime::ZERO, WHOLE)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Also when the member that the leader asks is cut off before it has told what it heard.
        #[test]
        fn after_a_new_grant_no_effect_of_the_old_leader_takes_hold(script in scripts()) {
            let run = World::run(&script, proof(&script), LAG, WHOLE);
            prop_assert!(run.is_ok(), "{}", run.unwrap_err());
        }
    }

    /// As if an answer proved what it does elsewhere.
    struct FromSending;

    impl Counting for FromSending {
        fn answered(&mut self, sent: BootTime, _: BootTime) -> BootTime {
            sent
        }
    }

    #[test]
    fn counting_from_the_answered_request_itself_is_found() {
        let run = |script: &Script| World::run(script, FromSending, LAG, WHOLE).map(|_| ());
        assert!(first_failure(20_000, run).is_some());
    }

    #[test]
    fn a_session_counts_from_the_request_before_the_answered_one() {
        let at = |millis| BootTime::since_boot(Duration::from_millis(millis));
        let mut proof = SessionProof::opened(at(100), Duration::from_secs(4));
        assert_eq!(proof.counts_from(), at(100));
        proof.answered(at(1_100));
        assert_eq!(proof.counts_from(), at(100));
        // Too close to the one before: the follower may not have told of that yet.
        proof.answered(at(1_900));
        assert_eq!(proof.counts_from(), at(100));
        proof.answered(at(2_200));
        assert_eq!(proof.counts_from(), at(1_100));
        proof.answered(at(9_000));
        assert_eq!(proof.counts_from(), at(2_200));
    }
}
