//! The machine by table: one situation a test, frames in, frames and actions out.

mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use lockkeeper_core::{Outcome, RpcErrorKind};
use tokio_util::codec::Decoder;

use super::*;
use crate::wire::{
    Call, Cancel, Chunk, Connect, Connected, Credit, Disconnect, Ended, Failure, Farewell, Fault,
    Frame, FrameCodec, Goodbye, Grant, Ping, Pong, Progress, Refused, Reply, Tell, WireError,
};

/// Waiters and openers are numbers, sessions names, cancellation a flag.
pub(super) struct TestHost;

impl Host for TestHost {
    type Waiter = u64;
    type Opener = u64;
    type Served = &'static str;
    type Cancel = Arc<AtomicBool>;
}

pub(super) fn settings() -> Settings {
    Settings {
        version: 2,
        frame_limit: 64 * 1024,
        whole_limit: 32 * 1024,
        in_flight_limit: 3,
        session_limit: 2,
        grant: Grant {
            messages: 2,
            bytes: 100,
        },
        unsent_limit: 1000,
        ping_interval: Duration::from_secs(1),
        ping_timeout: Duration::from_secs(4),
    }
}

struct Rig {
    machine: Connection<TestHost>,
    now: Instant,
    actions: Vec<Action<TestHost>>,
}

impl Rig {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            machine: Connection::new(settings(), now),
            now,
            actions: Vec::new(),
        }
    }

    fn step(&mut self, event: Event<TestHost>) -> Vec<Action<TestHost>> {
        self.machine.step(self.now, event, &mut self.actions);
        std::mem::take(&mut self.actions)
    }

    fn call(&mut self, call: u32, waiter: u64) -> Vec<Action<TestHost>> {
        let deadline = self.now + Duration::from_secs(10);
        let payload = Bytes::from_static(b"p");
        self.step(Event::Call {
            call,
            session: 1,
            method: 0,
            deadline,
            trace: None,
            payload,
            room: 0,
            waiter,
        })
    }

    fn receive(&mut self, frame: Frame) -> Vec<Action<TestHost>> {
        self.step(Event::Received(frame))
    }

    /// Writes everything and returns the frames written.
    fn flush(&mut self) -> Vec<Frame> {
        let mut bytes = BytesMut::from(self.machine.unsent());
        let size = bytes.len();
        assert!(self.step(Event::Wrote(size)).is_empty());
        let mut codec = FrameCodec::new(u32::MAX);
        std::iter::from_fn(|| codec.decode(&mut bytes).unwrap()).collect()
    }

    /// A session of the peer's, numbered 1.
    fn serve(&mut self) {
        let actions = self.receive(Frame::Connect(connect()));
        assert!(matches!(&actions[..], [Action::Accept(_)]));
        self.step(Event::Accepted {
            request: 7,
            result: Ok("counter"),
        });
        assert_eq!(
            self.flush(),
            [Frame::Connected(Connected {
                request: 7,
                session: 1,
                grant: settings().grant,
            })]
        );
    }

    fn called(&mut self, call: u32) -> Vec<Action<TestHost>> {
        let payload = Bytes::from_static(b"p");
        self.receive(Frame::Call(Call {
            call,
            session: 1,
            method: 2,
            time_left_ms: 50,
            trace: None,
            payload,
        }))
    }
}

fn connect() -> Connect {
    Connect {
        request: 7,
        endpoint: "counter".to_owned(),
        gateway: "g".to_owned(),
        gateway_version: 1,
        token: None,
        methods: vec!["Add".to_owned()],
        shapes: vec![],
    }
}

fn resolved(actions: &[Action<TestHost>]) -> Vec<(u64, CallEnd)> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Resolve { waiter, end } => Some((*waiter, end.clone())),
            _ => None,
        })
        .collect()
}

fn ticket(actions: &[Action<TestHost>]) -> (Ticket, Arc<AtomicBool>) {
    match actions {
        [Action::Serve { ticket, serve }] => (*ticket, Arc::clone(&serve.cancel)),
        _ => panic!("no call to serve"),
    }
}

