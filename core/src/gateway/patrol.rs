//! Looks after calls that wait, so that only those that wait long have a timer of their own.
//!
//! To arm and disarm a timer costs as much as half a call inside the process. Nearly all calls are
//! answered long before their limit: they leave a waker here instead, which costs a quarter of
//! that. Whoever is still here after two rounds is woken and arms its timer. One patrol a thread,
//! running only while calls wait.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

/// The time between two rounds.
const ROUND: Duration = Duration::from_millis(10);

/// A call with less time than this needs a timer at once.
pub(crate) const SHORT_LIMIT: Duration = Duration::from_millis(50);

thread_local! {
    static PATROL: RefCell<Arc<Patrol>> = RefCell::new(Arc::new(Patrol::default()));
}

#[derive(Debug, Default)]
struct Patrol(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    round: u64,
    next_number: u64,
    places: Vec<Option<Waiting>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    since_round: u64,
    task: Waker,
}

/// One call's entry. Dropped, it is taken out.
#[derive(Debug)]
pub(crate) struct Ticket {
    patrol: Arc<Patrol>,
    place: usize,
    number: u64,
}

/// Puts the present task under the patrol of this thread.
pub(crate) fn watch(task: &Waker) -> Ticket {
    let patrol = PATROL.with_borrow(Arc::clone);
    let mut state = patrol.lock();
    let number = state.next_number;
    state.next_number += 1;
    let waiting = Some(Waiting {
        number,
        since_round: state.round,
        task: task.clone(),
    });
    let place = match state.free.pop() {
        Some(place) => {
            state.places[place] = waiting;
            place
        }
        None => {
            state.places.push(waiting);
            state.places.len() - 1
        }
    };
    let must_start = !std::mem::replace(&mut state.is_running, true);
    drop(state);
    if must_start {
        tokio::spawn(go_round(Running {
            patrol: Arc::clone(&patrol),
            is_done: false,
        }));
    }
    Ticket {
        patrol,
        place,
        number,
    }
}

impl Ticket {
    /// True if the call has waited long enough for a timer of its own; else `task` will be woken.
    pub(crate) fn is_due(&self, task: &Waker) -> bool {
        let mut state = self.patrol.lock();
        match state.places.get_mut(self.place) {
            Some(Some(waiting)) if waiting.number == self.number => {
                waiting.task.clone_from(task);
                false
            }
            _ => true,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.patrol.lock();
        let place = state.places.get_mut(self.place);
        let waiting = place.and_then(|place| place.take_if(|w| w.number == self.number));
        if waiting.is_some() {
            state.free.push(self.place);
        }
        drop(state);
        drop(waiting);
    }
}

impl Patrol {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out who has waited for a whole round; false if nobody waits.
    fn round(&self) -> (Vec<Waker>, bool) {
        let mut state = self.lock();
        state.round += 1;
        let round = state.round;
        let mut due = Vec::new();
        let mut freed = Vec::new();
        let mut rest = false;
        for (place, entry) in state.places.iter_mut().enumerate() {
            match entry.take_if(|waiting| waiting.since_round + 2 <= round) {
                Some(waiting) => {
                    due.push(waiting.task);
                    freed.push(place);
                }
                None => rest |= entry.is_some(),
            }
        }
        state.free.append(&mut freed);
        if !rest {
            state.places.clear();
            state.free.clear();
            state.is_running = false;
        }
        (due, rest)
    }
}

async fn go_round(mut running: Running) {
    let mut goes_on = true;
    while goes_on {
        tokio::time::sleep(ROUND).await;
        let due;
        (due, goes_on) = running.patrol.round();
        for task in due {
            task.wake();
        }
    }
    running.is_done = true;
}

/// If the runtime ends before the patrol, the thread's next runtime starts another.
struct Running {
    patrol: Arc<Patrol>,
    is_done: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_done {
            self.patrol.lock().is_running = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_long_is_woken_once_and_who_is_answered_never() {
        let wakes = Arc::new(Wakes::default());
        let task = Waker::from(Arc::clone(&wakes));
        let long = watch(&task);
        drop(watch(&task));
        assert!(!long.is_due(&task));
        tokio::time::sleep(ROUND * 5).await;
        assert!(long.is_due(&task));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        let state = long.patrol.lock();
        assert!(state.places.is_empty() && !state.is_running);
    }

    #[test]
    fn the_next_runtime_of_a_thread_has_a_patrol_of_its_own() {
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            // Its last ticket is left behind as the runtime ends.
            let _left = runtime.block_on(async {
                let wakes = Arc::new(Wakes::default());
                let task = Waker::from(Arc::clone(&wakes));
                let ticket = watch(&task);
                tokio::time::sleep(ROUND * 5).await;
                assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
                drop(ticket);
                watch(&task)
            });
            drop(runtime);
        }
    }
}
