//! Whatever a client does that rolls back only all: nothing is lost and order is kept.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::super::*;
use super::client::*;

#[derive(Debug, Clone)]
enum Step {
    Commit(u64),
    /// From the first or the second connection; they share the client id.
    Get(i32, bool),
    Ack,
    Rollback,
    /// The first connection is replaced; a good client rolls back then.
    Reconnect,
    Restart(Restart),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..4_u64).prop_map(Step::Commit),
        6 => (1..5_i32, any::<bool>()).prop_map(|(size, second)| Step::Get(size, second)),
        4 => Just(Step::Ack),
        1 => Just(Step::Rollback),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Restart(Restart::Graceful)),
        1 => Just(Step::Restart(Restart::Killed)),
        1 => (1..1_500_u64).prop_map(Step::Pass),
    ]
}

/// What has to come next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Exactly(u64),
    /// After a restart: at a boundary that is not behind this.
    AtMost(u64),
}

proptest! {
    #[test]
    fn every_entry_comes_in_order_until_it_is_acknowledged(
        steps in proptest::collection::vec(step(), 1..80),
        slots in 1..9_usize,
    ) {
        let mut lab = Lab::with(ServerSettings::default(), items().with_slots(slots));
        let mut clients = [lab.subscribed(), lab.subscribed()];
        let (mut committed, mut acknowledged) = (0, 0);
        let mut outstanding: VecDeque<(i64, u64)> = VecDeque::new();
        let mut next = Next::Exactly(0);
        let drain = std::iter::repeat_n([Step::Get(3, false), Step::Ack], 600).flatten();
        let last = [Step::Rollback].into_iter().chain(drain);
        for step in steps.into_iter().chain(last) {
            match step {
                Step::Commit(count) => {
                    lab.commit(count);
                    committed += 2 * count;
                }
                Step::Get(size, second) => {
                    let client = clients[usize::from(second)];
                    let heard = lab.send(client, &get(size, -1));
                    let [Heard::Batch(id, count)] = heard[..] else {
                        panic!("{heard:?}");
                    };
                    if count == 0 {
                        continue;
                    }
                    let entries = last_entries(&lab);
                    match next {
                        Next::Exactly(next) => prop_assert_eq!(entries[0], next),
                        Next::AtMost(next) => {
                            prop_assert!(entries[0] <= next);
                            // the new server process holds only the cursor as acknowledged
                            acknowledged = entries[0];
                        }
                    }
                    prop_assert!(entries.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                    let end = entries[entries.len() - 1] + 1;
                    outstanding.push_back((id, end));
                    next = Next::Exactly(end);
                }
                Step::Ack => {
                    if let Some((id, end)) = outstanding.pop_front() {
                        prop_assert_eq!(lab.send(clients[0], &ack(id)), []);
                        acknowledged = end;
                    }
                }
                Step::Rollback => {
                    prop_assert_eq!(lab.send(clients[0], &rollback(0)), []);
                    outstanding.clear();
                    if matches!(next, Next::Exactly(_)) {
                        next = Next::Exactly(acknowledged);
                    }
                }
                Step::Reconnect => {
                    lab.event(Event::Disconnected { id: clients[0] });
                    clients[0] = lab.subscribed();
                    lab.send(clients[0], &rollback(0));
                    outstanding.clear();
                    if matches!(next, Next::Exactly(_)) {
                        next = Next::Exactly(acknowledged);
                    }
                }
                Step::Restart(how) => {
                    lab.machine.restart(how);
                    clients = [lab.subscribed(), lab.subscribed()];
                    outstanding.clear();
                    let bound = match next {
                        Next::AtMost(bound) => bound,
                        Next::Exactly(_) => acknowledged,
                    };
                    next = Next::AtMost(bound);
                }
                Step::Pass(milliseconds) => {
                    lab.pass(Duration::from_millis(milliseconds));
                }
            }
        }
        if committed > 0 {
            prop_assert_eq!(acknowledged, committed, "all came in the end");
        }
    }

    #[test]
    fn any_bytes_are_served_or_close_the_connection(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8),
        bodies in proptest::collection::vec((0..14_i32, proptest::collection::vec(any::<u8>(), 0..30)), 0..8),
    ) {
        let mut lab = Lab::new();
        for connect in [Lab::connect, Lab::subscribed] {
            let id = connect(&mut lab);
            for (kind, body) in &bodies {
                let packet = crate::protocol::generated::packet::Packet {
                    r#type: *kind,
                    body: body.clone().into(),
                    ..Default::default()
                };
                lab.send(id, &prost::Message::encode_to_vec(&packet).into());
            }
            for chunk in &chunks {
                lab.send_bytes(id, chunk.clone());
            }
        }
        let other = lab.connect();
        let heard = lab.send(other, &sub(EXAMPLE, "1001", ""));
        prop_assert_eq!(heard, [Heard::Success], "others are served");
    }
}