fn failure(frames: &[Frame]) -> &Fault {
    match frames {
        [Frame::Failure(failure)] => &failure.fault,
        other => panic!("no failure: {other:?}"),
    }
}

#[test]
fn a_call_is_sent_and_its_reply_resolves_it() {
    let mut rig = Rig::new();
    assert!(rig.call(1, 11).is_empty());
    let frames = rig.flush();
    assert!(matches!(&frames[..], [Frame::Call(call)] if call.time_left_ms == 10_000));
    let value = Bytes::from_static(b"5");
    let actions = rig.receive(Frame::Reply(Reply {
        call: 1,
        payload: value.clone(),
    }));
    assert_eq!(resolved(&actions), [(11, CallEnd::Value(value.clone()))]);
    // A second answer to the same call finds nobody.
    assert!(
        rig.receive(Frame::Reply(Reply {
            call: 1,
            payload: value
        }))
        .is_empty()
    );
    assert_eq!(rig.machine.calls_in_flight(), 0);
}

#[test]
fn when_the_link_breaks_sent_calls_are_unknown_and_unsent_ones_not_sent() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    rig.flush();
    rig.call(2, 12);
    let part = rig.machine.unsent().len() - 1;
    rig.step(Event::Wrote(part));
    let actions = rig.step(Event::Broken(Loss::Closed));
    let mut ends = resolved(&actions);
    ends.sort_by_key(|(waiter, _)| *waiter);
    assert_eq!(
        ends,
        [
            (11, CallEnd::Unknown(Loss::Closed)),
            (12, CallEnd::NotSent(Loss::Closed))
        ]
    );
    assert!(matches!(actions.last(), Some(Action::Close(Loss::Closed))));
    // What was reported as not sent is not sent by a last flush.
    assert!(rig.machine.unsent().is_empty());
    assert_eq!(
        resolved(&rig.call(3, 13)),
        [(13, CallEnd::NotSent(Loss::Closed))]
    );
    assert!(rig.step(Event::Broken(Loss::Closed)).is_empty());
}

#[test]
fn at_its_deadline_a_call_times_out_and_the_peer_is_told() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    rig.flush();
    rig.now += Duration::from_secs(2);
    rig.receive(Frame::Pong(Pong { nonce: 1 }));
    for _ in 0..8 {
        rig.now += Duration::from_secs(1) - Duration::from_millis(1);
        assert!(resolved(&rig.step(Event::Tick)).is_empty());
        rig.receive(Frame::Pong(Pong { nonce: 1 }));
    }
    rig.flush();
    rig.now += Duration::from_millis(10);
    let actions = rig.step(Event::Tick);
    assert_eq!(resolved(&actions), [(11, CallEnd::TimedOut { sent: true })]);
    assert_eq!(rig.flush(), [Frame::Cancel(Cancel { call: 1 })]);
}

#[test]
fn a_call_whose_time_is_over_is_not_sent() {
    let mut rig = Rig::new();
    let deadline = rig.now;
    let payload = Bytes::new();
    let event = Event::Call {
        call: 1,
        session: 1,
        method: 0,
        deadline,
        trace: None,
        payload,
        room: 0,
        waiter: 9,
    };
    assert_eq!(
        resolved(&rig.step(event)),
        [(9, CallEnd::TimedOut { sent: false })]
    );
    assert!(rig.machine.unsent().is_empty());
}

#[test]
fn a_cancelled_call_tells_the_peer_and_resolves_nobody() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    rig.flush();
    assert!(rig.step(Event::Cancel { call: 1 }).is_empty());
    assert_eq!(rig.flush(), [Frame::Cancel(Cancel { call: 1 })]);
    rig.step(Event::Cancel { call: 1 });
    assert!(rig.flush().is_empty());
}

#[test]
fn more_calls_than_the_limit_are_refused_on_both_sides() {
    let mut rig = Rig::new();
    for call in 1..=3 {
        assert!(rig.call(call, 0).is_empty());
    }
    assert_eq!(
        resolved(&rig.call(4, 14)),
        [(14, CallEnd::TooMany { limit: 3 })]
    );
    rig.flush();
    rig.serve();
    for call in 1..=3 {
        ticket(&rig.called(call));
    }
    assert!(rig.called(4).is_empty());
    let frames = rig.flush();
    assert_eq!(failure(&frames).code, RpcErrorKind::Full.code());
    assert_eq!(failure(&frames).outcome, Outcome::Refused.code());
}

