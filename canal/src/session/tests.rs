//! The session's machine, without a socket.

use super::*;
use crate::error::EpochEnd;
use crate::identity::ClientIdentity;
use crate::protocol::generated::entry as entries;
use crate::protocol::generated::packet::{Ack, Handshake, PacketType};
use crate::protocol::packet::{Subscriber, packet};
use proptest::prelude::*;
use prost::Message as _;

const SEEDS: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// A session with a clock of its own, and what the wire would carry.
struct Lab {
    session: Session,
    now: Instant,
}

fn config() -> SessionConfig {
    SessionConfig::new(
        ClientIdentity::new("example"),
        "canal".into(),
        "canal".into(),
    )
}

fn subscriber() -> Subscriber {
    config().subscriber
}

fn ack(code: i32, text: &str) -> Bytes {
    packet(
        PacketType::Ack,
        &Ack {
            error_code: Some(code),
            error_message: text.to_owned(),
        },
    )
}

fn heartbeat_answer() -> Bytes {
    ack(400, "packet type=HEARTBEAT is NOT supported!")
}

fn row(offset: i64) -> Bytes {
    let header = entries::Header {
        logfile_offset: offset,
        ..Default::default()
    };
    let entry = entries::Entry {
        header: Some(header),
        entry_type: Some(entries::EntryType::RowData.into()),
        store_value: Bytes::new(),
    };
    Bytes::from(entry.encode_to_vec())
}

fn transaction_end(id: &str) -> Bytes {
    let end = entries::TransactionEnd {
        transaction_id: id.to_owned(),
        ..Default::default()
    };
    let entry = entries::Entry {
        header: None,
        entry_type: Some(entries::EntryType::TransactionEnd.into()),
        store_value: Bytes::from(end.encode_to_vec()),
    };
    Bytes::from(entry.encode_to_vec())
}

fn batch(batch_id: i64, messages: &[Bytes]) -> Bytes {
    packet(
        PacketType::Messages,
        &Messages {
            batch_id,
            messages: messages.to_vec(),
        },
    )
}

fn nothing() -> Bytes {
    batch(NO_BATCH, &[])
}

impl Lab {
    fn dialling() -> Self {
        let now = Instant::now();
        Self {
            session: Session::new(config(), 0, now),
            now,
        }
    }

    /// Connected, and authentication sent.
    fn authenticating(seeds: &[u8]) -> Self {
        let mut lab = Self::dialling();
        assert!(lab.step(Event::Connected).is_empty());
        let handshake = Handshake {
            seeds: Bytes::copy_from_slice(seeds),
            ..Handshake::default()
        };
        let actions = lab.receive(packet(PacketType::Handshake, &handshake));
        assert!(matches!(&actions[..], [Action::Send(_)]));
        lab
    }

    fn authenticated(seeds: &[u8]) -> Self {
        let mut lab = Self::authenticating(seeds);
        assert_eq!(lab.receive(ack(0, "")), [Action::Done(Done::Authenticated)]);
        lab
    }

    fn streaming() -> Self {
        let mut lab = Self::authenticated(&SEEDS);
        lab.subscribe();
        lab
    }

    fn subscribe(&mut self) {
        let sent = self
            .request(Request::Subscribe {
                filter: String::new(),
            })
            .unwrap();
        assert_eq!(sent, [Action::Send(subscriber().subscription(""))]);
        let sent = self.receive(ack(0, ""));
        assert_eq!(
            sent,
            [
                Action::Send(subscriber().rollback_all()),
                Action::Send(packet::heartbeat())
            ]
        );
        assert_eq!(self.session.phase(), SessionPhase::RolledBack);
        assert_eq!(
            self.receive(heartbeat_answer()),
            [Action::Done(Done::Subscribed)]
        );
        assert_eq!(self.session.phase(), SessionPhase::Streaming);
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        self.session.step(self.now, event)
    }

    fn receive(&mut self, packet: Bytes) -> Vec<Action> {
        self.step(Event::Received(packet))
    }

    fn request(&mut self, request: Request) -> Result<Vec<Action>, CanalError> {
        self.session.request(self.now, request)
    }

