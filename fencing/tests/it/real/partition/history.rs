//! What callers saw, and whether one register alone could have answered so.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::channel;
use std::time::Duration;

use lockkeeper_fencing::clock::{Clock, SystemClock};
use stateright::semantics::register::{Register, RegisterOp, RegisterRet};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

/// The search for an order takes no time in a history that has one, and for ever in one that has none.
const LIMIT: Duration = Duration::from_secs(60);
/// It calls itself once for each call of the history.
const STACK: usize = 1 << 30;

/// An event and when it happened, in nanoseconds since the machine's boot: the hosts of a test are on
/// one machine, so times of several callers can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timed {
    pub(super) nanoseconds: u128,
    pub(super) event: Event,
}

impl Timed {
    pub(super) fn now(event: Event) -> Self {
        let nanoseconds = SystemClock.now().elapsed().as_nanos();
        Timed { nanoseconds, event }
    }

    pub(super) fn to_text(&self) -> String {
        format!("{} {}", self.nanoseconds, self.event.to_text())
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (nanoseconds, event) = text.split_once(' ')?;
        Some(Timed {
            nanoseconds: nanoseconds.parse().ok()?,
            event: Event::from_text(event)?,
        })
    }
}

/// One event of a history; their order is the one in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Writes {
        call: u64,
        client: u64,
        value: u64,
    },
    Reads {
        call: u64,
        client: u64,
    },
    Done {
        call: u64,
        value: u64,
        epoch: u64,
    },
    /// It has no effect.
    Refused {
        call: u64,
    },
    /// It may have one, at any time from now on.
    Unknown {
        call: u64,
    },
}

impl Event {
    fn to_text(&self) -> String {
        match self {
            Event::Writes {
                call,
                client,
                value,
            } => format!("writes {call} {client} {value}"),
            Event::Reads { call, client } => format!("reads {call} {client}"),
            Event::Done { call, value, epoch } => format!("done {call} {value} {epoch}"),
            Event::Refused { call } => format!("refused {call}"),
            Event::Unknown { call } => format!("unknown {call}"),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        let (kind, numbers) = text.split_once(' ')?;
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        Some(match (kind, numbers.ok()?.as_slice()) {
            ("writes", &[call, client, value]) => Event::Writes {
                call,
                client,
                value,
            },
            ("reads", &[call, client]) => Event::Reads { call, client },
            ("done", &[call, value, epoch]) => Event::Done { call, value, epoch },
            ("refused", &[call]) => Event::Refused { call },
            ("unknown", &[call]) => Event::Unknown { call },
            _ => return None,
        })
    }

    pub(super) fn call(&self) -> u64 {
        match *self {
            Event::Writes { call, .. }
            | Event::Reads { call, .. }
            | Event::Done { call, .. }
            | Event::Refused { call }
            | Event::Unknown { call } => call,
        }
    }
}

/// Who does a call: one after another. A write of unknown outcome goes on beside what its client does
/// next, so it counts as somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Doer {
    Client(u64),
    Nobody(u64),
}

type Tester = LinearizabilityTester<Doer, Register<u64>>;

/// Searches an order in which one register, that began with 0, answers so.
///
/// # Errors
/// Why there is none.
pub(super) fn check(history: &[Event]) -> Result<(), String> {
    nothing_stale_is_read(history)?;
    let tester = tester(history)?;
    let (sender, searched) = channel();
    let search = move || {
        let _ = sender.send(tester.is_consistent());
    };
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(search).map_err(|error| error.to_string())?;
    match searched.recv_timeout(LIMIT) {
        Ok(true) => Ok(()),
        Ok(false) => Err("no order of the calls explains what was read".to_owned()),
        Err(_) => Err(format!("no order of the calls was found in {LIMIT:?}")),
    }
}

/// A value is stale if one that was written after it had been written before the read began. That is not
/// all that can be wrong, but told at once and in words; what is left is searched for.
fn nothing_stale_is_read(history: &[Event]) -> Result<(), String> {
    // Of each value: when its writing began, and when it was done.
    let mut written: HashMap<u64, (usize, Option<usize>)> = HashMap::from([(0, (0, Some(0)))]);
    let mut writes: HashMap<u64, u64> = HashMap::new();
    let mut reads: HashMap<u64, usize> = HashMap::new();
    for (now, event) in history.iter().enumerate() {
        match event {
            Event::Writes { call, value, .. } => {
                writes.insert(*call, *value);
                written.insert(*value, (now, None));
            }
            Event::Reads { call, .. } => {
                reads.insert(*call, now);
            }
            Event::Done { call, value, .. } => {
                if let Some(write) = writes.get(call).and_then(|value| written.get_mut(value)) {
                    write.1 = Some(now);
                } else if let Some(began) = reads.get(call) {
                    let Some((_, Some(done))) = written.get(value) else {
                        continue;
                    };
                    let newer = written.iter().find(|(_, (write, wrote))| {
                        write > done && wrote.is_some_and(|wrote| wrote < *began)
                    });
                    if let Some((newer, _)) = newer {
                        return Err(format!(
                            "call {call} has read {value}, and {newer} had been written after it"
                        ));
                    }
                }
            }
            Event::Refused { .. } | Event::Unknown { .. } => {}
        }
    }
    Ok(())
}