#[test]
fn a_call_on_a_session_that_is_not_served_is_refused() {
    let mut rig = Rig::new();
    assert!(rig.called(1).is_empty());
    assert_eq!(
        failure(&rig.flush()).code,
        RpcErrorKind::NoSuchEndpoint.code()
    );
    let tell = Tell {
        session: 9,
        method: 0,
        trace: None,
        payload: Bytes::new(),
    };
    let actions = rig.receive(Frame::Tell(tell));
    assert!(matches!(
        &actions[..],
        [Action::TellLost {
            session: 9,
            method: 0,
            loss: TellLoss::UnknownSession
        }]
    ));
}

#[test]
fn a_left_session_is_not_served_any_more() {
    let mut rig = Rig::new();
    rig.serve();
    rig.receive(Frame::Disconnect(Disconnect { session: 1 }));
    assert!(rig.called(1).is_empty());
    assert_eq!(
        failure(&rig.flush()).code,
        RpcErrorKind::NoSuchEndpoint.code()
    );
}

#[test]
fn a_call_is_served_once_and_answered_once() {
    let mut rig = Rig::new();
    rig.serve();
    let actions = rig.called(1);
    let (ticket, _) = ticket(&actions);
    let [Action::Serve { serve, .. }] = &actions[..] else {
        panic!("no call")
    };
    assert_eq!((serve.served, serve.method), ("counter", 2));
    assert_eq!(serve.deadline, Some(rig.now + Duration::from_millis(50)));
    let payload = Bytes::from_static(b"5");
    rig.step(Event::Answer {
        ticket,
        result: Ok(payload.clone()),
    });
    rig.step(Event::Answer {
        ticket,
        result: Ok(payload.clone()),
    });
    assert_eq!(rig.flush(), [Frame::Reply(Reply { call: 1, payload })]);
}

#[test]
fn cancel_reaches_the_handler_and_its_late_answer_is_dropped() {
    let mut rig = Rig::new();
    rig.serve();
    let (first, flag) = ticket(&rig.called(1));
    for action in rig.receive(Frame::Cancel(Cancel { call: 1 })) {
        match action {
            Action::CancelServed(cancel) => cancel.store(true, Ordering::Relaxed),
            _ => panic!("only the cancellation is to be done"),
        }
    }
    assert!(flag.load(Ordering::Relaxed));
    // The peer uses the number again: the old answer must not be taken for the new one's.
    let (second, _) = ticket(&rig.called(1));
    rig.step(Event::Answer {
        ticket: first,
        result: Ok(Bytes::from_static(b"old")),
    });
    assert!(rig.flush().is_empty());
    let payload = Bytes::from_static(b"new");
    rig.step(Event::Answer {
        ticket: second,
        result: Ok(payload.clone()),
    });
    assert_eq!(rig.flush(), [Frame::Reply(Reply { call: 1, payload })]);
}

#[test]
fn a_reply_over_the_limit_becomes_a_failure_that_names_both_sizes() {
    let mut rig = Rig::new();
    rig.serve();
    let (ticket, _) = ticket(&rig.called(1));
    rig.step(Event::Answer {
        ticket,
        result: Ok(Bytes::from(vec![0; 65_536])),
    });
    let frames = rig.flush();
    let fault = failure(&frames);
    assert_eq!(fault.code, RpcErrorKind::TooLarge.code());
    assert_eq!(fault.outcome, Outcome::Unknown.code());
    assert!(
        fault.text.contains("65541") && fault.text.contains("65536"),
        "{}",
        fault.text
    );
}

