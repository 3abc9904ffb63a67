//! Turns, take-overs and releases step by step, and never two active whatever is lost, late or held.

use super::*;
use proptest::prelude::*;

const SESSION: Duration = Duration::from_secs(10);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn settings(name: &str) -> Settings {
    Settings {
        client_id: 1001,
        host: name.to_owned(),
        take_over_delay: ms(500),
        release_pause: ms(5_000),
        patience: ms(10_000),
    }
}

fn seen(owner: i64, version: i32, address: &str) -> NodeSeen {
    NodeSeen {
        owner,
        version,
        data: Some(ClientRunningData::new(1001, address.to_owned())),
    }
}

/// A machine with session 7 that is active since `now`; its node was looked at once.
fn active(now: Duration) -> RunningMachine {
    let mut machine = RunningMachine::new(settings("10.0.0.1"));
    machine.join(now);
    assert_eq!(machine.step(now), Step::Connect);
    machine.session_started(now, 7, SESSION);
    let data = ClientRunningData::new(1001, "10.0.0.1".to_owned());
    assert_eq!(machine.step(now), Step::Create(data));
    machine.created(now, now);
    assert_eq!(machine.step(now), Step::Look, "so that the node is watched");
    machine.looked(now, now, Some(seen(7, 0, "10.0.0.1")));
    assert!(machine.activity().is_some());
    machine
}

#[test]
fn nothing_is_asked_before_it_is_wanted() {
    let mut machine = RunningMachine::new(settings("a"));
    assert_eq!(machine.step(ms(5)), Step::Wait(None));
    machine.join(ms(5));
    assert_eq!(machine.step(ms(5)), Step::Connect);
}

#[test]
fn a_turn_lasts_eight_tenths_of_a_session_from_the_sending() {
    let mut machine = active(ms(1_000));
    let turn = machine.activity().unwrap().clone();
    assert_eq!(turn.until(), ms(9_000));
    assert_eq!(machine.step(ms(1_000)), Step::Wait(Some(ms(3_500))));
    assert_eq!(machine.step(ms(3_500)), Step::Look);
    // Answered late: the sending counts.
    machine.looked(ms(3_500), ms(5_000), Some(seen(7, 0, "10.0.0.1")));
    assert_eq!(turn.until(), ms(11_500));
}

#[test]
fn a_client_that_was_held_beyond_its_deadline_is_not_active_any_longer() {
    let mut machine = active(ms(0));
    let turn = machine.activity().unwrap().clone();
    assert_eq!(machine.step(ms(8_000)), Step::Look);
    assert!(machine.activity().is_none());
    assert!(!turn.is_valid(ms(8_000)));
    // Another one has the node now.
    machine.looked(ms(8_000), ms(8_001), Some(seen(9, 3, "10.0.0.2:5")));
    assert!(machine.activity().is_none());
    let holder = machine.holder().unwrap();
    assert_eq!(holder.address, "10.0.0.2:5");
}

#[test]
fn an_answer_from_before_the_pause_does_not_bring_the_turn_back() {
    let mut machine = active(ms(0));
    assert_eq!(machine.step(ms(2_500)), Step::Look);
    // The answer lay in the socket while the process was held.
    machine.looked(ms(2_500), ms(60_000), Some(seen(7, 0, "10.0.0.1")));
    assert!(machine.activity().is_none());
    assert_eq!(machine.step(ms(60_000)), Step::Look);
}

#[test]
fn a_standby_takes_over_half_a_second_after_the_node_is_gone() {
    let mut machine = RunningMachine::new(settings("b"));
    machine.join(ms(0));
    machine.session_started(ms(0), 8, SESSION);
    assert!(matches!(machine.step(ms(0)), Step::Create(_)));
    machine.exists();
    assert_eq!(machine.step(ms(0)), Step::Look);
    machine.looked(ms(0), ms(1), Some(seen(7, 0, "a:1")));
    assert!(machine.decided());
    assert_eq!(machine.step(ms(1)), Step::Wait(Some(ms(2_501))));
    machine.changed(ms(100));
    assert_eq!(machine.step(ms(100)), Step::Look);
    machine.looked(ms(100), ms(101), None);
    assert_eq!(machine.step(ms(101)), Step::Wait(Some(ms(601))));
    assert!(matches!(machine.step(ms(601)), Step::Create(_)));
}

#[test]
fn the_client_whose_node_was_deleted_goes_first() {
    let mut machine = active(ms(0));
    machine.changed(ms(100));
    assert_eq!(machine.step(ms(100)), Step::Look);
    machine.looked(ms(100), ms(101), None);
    assert!(machine.activity().is_none(), "the turn is over");
    assert!(matches!(machine.step(ms(101)), Step::Create(_)));
}

