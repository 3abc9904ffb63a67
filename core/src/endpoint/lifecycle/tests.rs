//! The table, and the property that no sequence of events leaves a call unanswered.

use proptest::prelude::*;

use super::*;
use crate::endpoint::restart::RestartPolicy;

fn step(machine: &mut Lifecycle, event: Event) -> Vec<Action> {
    machine.step(Duration::ZERO, event)
}

fn started() -> Lifecycle {
    let mut machine = Lifecycle::new(None);
    step(&mut machine, Event::Control(Control::Start));
    step(&mut machine, Event::HookDone(Ok(())));
    assert_eq!(machine.state(), EndpointState::Started);
    machine
}

fn boom() -> RpcError {
    RpcError::new(RpcErrorKind::Panicked, "boom")
}

#[test]
fn start_runs_on_start_and_then_opens_the_gate() {
    let mut machine = Lifecycle::new(None);
    let actions = step(&mut machine, Event::Control(Control::Start));
    assert_eq!(
        actions,
        [Action::SetGate(Gate::Hold), Action::RunHook(Hook::Start)]
    );
    assert_eq!(machine.state(), EndpointState::Stopped);
    let actions = step(&mut machine, Event::HookDone(Ok(())));
    assert_eq!(
        actions,
        [Action::SetGate(Gate::Open), Action::AnswerStart(Ok(()))]
    );
}

#[test]
fn start_after_stop_calls_on_resume() {
    let mut machine = started();
    step(&mut machine, Event::Control(Control::Stop));
    let actions = step(&mut machine, Event::Control(Control::Start));
    assert!(actions.contains(&Action::RunHook(Hook::Resume)));
}

#[test]
fn a_never_started_endpoint_ends_without_on_stop() {
    let mut machine = Lifecycle::new(None);
    let actions = step(&mut machine, Event::Control(Control::Terminate));
    assert!(actions.contains(&Action::Finish(Ok(()))));
    assert!(!actions.contains(&Action::RunHook(Hook::Stop)));
}

#[test]
fn two_terminates_run_on_stop_once() {
    let mut machine = started();
    let first = step(&mut machine, Event::Control(Control::Terminate));
    assert!(first.contains(&Action::RunHook(Hook::Stop)));
    let second = step(&mut machine, Event::Control(Control::Terminate));
    assert_eq!(second, [Action::AcceptControl]);
}

#[test]
fn start_and_stop_are_refused_when_terminating_and_terminated() {
    let mut machine = started();
    step(&mut machine, Event::Control(Control::Terminate));
    for _ in 0..2 {
        for control in [Control::Start, Control::Stop] {
            let actions = step(&mut machine, Event::Control(control));
            let [Action::RefuseControl(error)] = &actions[..] else {
                panic!("{control:?} gave {actions:?}")
            };
            assert_eq!(error.kind(), RpcErrorKind::InvalidState);
        }
        step(&mut machine, Event::HookDone(Ok(())));
        assert_eq!(machine.state(), EndpointState::Terminated);
    }
}

#[test]
fn a_failed_first_start_ends_with_its_cause() {
    let mut machine = Lifecycle::new(Some(RestartBudget::new(RestartPolicy::default())));
    step(&mut machine, Event::Control(Control::Start));
    let cause = RpcError::new(RpcErrorKind::LifecycleFailed, "no disk");
    let actions = step(&mut machine, Event::HookDone(Err(cause.clone())));
    assert!(actions.contains(&Action::AnswerStart(Err(cause.clone()))));
    assert!(actions.contains(&Action::Finish(Err(cause))));
}

#[test]
fn an_actor_that_stops_itself_is_not_restarted() {
    let mut machine = Lifecycle::new(Some(RestartBudget::new(RestartPolicy::default())));
    step(&mut machine, Event::Control(Control::Start));
    step(&mut machine, Event::HookDone(Ok(())));
    let actions = step(&mut machine, Event::Failed(Failure::StoppedItself));
    assert!(matches!(
        actions.last(),
        Some(Action::Finish(Err(error)))
            if error.kind() == RpcErrorKind::Stopped && error.text().contains("not restarted")
    ));
}

#[test]
fn a_panic_under_supervision_holds_what_waits_and_answers_what_runs() {
    let mut machine = Lifecycle::new(Some(RestartBudget::new(RestartPolicy::default())));
    step(&mut machine, Event::Control(Control::Start));
    step(&mut machine, Event::HookDone(Ok(())));
    let actions = step(&mut machine, Event::Failed(Failure::Panic(boom())));
    assert_eq!(actions[0], Action::SetGate(Gate::Hold));
    assert!(matches!(
        &actions[2],
        Action::AnswerInFlight(error) if error.kind() == RpcErrorKind::Restarted
    ));
    let actions = step(&mut machine, Event::BackOffOver);
    assert_eq!(actions, [Action::Spawn, Action::RunHook(Hook::Start)]);
}