#[test]
fn a_call_over_the_limit_is_not_sent() {
    let mut rig = Rig::new();
    let deadline = rig.now + Duration::from_secs(1);
    let payload = Bytes::from(vec![0; 65_536]);
    let event = Event::Call {
        call: 1,
        session: 1,
        method: 0,
        deadline,
        trace: None,
        payload,
        room: 0,
        waiter: 9,
    };
    assert!(matches!(
        &resolved(&rig.step(event))[..],
        [(
            9,
            CallEnd::TooLong(WireError::FrameTooLong { limit: 65_536, .. })
        )]
    ));
    assert!(rig.machine.unsent().is_empty());
}

#[test]
fn a_peer_that_does_not_read_is_refused_and_then_left() {
    let mut rig = Rig::new();
    rig.serve();
    let (ticket, _) = ticket(&rig.called(1));
    rig.step(Event::Answer {
        ticket,
        result: Ok(Bytes::from(vec![0; 1500])),
    });
    let before = rig.machine.unsent().len();
    assert!(rig.called(2).is_empty());
    assert!(rig.machine.unsent().len() > before);
    let end = (3..100).find_map(|call| rig.called(call).into_iter().next());
    assert!(matches!(end, Some(Action::Close(Loss::Unread(_)))));
}

#[test]
fn a_call_number_in_flight_twice_breaks_the_protocol() {
    let mut rig = Rig::new();
    rig.serve();
    let (_, flag) = ticket(&rig.called(1));
    let actions = rig.called(1);
    assert!(matches!(
        &actions[..],
        [Action::CancelServed(cancel), Action::Close(Loss::Protocol(_))]
            if Arc::ptr_eq(cancel, &flag)
    ));
    let frames = rig.flush();
    assert!(matches!(
        &frames[..],
        [Frame::Goodbye(Goodbye {
            reason: Farewell::ProtocolError,
            ..
        })]
    ));
}

#[test]
fn sessions_are_limited() {
    let mut rig = Rig::new();
    rig.serve();
    rig.receive(Frame::Connect(connect()));
    rig.step(Event::Accepted {
        request: 7,
        result: Ok("other"),
    });
    rig.flush();
    assert!(rig.receive(Frame::Connect(connect())).is_empty());
    let frames = rig.flush();
    assert!(matches!(
        &frames[..],
        [Frame::Refused(Refused { request: 7, fault })] if fault.code == RpcErrorKind::Full.code()
    ));
}

#[test]
fn a_session_request_gets_its_answer_or_its_deadline() {
    let mut rig = Rig::new();
    let deadline = rig.now + Duration::from_millis(100);
    for opener in [21, 22] {
        assert!(
            rig.step(Event::Open {
                connect: connect(),
                deadline,
                opener
            })
            .is_empty()
        );
    }
    let frames = rig.flush();
    let [Frame::Connect(first), Frame::Connect(second)] = &frames[..] else {
        panic!("{frames:?}")
    };
    let (first, second) = (first.request, second.request);
    assert_ne!(first, second);
    let actions = rig.receive(Frame::Connected(Connected {
        request: first,
        session: 4,
        grant: Grant::default(),
    }));
    assert!(matches!(
        &actions[..],
        [Action::Opened {
            opener: 21,
            end: OpenEnd::Session { session: 4, .. }
        }]
    ));
    rig.now += Duration::from_millis(101);
    let actions = rig.step(Event::Tick);
    assert!(matches!(
        &actions[..],
        [Action::Opened {
            opener: 22,
            end: OpenEnd::TimedOut
        }]
    ));
    // The late session is given back.
    rig.receive(Frame::Connected(Connected {
        request: second,
        session: 5,
        grant: Grant::default(),
    }));
    assert_eq!(rig.flush(), [Frame::Disconnect(Disconnect { session: 5 })]);
}

#[test]
fn silence_is_pinged_and_then_ends_the_connection() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    rig.flush();
    assert_eq!(rig.machine.next_tick(), rig.now + Duration::from_secs(1));
    rig.now += Duration::from_secs(1);
    rig.step(Event::Tick);
    assert_eq!(rig.flush(), [Frame::Ping(Ping { nonce: 1 })]);
    for _ in 0..3 {
        rig.now += Duration::from_secs(1);
        assert!(rig.step(Event::Tick).is_empty());
    }
    rig.now += Duration::from_secs(1);
    let actions = rig.step(Event::Tick);
    let loss = Loss::Silent(Duration::from_secs(5));
    assert_eq!(resolved(&actions), [(11, CallEnd::Unknown(loss.clone()))]);
    assert!(matches!(actions.last(), Some(Action::Close(end)) if *end == loss));
}