#[test]
fn released_by_an_administrator_it_lets_others_go_first_and_comes_back() {
    let mut machine = active(ms(0));
    let turn = machine.activity().unwrap().clone();
    let mut released = seen(7, 1, "10.0.0.1");
    released.data.as_mut().unwrap().active = false;
    machine.changed(ms(100));
    machine.looked(ms(100), ms(101), Some(released));
    assert!(!turn.is_valid(ms(101)));
    assert_eq!(machine.step(ms(101)), Step::CloseSession);
    machine.session_ended(ms(102), 1.0);
    assert_eq!(machine.step(ms(102)), Step::Wait(Some(ms(5_101))));
    assert_eq!(machine.step(ms(5_101)), Step::Connect);
    machine.session_started(ms(5_101), 8, SESSION);
    machine.created(ms(5_101), ms(5_101));
    machine.looked(ms(5_101), ms(5_101), Some(seen(8, 0, "10.0.0.1")));
    // Nothing of the release is left.
    machine.changed(ms(5_200));
    machine.looked(ms(5_200), ms(5_200), None);
    assert!(matches!(machine.step(ms(5_200)), Step::Create(_)));
}

#[test]
fn a_node_that_somebody_else_has_overwritten_ends_the_turn() {
    let mut machine = active(ms(0));
    machine.looked(ms(100), ms(101), Some(seen(7, 1, "10.0.0.9:1")));
    assert!(machine.activity().is_none());
}

#[test]
fn the_connections_address_is_written_once() {
    let mut machine = active(ms(0));
    machine.connected("10.0.0.1:55".to_owned());
    let data = ClientRunningData::new(1001, "10.0.0.1:55".to_owned());
    assert_eq!(machine.step(ms(1)), Step::Write(data.clone(), 0));
    machine.written(data, 1);
    assert!(matches!(machine.step(ms(1)), Step::Wait(_)));
    machine.looked(ms(2), ms(2), Some(seen(7, 1, "10.0.0.1:55")));
    assert!(machine.activity().is_some());
}

#[test]
fn a_write_whose_answer_was_lost_is_no_foreign_one() {
    let mut machine = active(ms(0));
    machine.connected("10.0.0.1:55".to_owned());
    assert!(matches!(machine.step(ms(1)), Step::Write(..)));
    machine.request_failed(ms(2));
    machine.looked(ms(600), ms(600), Some(seen(7, 1, "10.0.0.1:55")));
    assert!(machine.activity().is_some());
    assert!(matches!(machine.step(ms(601)), Step::Wait(_)));
}