    fn get(&mut self) {
        let sent = self
            .request(Request::Get {
                fetch_size: 100,
                timeout: None,
            })
            .unwrap();
        assert_eq!(sent, [Action::Send(subscriber().get(100, -1))]);
    }

    fn fetch(&mut self, id: i64, messages: &[Bytes]) -> BatchId {
        self.get();
        match &self.receive(batch(id, messages))[..] {
            [Action::Done(Done::Fetched(Some(message)))] => message.id(),
            other => panic!("{other:?}"),
        }
    }

    fn closes(&mut self, packet: Bytes) -> CanalError {
        let mut actions = self.receive(packet);
        let Some(Action::Close(error)) = actions.pop() else {
            panic!("did not close")
        };
        assert!(
            actions.is_empty(),
            "something was done before it closed: {actions:?}"
        );
        assert_eq!(self.session.phase(), SessionPhase::Closed);
        assert!(
            self.receive(nothing()).is_empty(),
            "a closed session goes on"
        );
        error
    }
}

#[test]
fn a_subscription_is_followed_by_rollback_all_and_a_probe() {
    Lab::streaming();
}

#[test]
fn the_first_error_after_authentication_closes() {
    let mut lab = Lab::authenticating(&SEEDS);
    let error = lab.closes(ack(400, "auth failed for user:canal\n\tat java.lang"));
    let message = "auth failed for user:canal".to_owned();
    assert_eq!(
        error,
        CanalError::AuthFailed {
            user: "canal".into(),
            message
        }
    );
    // What servers below 1.1.8 send next.
    assert!(lab.receive(ack(0, "")).is_empty());
}

#[test]
fn a_race_within_the_server_is_not_taken_for_a_wrong_password() {
    let error = Lab::authenticating(&SEEDS).closes(ack(400, "auth failed for seed is null"));
    assert!(error.is_retryable(), "{error}");
}

#[test]
fn every_phase_has_a_deadline() {
    let passed = |mut lab: Lab, phase: SessionPhase| {
        lab.now = lab.session.deadline().unwrap();
        let actions = lab.step(Event::Tick);
        assert!(
            matches!(&actions[..], [Action::Close(CanalError::Timeout { phase: at, .. })] if *at == phase),
            "{actions:?}"
        );
    };
    passed(Lab::dialling(), SessionPhase::Dial);
    let mut lab = Lab::dialling();
    lab.step(Event::Connected);
    passed(lab, SessionPhase::Handshake);
    passed(Lab::authenticating(&SEEDS), SessionPhase::Authentication);
    let mut lab = Lab::authenticated(&SEEDS);
    lab.request(Request::Subscribe {
        filter: String::new(),
    })
    .unwrap();
    passed(lab, SessionPhase::Subscription);
    let mut lab = Lab::authenticated(&SEEDS);
    lab.request(Request::Subscribe {
        filter: String::new(),
    })
    .unwrap();
    lab.receive(ack(0, ""));
    passed(lab, SessionPhase::RolledBack);
    let mut lab = Lab::streaming();
    assert_eq!(lab.session.deadline(), None);
    lab.get();
    passed(lab, SessionPhase::Streaming);
}

#[test]
fn a_tick_before_the_deadline_does_nothing() {
    let mut lab = Lab::streaming();
    lab.get();
    lab.now = lab.session.deadline().unwrap() - Duration::from_millis(1);
    assert!(lab.step(Event::Tick).is_empty());
}

#[test]
fn an_acks_error_is_put_down_to_the_ack_and_not_to_the_get_behind_it() {
    let mut lab = Lab::streaming();
    let first = lab.fetch(1, &[row(1)]);
    let second = lab.fetch(2, &[row(2)]);
    lab.request(Request::Acknowledge(second)).unwrap();
    lab.get();
    let error = lab.closes(ack(
        400,
        "ack error , clientId:1001 batchId:2 is not exist , please check",
    ));
    assert!(matches!(error, CanalError::UnknownBatch { batch, .. } if batch == second));
    assert_ne!(first, second);
}

