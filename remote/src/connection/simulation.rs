//! Two machines under a simulator: links that delay, stall, go half-open and break, handlers that
//! answer late or never, callers that give up. Under every seed each call resolves exactly once,
//! and what is said to be not sent, or refused, was not run.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio_util::codec::Decoder;

use super::tests::{TestHost, settings};
use super::*;
use crate::wire::{Connect, Fault, FrameCodec, WireError};

const SEEDS: u64 = 1000;

/// One direction of the link.
#[derive(Default)]
struct Pipe {
    bytes: BytesMut,
    /// Nothing arrives any more, and nobody is told.
    black_hole: bool,
}

struct Side {
    machine: Connection<TestHost>,
    inbound: BytesMut,
    codec: FrameCodec,
    session: Option<u32>,
    /// Calls that the handler has, with what they are.
    running: Vec<(Ticket, u64)>,
    /// Waiters of calls made here that are still out.
    open: HashSet<u64>,
    calls: HashMap<u64, u32>,
    gone: bool,
    /// Held by messages that are not out.
    room: u64,
}

struct World {
    random: fastrand::Rng,
    now: Instant,
    sides: [Side; 2],
    pipes: [Pipe; 2],
    next: u64,
    next_call: u32,
    ran: HashSet<u64>,
    ends: HashMap<u64, CallEnd>,
    cancelled: HashSet<u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let side = || Side {
            machine: Connection::new(
                Settings {
                    version: 2,
                    whole_limit: 64,
                    in_flight_limit: 6,
                    ..settings()
                },
                now,
            ),
            inbound: BytesMut::new(),
            codec: FrameCodec::new(settings().frame_limit),
            session: None,
            running: Vec::new(),
            open: HashSet::new(),
            calls: HashMap::new(),
            gone: false,
            room: 0,
        };
        Self {
            random: fastrand::Rng::with_seed(seed),
            now,
            sides: [side(), side()],
            pipes: [Pipe::default(), Pipe::default()],
            next: 0,
            next_call: 0,
            ran: HashSet::new(),
            ends: HashMap::new(),
            cancelled: HashSet::new(),
        }
    }

    fn step(&mut self, side: usize, event: Event<TestHost>) {
        let mut actions = Vec::new();
        self.sides[side].machine.step(self.now, event, &mut actions);
        for action in actions {
            self.act(side, action);
        }
    }

    fn act(&mut self, side: usize, action: Action<TestHost>) {
        match action {
            Action::Resolve { waiter, end } => {
                assert!(
                    self.sides[side].open.remove(&waiter),
                    "{waiter} resolved twice: {end:?}"
                );
                self.sides[side].calls.remove(&waiter);
                self.ends.insert(waiter, end);
            }
            Action::Opened { end, .. } => {
                if let OpenEnd::Session { session, .. } = end {
                    self.sides[side].session = Some(session);
                }
            }
            Action::Accept(Connect { request, .. }) => {
                self.step(
                    side,
                    Event::Accepted {
                        request,
                        result: Ok("served"),
                    },
                );
            }
            Action::Serve { ticket, serve } => {
                let id = u64::from_be_bytes(serve.payload[..8].try_into().unwrap());
                assert!(self.ran.insert(id), "{id} ran twice");
                self.sides[side].running.push((ticket, id));
            }
            Action::Close(_) => {
                self.sides[side].gone = true;
                // The socket closes: the other side hears of it unless the line is dead.
                if !self.pipes[side].black_hole && !self.sides[1 - side].gone {
                    self.carry(side, usize::MAX);
                    self.step(1 - side, Event::Broken(Loss::Closed));
                }
            }
            Action::CancelServed(_)
            | Action::ServeTell { .. }
            | Action::TellLost { .. }
            | Action::Serving { .. }
            | Action::NotServing { .. }
            | Action::Granted { .. }
            | Action::SessionEnded { .. }
            | Action::Discard(_)
            | Action::PeerLeaves { .. } => {}
            Action::Free(room) => self.sides[side].room -= u64::from(room),
        }
    }

    /// Moves up to `most` bytes from a side's buffer into its pipe and over to the other side.
    fn carry(&mut self, side: usize, most: usize) {
        let unsent = self.sides[side].machine.unsent();
        let size = unsent.len().min(most);
        if size > 0 {
            let piece = BytesMut::from(&unsent[..size]);
            self.pipes[side].bytes.unsplit(piece);
            self.step(side, Event::Wrote(size));
        }
        if self.pipes[side].black_hole {
            return;
        }
        let size = self.pipes[side].bytes.len().min(most);
        let piece = self.pipes[side].bytes.split_to(size);
        let other = &mut self.sides[1 - side];
        other.inbound.extend_from_slice(&piece);
        loop {
            let other = &mut self.sides[1 - side];
            match other.codec.decode(&mut other.inbound) {
                Ok(Some(frame)) => self.step(1 - side, Event::Received(frame)),
                Ok(None) => return,
                Err(error) => panic!("machines send what machines read: {error}"),
            }
        }
    }

    /// A number in a payload that is, or is not, too large for one piece.
    fn padded(&mut self, number: u64) -> Bytes {
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(8 + self.random.usize(0..400), 0);
        payload.into()
    }

    fn call(&mut self, side: usize) {
        let Some(session) = self.sides[side].session else {
            return;
        };
        self.next += 1;
        self.next_call += 1;
        let (waiter, call) = (self.next, self.next_call);
        let deadline = self.now + Duration::from_millis(self.random.u64(0..8000));
        let payload = self.padded(waiter);
        self.sides[side].room += 1;
        self.sides[side].open.insert(waiter);
        self.sides[side].calls.insert(waiter, call);
        self.step(
            side,
            Event::Call {
                call,
                session,
                method: 0,
                deadline,
                trace: None,
                payload,
                room: 1,
                waiter,
            },
        );
    }

    fn give_up(&mut self, side: usize) {
        let side_state = &mut self.sides[side];
        let mut waiters: Vec<_> = side_state.calls.keys().copied().collect();
        waiters.sort_unstable();
        let Some(waiter) = self.random.choice(waiters) else {
            return;
        };
        let call = side_state.calls.remove(&waiter).unwrap();
        side_state.open.remove(&waiter);
        self.cancelled.insert(waiter);
        self.step(side, Event::Cancel { call });
    }

    fn answer(&mut self, side: usize) {
        let running = &mut self.sides[side].running;
        if running.is_empty() {
            return;
        }
        let (ticket, id) = running.swap_remove(self.random.usize(..running.len()));
        let answer = self.padded(id);
        let result = if self.random.bool() {
            Ok(answer)
        } else {
            Err(Fault {
                code: 16,
                outcome: 2,
                text: String::new(),
            })
        };
        self.step(side, Event::Answer { ticket, result });
    }

    fn turn(&mut self) {
        let side = self.random.usize(..2);
        match self.random.u32(..100) {
            0..30 => {
                let most = self.random.usize(1..200);
                self.carry(side, most);
            }
            30..55 => self.call(side),
            55..75 => self.answer(side),
            75..80 => self.give_up(side),
            80..95 => {
                self.now += Duration::from_millis(self.random.u64(0..400));
                self.step(side, Event::Tick);
            }
            95..97 => self.pipes[side].black_hole |= self.random.u32(..20) == 0,
            97 => {
                if self.random.u32(..20) == 0 {
                    self.step(side, Event::Broken(Loss::Closed));
                }
            }
            98 => {
                if self.random.u32(..20) == 0 {
                    let reason = crate::wire::Farewell::Shutdown;
                    self.step(
                        side,
                        Event::Retire {
                            reason,
                            text: String::new(),
                        },
                    );
                }
            }
            _ => {
                if self.random.u32(..20) == 0 {
                    self.step(side, Event::Unreadable(WireError::EmptyFrame));
                }
            }
        }
    }

    fn run(seed: u64) -> Self {
        let mut world = Self::new(seed);
        for side in 0..2 {
            let deadline = world.now + Duration::from_secs(60);
            let connect = Connect {
                request: 0,
                endpoint: "e".to_owned(),
                gateway: "g".to_owned(),
                gateway_version: 1,
                token: None,
                methods: vec![],
                shapes: vec![],
            };
            world.step(
                side,
                Event::Open {
                    connect,
                    deadline,
                    opener: 0,
                },
            );
        }
        for _ in 0..2 {
            world.carry(0, usize::MAX);
            world.carry(1, usize::MAX);
        }
        for _ in 0..400 {
            world.turn();
        }
        // Nothing more happens than that time passes.
        for _ in 0..40 {
            world.now += Duration::from_millis(500);
            world.step(0, Event::Tick);
            world.step(1, Event::Tick);
        }
        world.check(seed);
        world
    }

    fn check(&self, seed: u64) {
        for side in &self.sides {
            assert!(
                side.open.is_empty(),
                "seed {seed}: never resolved: {:?}",
                side.open
            );
            assert_eq!(side.machine.calls_in_flight(), 0, "seed {seed}");
            assert!(side.gone || side.room == 0, "seed {seed}: room is lost");
        }
        for (waiter, end) in &self.ends {
            let ran = self.ran.contains(waiter);
            match end {
                CallEnd::Value(value) => {
                    assert!(ran, "seed {seed}: {waiter} has a value and did not run");
                    assert_eq!(
                        value[..8],
                        waiter.to_be_bytes(),
                        "seed {seed}: another's value"
                    );
                }
                CallEnd::NotSent(_)
                | CallEnd::TooMany { .. }
                | CallEnd::TooLong(_)
                | CallEnd::TimedOut { sent: false } => {
                    assert!(!ran, "seed {seed}: {waiter} ran: {end:?}");
                }
                CallEnd::Failed(fault) if fault.outcome < 2 => {
                    assert!(!ran, "seed {seed}: {waiter} ran and is said to be refused");
                }
                CallEnd::Failed(_) | CallEnd::Unknown(_) | CallEnd::TimedOut { sent: true } => {}
            }
        }
        let made = usize::try_from(self.next).unwrap();
        assert_eq!(self.ends.len() + self.cancelled.len(), made, "seed {seed}");
    }
}

#[test]
fn every_call_resolves_exactly_once_and_honestly_under_1000_seeds() {
    let mut seen = HashSet::new();
    for seed in 0..SEEDS {
        seen.extend(World::run(seed).ends.values().map(std::mem::discriminant));
    }
    // A simulation in which an end never comes says nothing about it.
    let needed = [
        CallEnd::Value(Bytes::new()),
        CallEnd::Failed(Fault {
            code: 0,
            outcome: 0,
            text: String::new(),
        }),
        CallEnd::TimedOut { sent: true },
        CallEnd::NotSent(Loss::Closed),
        CallEnd::Unknown(Loss::Closed),
        CallEnd::TooMany { limit: 0 },
    ];
    assert!(
        needed
            .iter()
            .all(|end| seen.contains(&std::mem::discriminant(end)))
    );
}
