//! When a leadership is first renewed; from then on it is after equal pauses.

use std::time::Duration;

/// How long the first pause is: some part of `pause`, drawn anew each time.
///
/// A server looks for sessions that have ended at the ticks of its clock, so a leadership begins with
/// a tick, at which that of the predecessor ended. If a pause is as long as a tick, or a multiple of
/// one, the renewals of such a leader would all come just after ticks; and from there it is longest to
/// the tick at which the server sees that its leader is gone.
pub(super) fn first_pause(pause: Duration) -> Duration {
    pause.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_renew_at_all_places_of_a_servers_tick() {
        const PAUSE: Duration = Duration::from_millis(500);
        let mut quarters = [false; 4];
        for _ in 0..1_000 {
            let first = first_pause(PAUSE);
            assert!(first < PAUSE, "{first:?}");
            quarters[usize::try_from(first.as_millis() / 125).unwrap()] = true;
        }
        assert_eq!(quarters, [true; 4]);
    }
}