#[test]
fn an_error_out_of_order_is_put_down_to_the_batch_it_names() {
    let mut lab = Lab::streaming();
    let first = lab.fetch(7, &[row(1)]);
    lab.request(Request::Acknowledge(first)).unwrap();
    let error = lab.closes(ack(400, "batchId:7 is not the firstly:6"));
    assert!(matches!(error, CanalError::NotTheFirst { batch, .. } if batch == first));
}

#[test]
fn texts_of_the_server_become_typed_errors() {
    let after_subscribe = |text: &str, code: i32| {
        let mut lab = Lab::authenticated(&SEEDS);
        lab.request(Request::Subscribe {
            filter: String::new(),
        })
        .unwrap();
        lab.closes(ack(code, text))
    };
    assert!(matches!(
        after_subscribe("something:destination:nope should start first\n\tat", 400),
        CanalError::NotRunningHere { .. }
    ));
    assert!(matches!(
        after_subscribe("ClientIdentity[..] should subscribe first", 400),
        CanalError::NotSubscribed {
            client_id: 1001,
            ..
        }
    ));
    assert_eq!(
        after_subscribe("java.lang.NumberFormatException: Value out of range", 400),
        CanalError::InvalidClientId(1001)
    );
    assert_eq!(
        after_subscribe("destination or clientId is null", 401),
        CanalError::Server {
            code: 401,
            message: "destination or clientId is null".into()
        }
    );
}

#[test]
fn acks_are_sent_one_a_batch_in_order_and_confirmed_by_the_next_answer() {
    let mut lab = Lab::streaming();
    let first = lab.fetch(1, &[row(1)]);
    let second = lab.fetch(2, &[row(2)]);
    let third = lab.fetch(3, &[row(3)]);
    let sent = lab.request(Request::Acknowledge(second)).unwrap();
    assert_eq!(
        sent,
        [
            Action::Send(subscriber().acknowledgement(1)),
            Action::Send(subscriber().acknowledgement(2))
        ]
    );
    assert_eq!(lab.session.ledger().unconfirmed(), 2);
    assert_eq!(lab.session.ledger().unacknowledged(), 1);
    assert_eq!(lab.session.ledger().last_confirmed(), None);
    lab.request(Request::Probe).unwrap();
    let number = lab.session.last_probe();
    assert_eq!(
        lab.receive(heartbeat_answer()),
        [Action::Done(Done::Probed(number))]
    );
    assert_eq!(lab.session.ledger().last_confirmed(), Some(second));
    assert_eq!(lab.session.ledger().unconfirmed(), 0);
    assert!(matches!(
        lab.request(Request::Acknowledge(first)),
        Err(CanalError::UnknownBatch { .. })
    ));
    lab.request(Request::Acknowledge(third)).unwrap();
}

#[test]
fn a_batch_of_another_epoch_is_refused_here() {
    let mut lab = Lab::streaming();
    let old = lab.fetch(1, &[row(1)]);
    lab.request(Request::RollbackAll).unwrap();
    let error = lab.request(Request::Acknowledge(old)).unwrap_err();
    assert!(matches!(error, CanalError::StaleBatch { batch, .. } if batch == old));
    assert!(matches!(
        lab.request(Request::RollbackTo(old)),
        Err(CanalError::StaleBatch { .. })
    ));
    let again = lab.fetch(2, &[row(1)]);
    assert!(again.epoch() > old.epoch());
}

#[test]
fn rollback_to_needs_the_earlier_batches_acknowledged() {
    let mut lab = Lab::streaming();
    let first = lab.fetch(1, &[row(1)]);
    let second = lab.fetch(2, &[row(2)]);
    assert_eq!(
        lab.request(Request::RollbackTo(second)).unwrap_err(),
        CanalError::EarlierBatchesOutstanding {
            batch: second,
            first
        }
    );
    lab.request(Request::Acknowledge(first)).unwrap();
    let sent = lab.request(Request::RollbackTo(second)).unwrap();
    assert_eq!(sent, [Action::Send(subscriber().rollback_all())]);
}

#[test]
fn a_hole_in_the_numbers_ends_the_epoch() {
    let mut lab = Lab::streaming();
    lab.fetch(5, &[row(1)]);
    lab.get();
    let error = lab.closes(batch(7, &[row(3)]));
    let CanalError::EpochEnded { reason, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        reason,
        EpochEnd::Hole {
            expected: 6,
            got: 7
        }
    );
}

