//! The pause of the region's sources, by hand: start operators take nothing in, and what they read from
//! keeps it. Cuts, resets and the region's end go on as ever.
//!
//! It is a state that workers are told with each answer to a registration or heartbeat, not an order
//! that could be lost: one that joins, or whose instances are reset, keeps to it. It lies in no store:
//! a pause that nobody remembers must not outlive the term in which somebody asked for it.

use super::Machine;
use crate::coordinator::event::CommandRefused;
use crate::coordinator::status::RegionEvent;

impl Machine {
    /// Whether start operators are to take nothing in.
    pub(super) fn sources_paused(&self) -> bool {
        self.paused_since_unix_ms.is_some()
    }

    /// A second pause changes nothing.
    pub(super) fn pause_sources(&mut self, at_unix_ms: u64) -> Result<(), CommandRefused> {
        self.may_command()?;
        if !self.sources_paused() {
            self.paused_since_unix_ms = Some(at_unix_ms);
            self.tell(RegionEvent::SourcesPaused);
        }
        Ok(())
    }

    /// Also of a failed region: it is to go on as a whole when it is taken up.
    pub(super) fn resume_sources(&mut self) -> Result<(), CommandRefused> {
        match self.may_command() {
            Ok(()) | Err(CommandRefused::Failed { .. }) => {}
            refused => return refused,
        }
        if self.paused_since_unix_ms.take().is_some() {
            self.tell(RegionEvent::SourcesResumed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, PERIOD, settings};
    use crate::coordinator::event::{Action, Beginning, CommandRefused, Event};
    use crate::coordinator::status::{RegionEvent, RegionState};
    use crate::protocol::{Heartbeat, ProgressEvent};

    const SINCE: u64 = 1_700_000_000_000;

    fn pause(bench: &mut Bench) {
        let (request, at_unix_ms) = (70, SINCE);
        bench.feed(Event::PauseRequested {
            request,
            at_unix_ms,
        });
    }

    fn resume(bench: &mut Bench) {
        bench.feed(Event::ResumeRequested { request: 71 });
    }

    /// What a worker is told with the answer to a heartbeat.
    fn told(bench: &mut Bench, worker: &str) -> bool {
        let (worker_epoch, acknowledged) = bench.workers[worker];
        let heartbeat = Heartbeat {
            worker: worker.to_owned(),
            worker_epoch,
            acknowledged,
        };
        let request = 72;
        let event = Event::Heartbeat { request, heartbeat };
        let actions = bench.machine.step(bench.now, event);
        let answers = actions.into_iter().find_map(|action| match action {
            Action::AnswerHeartbeat { answer, .. } => Some(answer.unwrap().sources_paused),
            _ => None,
        });
        answers.unwrap()
    }

    #[test]
    fn every_worker_is_told_of_a_pause_until_it_is_over_whatever_happens_meanwhile() {
        let mut bench = Bench::at(RegionState::Processing);
        assert!(!told(&mut bench, "a"));
        pause(&mut bench);
        assert_eq!(bench.answer, Some(Ok(())));
        assert_eq!(bench.told, [RegionEvent::SourcesPaused]);
        assert!(told(&mut bench, "a") && told(&mut bench, "b"));
        let since = |bench: &Bench| bench.machine.status().sources_paused_since_unix_ms;
        assert_eq!(since(&bench), Some(SINCE));

        // cuts go on
        bench.wait(PERIOD);
        assert_eq!(bench.state(), RegionState::Draining);
        // and it outlives a reset
        bench.request_reset(false);
        bench.all_say(&ProgressEvent::ResetDone);
        assert_eq!(bench.state(), RegionState::Processing);
        bench.told.clear();
        pause(&mut bench);
        assert_eq!(bench.told, [], "it is paused");
        assert!(told(&mut bench, "a"));

        resume(&mut bench);
        resume(&mut bench);
        assert_eq!(bench.told, [RegionEvent::SourcesResumed]);
        assert!(!told(&mut bench, "a"));
        assert_eq!(since(&bench), None);
    }

    #[test]
    fn a_failed_region_is_not_paused_and_one_that_was_can_be_resumed() {
        let mut bench = Bench::at(RegionState::Failed);
        pause(&mut bench);
        assert!(matches!(
            bench.answer,
            Some(Err(CommandRefused::Failed { .. }))
        ));
        resume(&mut bench);
        assert_eq!(bench.answer, Some(Ok(())));
    }

    #[test]
    fn a_pause_ends_with_its_term() {
        let mut bench = Bench::at(RegionState::Processing);
        pause(&mut bench);
        let record = bench.log.last().unwrap().record.clone();
        let beginning = Beginning {
            record: Some(record),
            unusable_entries: 0,
        };
        let mut next = Bench::open(settings(), beginning);
        next.join_all();
        assert!(!told(&mut next, "a"));
        assert_eq!(next.machine.status().sources_paused_since_unix_ms, None);
    }
}