#[test]
fn terminate_during_on_start_ends_after_it_with_on_stop() {
    let mut machine = Lifecycle::new(None);
    step(&mut machine, Event::Control(Control::Start));
    step(&mut machine, Event::Control(Control::Terminate));
    let actions = step(&mut machine, Event::HookDone(Ok(())));
    assert!(actions.contains(&Action::RunHook(Hook::Stop)));
}

/// A shell in miniature: a queue, calls in flight, and who asked to start.
#[derive(Default)]
struct Shell {
    gate: Option<Gate>,
    queued: Vec<usize>,
    in_flight: Vec<usize>,
    starts: Vec<usize>,
    answers: Vec<usize>,
    hook_running: bool,
    actor_lives: bool,
    finished: usize,
}

impl Shell {
    fn new_ask(&mut self) -> usize {
        self.answers.push(0);
        self.answers.len() - 1
    }

    fn answer(&mut self, asks: Vec<usize>) {
        for ask in asks {
            self.answers[ask] += 1;
        }
    }

    fn ask(&mut self) {
        let ask = self.new_ask();
        match self.gate {
            Some(Gate::Open | Gate::Hold) => self.queued.push(ask),
            None | Some(Gate::Refuse | Gate::Closed(_)) => self.answer(vec![ask]),
        }
    }

    fn run(&mut self, actions: Vec<Action>, start: Option<usize>) {
        self.starts.extend(start);
        for action in actions {
            assert_eq!(self.finished, 0, "an action after the last one");
            match action {
                Action::SetGate(gate) => {
                    if matches!(gate, Gate::Refuse | Gate::Closed(_)) {
                        let queued = std::mem::take(&mut self.queued);
                        self.answer(queued);
                    }
                    self.gate = Some(gate);
                }
                Action::RunHook(_) => {
                    assert!(self.actor_lives && !self.hook_running);
                    self.hook_running = true;
                }
                Action::AnswerStart(_) => {
                    let starts = std::mem::take(&mut self.starts);
                    self.answer(starts);
                }
                Action::RefuseControl(_) => {
                    let start = self.starts.pop().into_iter().collect();
                    self.answer(start);
                }
                Action::AnswerInFlight(_) => {
                    let in_flight = std::mem::take(&mut self.in_flight);
                    self.answer(in_flight);
                }
                Action::EndActor => {
                    self.actor_lives = false;
                    self.hook_running = false;
                }
                Action::Spawn => {
                    assert!(!self.actor_lives);
                    self.actor_lives = true;
                }
                Action::Finish(_) => self.finished += 1,
                Action::AcceptControl | Action::ArmBackOff(_) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn no_sequence_of_events_leaves_an_ask_unresolved(
        supervised in any::<bool>(),
        steps in proptest::collection::vec(0_u8..10, 0..60),
    ) {
        let policy = RestartPolicy::default().max_restarts(2).seed(1);
        let mut machine = Lifecycle::new(supervised.then(|| RestartBudget::new(policy)));
        let mut shell = Shell { actor_lives: true, ..Shell::default() };
        for step_number in steps {
            let (event, is_start) = match step_number {
                0 => (Event::Control(Control::Start), true),
                1 => (Event::Control(Control::Stop), false),
                2 => (Event::Control(Control::Terminate), false),
                3 if shell.hook_running => { shell.hook_running = false; (Event::HookDone(Ok(())), false) }
                4 if shell.hook_running => { shell.hook_running = false; (Event::HookDone(Err(boom())), false) }
                5 if shell.actor_lives => (Event::Failed(Failure::Panic(boom())), false),
                6 if !shell.actor_lives => (Event::BackOffOver, false),
                7 => { shell.ask(); continue; }
                8 if shell.gate == Some(Gate::Open) => {
                    let call = shell.queued.pop();
                    shell.in_flight.extend(call);
                    continue;
                }
                9 if shell.actor_lives => (Event::Failed(Failure::StoppedItself), false),
                _ => continue,
            };
            let actions = machine.step(Duration::ZERO, event);
            if shell.finished > 0 {
                let is_answer =
                    |a: &Action| matches!(a, Action::AcceptControl | Action::RefuseControl(_));
                prop_assert!(actions.iter().all(is_answer));
                continue;
            }
            let start = is_start.then(|| shell.new_ask());
            shell.run(actions, start);
        }
        if shell.finished == 0 {
            let actions = machine.step(Duration::ZERO, Event::Abort(boom()));
            shell.run(actions, None);
        }
        prop_assert_eq!(shell.finished, 1);
        prop_assert!(shell.answers.iter().all(|count| *count == 1), "{:?}", shell.answers);
    }
}