#[test]
fn a_batch_that_begins_with_the_first_unacknowledged_entry_ends_the_epoch() {
    let mut lab = Lab::streaming();
    let first = lab.fetch(1, &[row(1), row(2)]);
    lab.fetch(2, &[row(3)]);
    lab.request(Request::Acknowledge(first)).unwrap();
    lab.get();
    let error = lab.closes(batch(3, &[row(3), row(4)]));
    assert!(matches!(
        error,
        CanalError::EpochEnded {
            reason: EpochEnd::StartedAgain,
            ..
        }
    ));
}

#[test]
fn what_was_rolled_back_is_noticed_behind_a_transactions_end() {
    let mut lab = Lab::streaming();
    lab.fetch(1, &[transaction_end("57"), row(1)]);
    // smaller batches than before
    lab.fetch(2, &[transaction_end("57")]);
    lab.get();
    let error = lab.closes(batch(3, &[row(1)]));
    assert!(matches!(
        error,
        CanalError::EpochEnded {
            reason: EpochEnd::StartedAgain,
            ..
        }
    ));
}

#[test]
fn ends_and_statements_that_the_server_repeats_do_not_end_the_epoch() {
    let mut lab = Lab::streaming();
    let statement = entries::Entry {
        header: Some(entries::Header {
            event_type: Some(entries::EventType::Query.into()),
            ..Default::default()
        }),
        entry_type: Some(entries::EntryType::RowData.into()),
        store_value: Bytes::new(),
    };
    let statement = Bytes::from(statement.encode_to_vec());
    lab.fetch(1, &[statement.clone(), transaction_end("57")]);
    lab.fetch(2, &[transaction_end("57")]);
    lab.fetch(3, std::slice::from_ref(&statement));
    lab.fetch(4, &[statement, row(1)]);
}

#[test]
fn what_a_get_fetched_before_a_rollback_is_not_handed_out() {
    let mut lab = Lab::streaming();
    lab.get();
    lab.request(Request::RollbackAll).unwrap();
    assert!(!lab.session.get_in_flight());
    lab.get();
    assert!(lab.receive(batch(1, &[row(1)])).is_empty());
    let actions = lab.receive(batch(2, &[row(1)]));
    assert!(matches!(
        &actions[..],
        [Action::Done(Done::Fetched(Some(_)))]
    ));
}

#[test]
fn an_answer_nobody_asked_for_closes() {
    assert!(matches!(
        Lab::streaming().closes(nothing()),
        CanalError::Protocol(_)
    ));
    assert!(matches!(
        Lab::streaming().closes(ack(0, "")),
        CanalError::Protocol(_)
    ));
    assert!(matches!(
        Lab::streaming().closes(ack(400, "boom")),
        CanalError::Server { .. }
    ));
    assert!(matches!(
        Lab::streaming().closes(Bytes::from_static(b"\xff\xff")),
        CanalError::Protocol(_)
    ));
}

#[test]
fn a_get_is_refused_when_the_server_would_block_or_fail() {
    let mut lab = Lab::streaming();
    let seconds = Duration::from_secs;
    for (fetch_size, timeout) in [
        (0, None),
        (2_097_152, None),
        (u32::MAX, None),
        (1, Some(Duration::ZERO)),
        (1, Some(seconds(30))),
        (1, Some(Duration::MAX)),
    ] {
        let refused = lab.request(Request::Get {
            fetch_size,
            timeout,
        });
        assert!(
            matches!(refused, Err(CanalError::InvalidArgument(_))),
            "{fetch_size} {timeout:?}"
        );
    }
    let nanosecond = Some(Duration::from_nanos(1));
    let sent = lab
        .request(Request::Get {
            fetch_size: 2_097_151,
            timeout: nanosecond,
        })
        .unwrap();
    assert_eq!(sent, [Action::Send(subscriber().get(2_097_151, 1))]);
}