#[test]
fn a_canal_server_that_is_down_for_a_minute_costs_few_writes() {
    let mut machine = active(ms(0));
    let (mut writes, mut now) = (1, ms(0));
    let mut session = 7;
    while now < ms(60_000) {
        match machine.step(now) {
            Step::Connect => {
                session += 1;
                machine.session_started(now, session, SESSION);
            }
            Step::Create(_) => {
                writes += 1;
                machine.created(now, now);
            }
            Step::Look => machine.looked(now, now, Some(seen(session, 0, "10.0.0.1"))),
            Step::CloseSession => {
                writes += 1;
                machine.session_ended(now, 0.0);
            }
            Step::Wait(_) => {
                // A connector that tries as often as it can.
                machine.connect_failed(now, 0.0);
                now += ms(100);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(writes <= 12, "{writes}");
    assert!(writes > 2, "others get their turn too");
}

#[test]
fn a_node_that_belongs_to_no_session_is_reported() {
    let mut machine = RunningMachine::new(settings("b"));
    machine.join(ms(0));
    machine.session_started(ms(0), 8, SESSION);
    machine.exists();
    machine.looked(ms(0), ms(0), Some(seen(0, 0, "old")));
    assert!(machine.leftover());
    machine.looked(ms(10), ms(10), None);
    let _ = machine.step(ms(510));
    machine.created(ms(510), ms(510));
    assert!(!machine.leftover());
}

#[test]
fn resigning_ends_the_turn_and_the_session() {
    let mut machine = active(ms(0));
    let turn = machine.activity().unwrap().clone();
    machine.resign();
    assert!(!turn.is_valid(ms(1)));
    assert_eq!(machine.step(ms(1)), Step::CloseSession);
    machine.session_ended(ms(2), 0.5);
    assert_eq!(machine.step(ms(2)), Step::Wait(None));
    machine.join(ms(3));
    assert_eq!(machine.step(ms(3)), Step::Connect);
    machine.stop();
    assert_eq!(machine.step(ms(4)), Step::Finished);
}

type Answer = Box<dyn FnOnce(&mut RunningMachine, Duration)>;

/// ZooKeeper as far as the machine uses it: one node, sessions that expire, answers that come late
/// or never. Every machine has the same clock, and may be held for any time.
struct Model {
    now: Duration,
    node: Option<(i64, i32, ClientRunningData)>,
    next_session: i64,
    last_heard: std::collections::BTreeMap<i64, Duration>,
}

impl Model {
    fn expire(&mut self) {
        let now = self.now;
        self.last_heard.retain(|_, heard| now < *heard + SESSION);
        if let Some((owner, ..)) = &self.node
            && !self.last_heard.contains_key(owner)
        {
            self.node = None;
        }
    }

    /// One step of one machine. `fate`: 0 the request is lost, 1 its answer is, else both arrive.
    fn carry_out(
        &mut self,
        machine: &mut RunningMachine,
        session: &mut i64,
        fate: u8,
        late: Duration,
    ) {
        let sent = self.now;
        let step = machine.step(sent);
        if let Step::Wait(_) | Step::Finished = step {
            return;
        }
        self.expire();
        let alive = self.last_heard.contains_key(session);
        if fate == 0 && step != Step::Connect {
            self.now += late;
            return machine.request_failed(self.now);
        }
        if alive && step != Step::Connect {
            self.last_heard.insert(*session, sent);
        }
        let mut answer: Answer = Box::new(|machine, now| machine.session_ended(now, 0.5));
        match step {
            Step::Connect => {
                self.next_session += 1;
                *session = self.next_session;
                self.last_heard.insert(*session, sent);
                let id = *session;
                answer = Box::new(move |machine, now| machine.session_started(now, id, SESSION));
            }
            _ if !alive => {}
            Step::Create(data) => {
                if self.node.is_some() {
                    answer = Box::new(|machine, _| machine.exists());
                } else {
                    self.node = Some((*session, 0, data));
                    answer = Box::new(move |machine, now| machine.created(sent, now));
                }
            }
            Step::Look => {
                let seen = self.node.clone().map(|(owner, version, data)| NodeSeen {
                    owner,
                    version,
                    data: Some(data),
                });
                answer = Box::new(move |machine, now| machine.looked(sent, now, seen));
            }
            Step::Write(data, version) => match &mut self.node {
                Some((owner, now, content)) if owner == session && *now == version => {
                    *now += 1;
                    content.clone_from(&data);
                    let version = *now;
                    answer = Box::new(move |machine, _| machine.written(data, version));
                }
                _ => answer = Box::new(|machine, now| machine.changed(now)),
            },
            Step::CloseSession => {
                self.last_heard.remove(session);
                self.expire();
            }
            Step::Wait(_) | Step::Finished => {}
        }
        self.now += late;
        if fate == 1 {
            machine.request_failed(self.now);
        } else {
            answer(machine, self.now);
        }
    }
}

proptest! {
    /// Whatever is lost, late or held: at no moment are two clients active by their own clocks,
    /// and the one that is active has the node.
    #[test]
    fn never_are_two_active(
        script in proptest::collection::vec((0_usize..3, 0_u8..8, 0_u64..12_000, 0_u8..12), 1..200),
    ) {
        let mut model = Model {
            now: ms(0),
            node: None,
            next_session: 0,
            last_heard: Default::default(),
        };
        let mut machines: Vec<_> = (0..3)
            .map(|index| (RunningMachine::new(settings(&format!("host{index}"))), 0_i64))
            .collect();
        for (machine, _) in &mut machines {
            machine.join(ms(0));
        }
        for (index, fate, late, event) in script {
            // Most answers come soon.
            let late = if late > 9_000 { ms(late) } else { ms(late / 100) };
            let now = model.now;
            let (machine, session) = &mut machines[index];
            match event {
                0 => machine.connected(format!("host{index}:{late:?}")),
                1 => machine.connect_failed(now, 0.5),
                2 => machine.resign(),
                3 | 4 => machine.join(now),
                5 => machine.changed(now),
                _ => {}
            }
            model.carry_out(machine, session, fate, late);
            model.now += ms(50);
            model.expire();
            let now = model.now;
            let active: Vec<_> = machines
                .iter()
                .filter(|(machine, _)| machine.activity().is_some_and(|turn| turn.is_valid(now)))
                .map(|(_, session)| *session)
                .collect();
            prop_assert!(active.len() <= 1, "{active:?}");
            if let Some(session) = active.first() {
                prop_assert_eq!(model.node.as_ref().map(|(owner, ..)| owner), Some(session));
            }
        }
    }
}