#[test]
fn our_own_standstill_is_not_the_peers_silence() {
    let mut rig = Rig::new();
    rig.now += Duration::from_secs(1);
    rig.step(Event::Tick);
    // This process was stopped for a minute: what the peer sent waits in the socket.
    rig.now += Duration::from_secs(60);
    assert!(rig.step(Event::Tick).is_empty());
    rig.receive(Frame::Pong(Pong { nonce: 1 }));
    assert_eq!(rig.machine.next_tick(), rig.now + Duration::from_secs(1));
}

#[test]
fn an_answered_ping_tells_the_round_trip_and_another_answer_does_not() {
    let mut rig = Rig::new();
    rig.now += Duration::from_secs(1);
    rig.step(Event::Tick);
    rig.now += Duration::from_millis(3);
    rig.receive(Frame::Pong(Pong { nonce: 7 }));
    assert_eq!(rig.machine.round_trip(), None);
    rig.now += Duration::from_millis(2);
    rig.receive(Frame::Pong(Pong { nonce: 1 }));
    assert_eq!(rig.machine.round_trip(), Some(Duration::from_millis(5)));
    rig.now += Duration::from_millis(2);
    rig.receive(Frame::Pong(Pong { nonce: 1 }));
    assert_eq!(rig.machine.round_trip(), Some(Duration::from_millis(5)));
}

#[test]
fn a_ping_is_answered_with_its_nonce() {
    let mut rig = Rig::new();
    rig.receive(Frame::Ping(Ping { nonce: 77 }));
    assert_eq!(rig.flush(), [Frame::Pong(Pong { nonce: 77 })]);
}

#[test]
fn after_goodbye_what_is_in_flight_ends_and_then_the_socket_closes() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    rig.flush();
    let text = "bye".to_owned();
    let reason = Farewell::Shutdown;
    assert!(
        rig.step(Event::Retire {
            reason,
            text: text.clone()
        })
        .is_empty()
    );
    assert!(matches!(&rig.flush()[..], [Frame::Goodbye(_)]));
    let left = Loss::Left(reason, text.clone());
    assert_eq!(
        resolved(&rig.call(2, 12)),
        [(12, CallEnd::NotSent(left.clone()))]
    );
    let actions = rig.receive(Frame::Goodbye(Goodbye { reason, text }));
    assert!(matches!(&actions[..], [Action::PeerLeaves { .. }]));
    let payload = Bytes::from_static(b"5");
    let actions = rig.receive(Frame::Reply(Reply { call: 1, payload }));
    assert!(matches!(
        &actions[..],
        [Action::Resolve { waiter: 11, end: CallEnd::Value(_) }, Action::Close(loss)]
            if *loss == left
    ));
}

#[test]
fn a_goodbye_is_answered_with_one() {
    let mut rig = Rig::new();
    let reason = Farewell::Duplicate;
    let actions = rig.receive(Frame::Goodbye(Goodbye {
        reason,
        text: String::new(),
    }));
    assert!(matches!(
        &actions[..],
        [Action::PeerLeaves { .. }, Action::Close(_)]
    ));
    assert!(matches!(&rig.flush()[..], [Frame::Goodbye(_)]));
}

#[test]
fn unreadable_bytes_end_the_connection_and_say_so() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    rig.flush();
    let actions = rig.step(Event::Unreadable(WireError::UnknownKind { kind: 0x77 }));
    assert!(matches!(
        &resolved(&actions)[..],
        [(11, CallEnd::Unknown(Loss::Protocol(_)))]
    ));
    assert!(matches!(
        &rig.flush()[..],
        [Frame::Goodbye(Goodbye { reason: Farewell::ProtocolError, text })]
            if text.contains("119")
    ));
}

