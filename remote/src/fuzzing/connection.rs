//! A peer that was let in, and sends frames that break the rules between them.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio_util::codec::Decoder;

use crate::connection::{Action, Connection, Event, Host, Loss, OpenEnd, Settings};
use crate::wire::{Connect, FrameCodec, Grant};

/// What answers that the peer does not read may take, in bytes.
const UNSENT_LIMIT: usize = 16 * 1024;

/// Nobody waits: a name is enough.
struct Nobody;

impl Host for Nobody {
    type Waiter = u32;
    type Opener = u32;
    type Served = ();
    type Cancel = ();
}

/// Frames as a peer's side of a connection that is used in both directions: whatever they are, every
/// call and every session request of this side comes back once, and what is kept for the peer stays
/// bounded.
///
/// # Panics
/// When not.
pub fn connection(bytes: &[u8]) {
    let mut side = Side::new();
    side.ask_for_session();
    let (mut codec, mut buffer) = (FrameCodec::new(FRAME_LIMIT), BytesMut::from(bytes));
    loop {
        match codec.decode(&mut buffer) {
            Ok(Some(frame)) => side.step(Event::Received(frame)),
            Ok(None) => break,
            Err(error) => {
                side.step(Event::Unreadable(error));
                break;
            }
        }
        side.use_sessions();
        if side.machine.is_gone() {
            break;
        }
        assert!(side.machine.calls_in_flight() <= IN_FLIGHT_LIMIT);
        assert!(side.machine.calls_served() <= IN_FLIGHT_LIMIT);
        let unsent = side.machine.unsent().len();
        assert!(unsent <= UNSENT_LIMIT + SLACK, "{unsent} bytes are unsent");
    }
    while !side.machine.is_gone() && !side.machine.unsent().is_empty() {
        let unsent = side.machine.unsent().len();
        side.step(Event::Wrote(unsent));
    }
    // What a connection holds when it ends goes with it.
    assert!(side.machine.is_gone() || side.room == 0, "room is lost");
    side.step(Event::Broken(Loss::Closed));
    assert_eq!(side.waiting, Vec::<u32>::new(), "calls that never end");
    assert_eq!(side.opening, Vec::<u32>::new(), "requests that never end");
}

const FRAME_LIMIT: u32 = 64 * 1024;
const IN_FLIGHT_LIMIT: usize = 8;
/// Beyond the limit: what is written to say so.
const SLACK: usize = 128 * 1024;

struct Side {
    machine: Connection<Nobody>,
    now: Instant,
    /// Calls and session requests that have not come back.
    waiting: Vec<u32>,
    opening: Vec<u32>,
    /// What messages of this side hold.
    room: u32,
    /// Sessions that the peer gave this side.
    sessions: Vec<u32>,
    next: u32,
}

impl Side {
    fn new() -> Self {
        let now = Instant::now();
        let settings = Settings {
            version: 2,
            frame_limit: FRAME_LIMIT,
            in_flight_limit: IN_FLIGHT_LIMIT,
            session_limit: 4,
            grant: Grant {
                messages: 4,
                bytes: 256,
            },
            whole_limit: 256,
            unsent_limit: UNSENT_LIMIT,
            ping_interval: Duration::from_secs(1),
            ping_timeout: Duration::from_secs(1),
        };
        Self {
            machine: Connection::new(settings, now),
            now,
            waiting: Vec::new(),
            opening: Vec::new(),
            room: 0,
            sessions: Vec::new(),
            next: 0,
        }
    }

    fn step(&mut self, event: Event<Nobody>) {
        let mut actions = Vec::new();
        self.machine.step(self.now, event, &mut actions);
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action<Nobody>) {
        match action {
            Action::Resolve { waiter, .. } => came_back(&mut self.waiting, waiter),
            Action::Opened { opener, end } => {
                came_back(&mut self.opening, opener);
                if let OpenEnd::Session { session, .. } = end {
                    self.sessions.push(session);
                }
            }
            Action::Accept(Connect { request, .. }) => self.step(Event::Accepted {
                request,
                result: Ok(()),
            }),
            Action::Serve { ticket, serve } => {
                // Every other one stays unanswered.
                if serve.method.is_multiple_of(2) {
                    let result = Ok(serve.payload);
                    self.step(Event::Answer { ticket, result });
                }
            }
            Action::Free(room) => {
                self.room = self.room.checked_sub(room).expect("more than was taken");
            }
            Action::SessionEnded { session, .. } => {
                self.sessions.retain(|known| *known != session);
            }
            Action::Serving { .. }
            | Action::NotServing { .. }
            | Action::ServeTell { .. }
            | Action::CancelServed(())
            | Action::Discard(_)
            | Action::Granted { .. }
            | Action::TellLost { .. }
            | Action::PeerLeaves { .. }
            | Action::Close(_) => {}
        }
    }

    fn ask_for_session(&mut self) {
        self.next += 1;
        self.opening.push(self.next);
        self.step(Event::Open {
            connect: Connect {
                request: 0,
                endpoint: "counter".to_owned(),
                gateway: "example.Counter".to_owned(),
                gateway_version: 1,
                token: None,
                methods: vec!["Add".to_owned()],
                shapes: vec![1],
            },
            deadline: self.now + Duration::from_secs(3),
            opener: self.next,
        });
    }

    /// A call in each session, a large one-way message, and time for the peer to read and to be late.
    fn use_sessions(&mut self) {
        for session in self.sessions.clone() {
            self.next += 1;
            self.waiting.push(self.next);
            self.room += 2;
            self.step(Event::Call {
                call: self.next,
                session,
                method: 0,
                deadline: self.now + Duration::from_secs(3),
                trace: None,
                payload: Bytes::from_static(b"p"),
                room: 1,
                waiter: self.next,
            });
            self.step(Event::Tell {
                session,
                method: 0,
                trace: None,
                payload: Bytes::from_static(&[0; 1000]),
                room: 1,
            });
        }
        let unsent = self.machine.unsent().len();
        self.step(Event::Wrote(unsent / 2));
        self.now += Duration::from_millis(100);
        self.step(Event::Tick);
    }
}

fn came_back(waiting: &mut Vec<u32>, waiter: u32) {
    let place = waiting.iter().position(|known| *known == waiter);
    waiting.swap_remove(place.expect("it came back before, or was never sent"));
}
