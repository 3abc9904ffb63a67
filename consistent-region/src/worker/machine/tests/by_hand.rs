//! What is done to a worker by hand: its sources are paused, and it is stopped.

use super::*;

fn heard(sources_paused: bool) -> Event {
    Event::HeartbeatAnswered(Ok(HeartbeatAnswer {
        term: 3,
        notices: Vec::new(),
        sources_paused,
    }))
}

fn hold(held: bool) -> Action {
    let launch = 1;
    Action::Hold { launch, held }
}

#[test]
fn sources_are_held_as_the_coordinator_says_also_those_that_are_launched_into_a_pause() {
    let mut machine = machine();
    machine.step(at(0), Event::Tick);
    let answer = Registered {
        term: 3,
        worker_epoch: 1,
        lease: LEASE,
        sources_paused: true,
    };
    machine.step(at(1), Event::RegisterAnswered(Ok(answer)));
    let order = Order::Reset {
        placement: placement(&[(id("source", 0), "a"), (id("totals", 0), "a")]),
        restore: None,
        first_start: true,
    };
    let actions = machine.step(at(2), notice(1, stamp(3, 1, 1), order));
    let held: Vec<_> = actions
        .iter()
        .filter(|action| matches!(action, Action::Hold { .. }))
        .collect();
    assert_eq!(held, [&hold(true)], "the source and nobody else");
    let launched = |action: &Action| matches!(action, Action::Launch { instance, .. } if *instance == id("source", 0));
    let place = |is: &dyn Fn(&Action) -> bool| actions.iter().position(is).unwrap();
    assert!(place(&launched) < place(&|action| *action == hold(true)));
    assert!(machine.sources_paused());

    machine.step(at(2_600), Event::Tick);
    assert!(!machine.step(at(2_700), heard(true)).contains(&hold(true)));
    machine.step(at(5_300), Event::Tick);
    assert!(machine.step(at(5_400), heard(false)).contains(&hold(false)));
    machine.step(at(8_000), Event::Tick);
    assert!(machine.step(at(8_100), heard(true)).contains(&hold(true)));
}

#[test]
fn a_stopped_worker_ends_what_it_runs_and_then_says_so() {
    let mut machine = machine();
    machine.step(at(0), Event::Tick);
    machine.step(at(1), registered(1));
    let order = Order::Reset {
        placement: placement(&[(id("source", 0), "a")]),
        restore: None,
        first_start: true,
    };
    machine.step(at(2), notice(1, stamp(3, 1, 1), order));
    let left = Progress {
        worker: "a".to_owned(),
        worker_epoch: 1,
        stamp: stamp(3, 1, 1),
        event: ProgressEvent::Left,
    };
    let actions = machine.step(at(3), Event::Stop);
    assert_eq!(actions, [Action::Abandon, Action::Leave(left)]);
    assert_eq!(machine.step(at(4), Event::Stop), [], "it is told once");
    assert_eq!(machine.step(at(9_000), heard(false)), []);
    assert_eq!(machine.wake_at(), None);
    let over = Action::Finish(WorkerEnd::Stopped);
    assert_eq!(
        machine.step(at(9_001), Event::LeaveAnswered),
        std::slice::from_ref(&over)
    );

    // nobody knows of it
    let mut unknown = self::machine();
    assert_eq!(unknown.step(at(0), Event::Stop), [Action::Abandon, over]);
}