#[test]
fn a_failure_carries_code_outcome_and_text() {
    let mut rig = Rig::new();
    rig.call(1, 11);
    let fault = Fault::new(RpcErrorKind::Panicked, "it went wrong");
    let actions = rig.receive(Frame::Failure(Failure {
        call: 1,
        fault: fault.clone(),
    }));
    assert_eq!(resolved(&actions), [(11, CallEnd::Failed(fault))]);
}

/// A rig whose messages above 100 bytes go in chunks.
fn chunking() -> Rig {
    let now = Instant::now();
    let settings = Settings {
        whole_limit: 100,
        ..settings()
    };
    Rig {
        machine: Connection::new(settings, now),
        now,
        actions: Vec::new(),
    }
}

fn large_call(rig: &mut Rig, call: u32, session: u32, size: usize) {
    let deadline = rig.now + Duration::from_millis(500);
    let payload = Bytes::from(vec![1; size]);
    let waiter = u64::from(call);
    let event = Event::Call {
        call,
        session,
        method: 0,
        deadline,
        trace: None,
        payload,
        room: 5,
        waiter,
    };
    assert!(rig.step(event).is_empty());
}

fn write_some(rig: &mut Rig) -> (Vec<Frame>, Vec<Action<TestHost>>) {
    let mut bytes = BytesMut::from(rig.machine.unsent());
    let actions = rig.step(Event::Wrote(bytes.len()));
    let mut codec = FrameCodec::new(u32::MAX);
    let frames = std::iter::from_fn(|| codec.decode(&mut bytes).unwrap()).collect();
    (frames, actions)
}

#[test]
fn a_small_call_overtakes_a_large_one_of_another_session_only() {
    let mut rig = chunking();
    large_call(&mut rig, 1, 1, 1000);
    // Behind two pieces at most, and not behind all.
    assert!(rig.machine.unsent().len() < 300);
    rig.call(2, 12);
    let small = Event::Tell {
        session: 2,
        method: 0,
        trace: None,
        payload: Bytes::new(),
        room: 0,
    };
    rig.step(small);
    let (mut frames, mut freed) = (Vec::new(), Vec::new());
    while !rig.machine.unsent().is_empty() {
        let (more, actions) = write_some(&mut rig);
        frames.extend(more);
        freed.extend(actions);
    }
    let tell = frames
        .iter()
        .position(|frame| matches!(frame, Frame::Tell(_)))
        .unwrap();
    let call = frames
        .iter()
        .position(|frame| matches!(frame, Frame::Call(_)))
        .unwrap();
    assert!(tell < 4, "{tell}");
    assert_eq!(call, frames.len() - 1);
    assert!(matches!(&freed[..], [Action::Free(5)]));
    // The receiver joins what came in pieces.
    let mut receiver = chunking();
    receiver.serve();
    let served: Vec<_> = frames
        .into_iter()
        .flat_map(|frame| receiver.receive(frame))
        .collect();
    let sizes: Vec<_> = served
        .iter()
        .filter_map(|action| match action {
            Action::Serve { serve, .. } => Some(serve.payload.len()),
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [1000, 1]);
}

#[test]
fn a_large_call_that_times_out_under_way_was_not_sent() {
    let mut rig = chunking();
    large_call(&mut rig, 1, 1, 1000);
    write_some(&mut rig);
    rig.now += Duration::from_millis(501);
    let actions = rig.step(Event::Tick);
    assert_eq!(resolved(&actions), [(1, CallEnd::TimedOut { sent: false })]);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Free(5)))
    );
    let (frames, _) = write_some(&mut rig);
    let Some(Frame::Chunk(last)) = frames.last() else {
        panic!("{frames:?}")
    };
    assert_eq!(last.progress, Progress::Abandoned);
    assert!(rig.machine.unsent().is_empty());
}