#[test]
fn requests_need_a_subscription() {
    let mut lab = Lab::authenticated(&SEEDS);
    let error = lab
        .request(Request::Get {
            fetch_size: 1,
            timeout: None,
        })
        .unwrap_err();
    assert!(matches!(error, CanalError::NotSubscribed { .. }));
    assert!(matches!(
        lab.request(Request::RollbackAll),
        Err(CanalError::NotSubscribed { .. })
    ));
    let error = Lab::dialling().request(Request::Probe).unwrap_err();
    assert_eq!(error, CanalError::NotConnected);
}

#[test]
fn unsubscribing_makes_what_is_outstanding_void() {
    let mut lab = Lab::streaming();
    let old = lab.fetch(1, &[row(1)]);
    let sent = lab.request(Request::Unsubscribe).unwrap();
    assert_eq!(sent, [Action::Send(subscriber().unsubscription())]);
    assert_eq!(lab.receive(ack(0, "")), [Action::Done(Done::Unsubscribed)]);
    lab.subscribe();
    assert!(matches!(
        lab.request(Request::Acknowledge(old)),
        Err(CanalError::StaleBatch { .. })
    ));
}

#[test]
fn servers_without_seeds_are_probed_by_a_get_that_loses_nothing() {
    let mut lab = Lab::authenticated(&[]);
    lab.request(Request::Subscribe {
        filter: String::new(),
    })
    .unwrap();
    let sent = lab.receive(ack(0, ""));
    assert_eq!(
        sent,
        [
            Action::Send(subscriber().rollback_all()),
            Action::Send(subscriber().get(1, -1))
        ]
    );
    let actions = lab.receive(batch(1, &[row(1)]));
    let [
        Action::Done(Done::Fetched(Some(message))),
        Action::Done(Done::Subscribed),
    ] = &actions[..]
    else {
        panic!("{actions:?}");
    };
    lab.request(Request::Acknowledge(message.id())).unwrap();
    lab.request(Request::Probe).unwrap();
    let number = lab.session.last_probe();
    assert_eq!(lab.receive(nothing()), [Action::Done(Done::Probed(number))]);
}

#[test]
fn settings_that_cannot_work_together_are_refused() {
    let mut wrong = config();
    wrong.net_read_timeout = wrong.request_timeout;
    assert!(matches!(wrong.check(), Err(CanalError::InvalidArgument(_))));
    let mut wrong = config();
    wrong.net_write_timeout = Duration::MAX;
    wrong.net_read_timeout = Duration::MAX;
    assert!(matches!(wrong.check(), Err(CanalError::InvalidArgument(_))));
    config().check().unwrap();
}

proptest! {
    /// Whatever a server sends, in any order: no panic, and nothing after the session has closed.
    #[test]
    fn any_packets_in_any_order(choices in proptest::collection::vec((0_u8..12, any::<u8>()), 0..60)) {
        let mut lab = Lab::streaming();
        let mut handed_out = Vec::new();
        for (choice, number) in choices {
            let closed = lab.session.phase() == SessionPhase::Closed;
            let actions = match choice {
                0 => lab.receive(ack(0, "")),
                1 => lab.receive(heartbeat_answer()),
                2 => lab.receive(ack(400, "ack error , clientId:1001 batchId:1 is not exist")),
                3 => lab.receive(nothing()),
                4 => lab.receive(batch(i64::from(number % 4), &[row(number.into())])),
                5 => lab.receive(Bytes::copy_from_slice(&[number, choice])),
                6 => lab.step(Event::Tick),
                7 => lab.request(Request::RollbackAll).unwrap_or_default(),
                8 => lab.request(Request::Probe).unwrap_or_default(),
                9 => handed_out.last().map_or_else(Vec::new, |batch| {
                    lab.request(Request::Acknowledge(*batch)).unwrap_or_default()
                }),
                10 => lab.request(Request::Subscribe { filter: String::new() }).unwrap_or_default(),
                _ => lab.request(Request::Get { fetch_size: 1, timeout: None }).unwrap_or_default(),
            };
            prop_assert!(!closed || actions.is_empty());
            for action in actions {
                if let Action::Done(Done::Fetched(Some(message))) = action {
                    handed_out.push(message.id());
                }
            }
        }
        // Numbers of one epoch are handed out once each and in order.
        prop_assert!(handed_out.is_sorted());
        prop_assert!(handed_out.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