/// A write of unknown outcome that nobody has read makes no difference: it may never have taken hold. One
/// that was read had taken hold by the end of the first reading.
fn tester(history: &[Event]) -> Result<Tester, String> {
    let ends = |event: &&Event| !matches!(event, Event::Writes { .. } | Event::Reads { .. });
    let ends = history.iter().filter(ends);
    let ends: HashMap<u64, &Event> = ends.map(|event| (event.call(), event)).collect();
    let is_done = |call: &u64| matches!(ends.get(call), Some(Event::Done { .. }));
    let is_refused = |call: &u64| matches!(ends.get(call), Some(Event::Refused { .. }));
    let answers = history.iter().filter_map(|event| match event {
        Event::Done { value, .. } => Some(*value),
        _ => None,
    });
    let seen: HashSet<u64> = answers.collect();
    let mut tester = Tester::new(Register(0));
    let mut open: HashMap<u64, (Doer, bool)> = HashMap::new();
    let mut unknown: HashMap<u64, Doer> = HashMap::new();
    for event in history {
        match event {
            Event::Writes {
                call,
                client,
                value,
            } if is_done(call) => {
                let doer = Doer::Client(*client);
                tester.on_invoke(doer, RegisterOp::Write(*value))?;
                open.insert(*call, (doer, true));
            }
            Event::Writes { call, value, .. } if !is_refused(call) && seen.contains(value) => {
                let doer = Doer::Nobody(*call);
                tester.on_invoke(doer, RegisterOp::Write(*value))?;
                unknown.insert(*value, doer);
            }
            // A read that was not answered tells nothing.
            Event::Reads { call, client } if is_done(call) => {
                let doer = Doer::Client(*client);
                tester.on_invoke(doer, RegisterOp::Read)?;
                open.insert(*call, (doer, false));
            }
            Event::Done { call, value, .. } => {
                let (doer, wrote) = open.remove(call).ok_or("an answer to no call")?;
                if wrote {
                    tester.on_return(doer, RegisterRet::WriteOk)?;
                    continue;
                }
                if let Some(writer) = unknown.remove(value) {
                    tester.on_return(writer, RegisterRet::WriteOk)?;
                }
                tester.on_return(doer, RegisterRet::ReadOk(*value))?;
            }
            _ => {}
        }
    }
    Ok(tester)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `w1=7` client 1 writes 7, `r2` client 2 reads; `+7` the call answers 7, `?` its outcome is
    /// unknown. Calls are numbered by their order; an answer names its call before a colon.
    fn history(text: &str) -> Vec<Event> {
        let mut calls = 0;
        let events = text.split_whitespace().map(|word| {
            if let Some((call, answer)) = word.split_once(':') {
                let call = call.parse().unwrap();
                return match answer.strip_prefix('+') {
                    Some(value) => Event::Done {
                        call,
                        value: value.parse().unwrap(),
                        epoch: 1,
                    },
                    None if answer == "?" => Event::Unknown { call },
                    None => Event::Refused { call },
                };
            }
            calls += 1;
            let client = u64::from(word.as_bytes()[1] - b'0');
            match word.split_once('=') {
                Some((_, value)) => Event::Writes {
                    call: calls,
                    client,
                    value: value.parse().unwrap(),
                },
                None => Event::Reads {
                    call: calls,
                    client,
                },
            }
        });
        events.collect()
    }

    #[test]
    fn a_stale_read_and_a_lost_write_are_found() {
        // Read after a newer value was written, or read by somebody else.
        assert!(check(&history("w1=7 1:+7 r2 2:+0")).is_err());
        assert!(check(&history("w1=7 r2 2:+7 r3 3:+0 1:+7")).is_err());
        assert!(check(&history("w1=7 1:+7 w2=8 2:+8 r1 3:+7")).is_err());
        // Refused, and yet read.
        assert!(check(&history("w1=7 1:! r2 2:+7")).is_err());
    }

    #[test]
    fn what_one_register_can_answer_is_accepted() {
        assert_eq!(check(&history("w1=7 r2 2:+0 1:+7 r2 3:+7")), Ok(()));
        // An unknown write takes hold late, or never.
        assert_eq!(
            check(&history("w1=7 1:? w1=8 2:+8 r2 3:+8 r2 4:+7 r2 5:+7")),
            Ok(())
        );
        assert_eq!(check(&history("w1=7 1:? w1=8 2:+8 r2 3:+8")), Ok(()));
        // But not twice.
        assert!(check(&history("w1=7 1:? r2 2:+7 w1=8 3:+8 r2 4:+7")).is_err());
    }

    #[test]
    fn events_travel_as_text() {
        for event in history("w1=7 r2 1:+7 2:? 2:!") {
            let timed = Timed::now(event);
            assert_eq!(Timed::from_text(&timed.to_text()), Some(timed));
        }
        assert_eq!(Timed::from_text("end of the calls"), None);
    }
}