#[test]
fn chunks_are_bounded_in_number_and_size() {
    let chunk = |transfer, progress, size, bytes| {
        let payload = Bytes::from(vec![0x11; bytes]);
        Frame::Chunk(Chunk {
            transfer,
            progress,
            size,
            payload,
        })
    };
    let violation = |frames: Vec<Frame>| {
        let mut rig = chunking();
        let actions: Vec<_> = frames
            .into_iter()
            .flat_map(|frame| rig.receive(frame))
            .collect();
        match &actions[..] {
            [Action::Close(Loss::Protocol(text))] => text.clone(),
            _ => panic!("no violation"),
        }
    };
    let (more, last) = (Progress::More, Progress::Last);
    let many = (0..5).map(|transfer| chunk(transfer, more, 99, 10));
    assert!(violation(many.collect()).contains("more than 4"));
    assert!(violation(vec![chunk(1, more, 65_537, 1)]).contains("limit is 65536"));
    assert!(violation(vec![chunk(1, more, 10, 6), chunk(1, more, 10, 6)]).contains("of 12"));
    assert!(violation(vec![chunk(1, last, 10, 6)]).contains("of 6"));
}

fn tell(payload: &'static [u8]) -> Frame {
    Frame::Tell(Tell {
        session: 1,
        method: 3,
        trace: None,
        payload: Bytes::from_static(payload),
    })
}

#[test]
fn one_way_messages_are_served_within_their_credit_and_a_peer_without_is_cut() {
    let mut rig = Rig::new();
    rig.serve();
    for _ in 0..2 {
        let actions = rig.receive(tell(b"hello"));
        assert!(matches!(
            &actions[..],
            [Action::ServeTell { method: 3, .. }]
        ));
    }
    let grant = Grant {
        messages: 1,
        bytes: 5,
    };
    rig.step(Event::Freed { session: 1, grant });
    let credit = Credit { session: 1, grant };
    assert_eq!(rig.flush(), [Frame::Credit(credit)]);
    let actions = rig.receive(tell(b"hello"));
    assert!(matches!(&actions[..], [Action::ServeTell { .. }]));
    let actions = rig.receive(tell(b"hello"));
    assert!(
        matches!(&actions[..], [Action::Close(Loss::Protocol(text))] if text.contains("credit"))
    );
}

#[test]
fn one_message_may_go_beyond_the_credit_in_bytes() {
    let mut rig = Rig::new();
    rig.serve();
    let actions = rig.receive(tell(&[0; 1000]));
    assert!(matches!(&actions[..], [Action::ServeTell { .. }]));
    let actions = rig.receive(tell(b""));
    assert!(matches!(&actions[..], [Action::Close(Loss::Protocol(_))]));
}

#[test]
fn what_a_connection_did_not_write_of_one_way_messages_is_lost_by_name() {
    let mut rig = Rig::new();
    let message = |session, method| Event::Tell {
        session,
        method,
        trace: None,
        payload: Bytes::from_static(b"p"),
        room: 0,
    };
    rig.step(message(1, 0));
    rig.flush();
    rig.step(message(1, 7));
    let actions = rig.step(Event::Broken(Loss::Closed));
    let loss = TellLoss::NotSent(Loss::Closed);
    assert!(
        matches!(&actions[..], [Action::TellLost { session: 1, method: 7, loss: said }, Action::Close(_)] if *said == loss),
    );
    assert!(rig.machine.unsent().is_empty());
}

#[test]
fn a_large_one_way_message_that_is_not_out_is_lost_by_name() {
    let mut rig = chunking();
    rig.step(Event::Tell {
        session: 4,
        method: 2,
        trace: None,
        payload: Bytes::from(vec![0; 1000]),
        room: 5,
    });
    let actions = rig.step(Event::Broken(Loss::Closed));
    assert!(actions.iter().any(|action| matches!(
        action,
        Action::TellLost {
            session: 4,
            method: 2,
            ..
        }
    )));
}

#[test]
fn a_session_ends_with_its_endpoint_once() {
    let mut rig = Rig::new();
    rig.serve();
    let fault = Fault::new(RpcErrorKind::Stopped, "it ended".to_owned());
    for expected in [1, 0] {
        rig.step(Event::Ended {
            session: 1,
            fault: fault.clone(),
        });
        assert_eq!(rig.flush().len(), expected);
    }
    let actions = rig.receive(Frame::Ended(Ended { session: 8, fault }));
    assert!(matches!(
        &actions[..],
        [Action::SessionEnded { session: 8, .. }]
    ));
}
