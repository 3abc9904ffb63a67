//! When to connect, register, wait and give up: a pure machine.

use std::time::Duration;

/// How registrations are retried. The defaults are Flink's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationOptions {
    /// The first attempt's time-out (100 ms); each time-out doubles it.
    pub initial_timeout: Duration,
    /// The longest time-out of an attempt (30 s).
    pub max_timeout: Duration,
    /// The pause after an error of connecting or registering (10 s).
    pub error_delay: Duration,
    /// The pause after the answer "failure" (30 s).
    pub refused_delay: Duration,
}

impl Default for RegistrationOptions {
    fn default() -> Self {
        RegistrationOptions {
            initial_timeout: Duration::from_millis(100),
            max_timeout: Duration::from_secs(30),
            error_delay: Duration::from_secs(10),
            refused_delay: Duration::from_secs(30),
        }
    }
}

impl RegistrationOptions {
    /// Sets the pauses after an error and after a refusal.
    #[must_use]
    pub fn with_delays(mut self, error_delay: Duration, refused_delay: Duration) -> Self {
        (self.error_delay, self.refused_delay) = (error_delay, refused_delay);
        self
    }

    /// Sets the first and the longest time-out of an attempt.
    #[must_use]
    pub fn with_timeouts(mut self, initial: Duration, max: Duration) -> Self {
        (self.initial_timeout, self.max_timeout) = (initial, max);
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Connected,
    ConnectFailed,
    TimedOut,
    CallFailed,
    Refused,
    Waited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Connect,
    Register { attempt: u64, limit: Duration },
    Wait(Duration),
}

/// One registration, until its shell has an answer that ends it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    options: RegistrationOptions,
    connected: bool,
    attempt: u64,
    limit: Duration,
}

impl Machine {
    pub(super) fn new(options: RegistrationOptions) -> Self {
        let limit = options.initial_timeout;
        Machine {
            options,
            connected: false,
            attempt: 0,
            limit,
        }
    }

    pub(super) fn step(&mut self, event: Event) -> Action {
        match event {
            Event::Connected => {
                self.connected = true;
                self.register()
            }
            Event::ConnectFailed => Action::Wait(self.options.error_delay),
            Event::Waited if self.connected => self.register(),
            Event::Waited => Action::Connect,
            // At once: the time-out was the pause.
            Event::TimedOut => {
                self.limit = self.limit.saturating_mul(2).min(self.options.max_timeout);
                self.register()
            }
            Event::CallFailed => self.pause(self.options.error_delay),
            Event::Refused => self.pause(self.options.refused_delay),
        }
    }

    fn register(&mut self) -> Action {
        self.attempt += 1;
        Action::Register {
            attempt: self.attempt,
            limit: self.limit,
        }
    }

    fn pause(&mut self, delay: Duration) -> Action {
        self.limit = self.options.initial_timeout;
        Action::Wait(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(action: Action) -> Duration {
        match action {
            Action::Register { limit, .. } => limit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn time_outs_double_at_once_up_to_the_longest_and_begin_anew_after_an_error() {
        let mut machine = Machine::new(RegistrationOptions::default());
        let mut limits = vec![limit_of(machine.step(Event::Connected))];
        limits.extend((0..10).map(|_| limit_of(machine.step(Event::TimedOut))));
        let milliseconds: Vec<u128> = limits.iter().map(Duration::as_millis).collect();
        let expected = [
            100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
        ];
        assert_eq!(milliseconds, expected);
        assert_eq!(
            machine.step(Event::CallFailed),
            Action::Wait(Duration::from_secs(10))
        );
        let again = Action::Register {
            attempt: 12,
            limit: Duration::from_millis(100),
        };
        assert_eq!(machine.step(Event::Waited), again);
        assert_eq!(
            machine.step(Event::Refused),
            Action::Wait(Duration::from_secs(30))
        );
    }

    #[test]
    fn connecting_is_retried_after_the_error_delay() {
        let mut machine = Machine::new(RegistrationOptions::default());
        assert_eq!(
            machine.step(Event::ConnectFailed),
            Action::Wait(Duration::from_secs(10))
        );
        assert_eq!(machine.step(Event::Waited), Action::Connect);
    }
}
