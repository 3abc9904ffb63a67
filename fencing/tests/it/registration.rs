//! Registrations against a receiver that is slow, fails, refuses and accepts.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use lockkeeper_core::{RpcError, RpcErrorKind};
use lockkeeper_fencing::registration::{
    Attempt, ConnectionError, ConnectionState, RegisteredConnection, Registrar,
    RegistrationAttempts, RegistrationOptions, RegistrationResponse, RetryingRegistration, Verdict,
};

#[derive(Clone, Copy, Debug)]
enum Act {
    Silent,
    Fail,
    Refuse,
    Reject,
    Accept,
}

/// Acts one after another; connects from the second try on.
struct Receiver {
    acts: Mutex<Vec<Act>>,
    connects: Mutex<u32>,
    attempts: Mutex<Vec<u64>>,
    seen: Mutex<RegistrationAttempts<&'static str>>,
    verdicts: Mutex<Vec<Verdict>>,
}

impl Receiver {
    fn new(acts: &[Act]) -> Arc<Self> {
        let mut acts = acts.to_vec();
        acts.reverse();
        Arc::new(Receiver {
            acts: Mutex::new(acts),
            connects: Mutex::default(),
            attempts: Mutex::default(),
            seen: Mutex::default(),
            verdicts: Mutex::default(),
        })
    }
}

struct Worker(Arc<Receiver>);

impl Registrar for Worker {
    type Gateway = u32;
    type Success = &'static str;
    type Rejection = &'static str;

    async fn connect(&self) -> Result<u32, RpcError> {
        let mut connects = self.0.connects.lock().unwrap();
        *connects += 1;
        if *connects == 1 {
            return Err(RpcError::new(RpcErrorKind::Unreachable, "not yet"));
        }
        Ok(*connects)
    }

    async fn register(
        &self,
        _: &u32,
        attempt: Attempt,
        _: Duration,
    ) -> Result<RegistrationResponse<&'static str, &'static str>, RpcError> {
        self.0.attempts.lock().unwrap().push(attempt.number);
        let verdict = self.0.seen.lock().unwrap().judge("worker", attempt);
        self.0.verdicts.lock().unwrap().push(verdict);
        let act = self.0.acts.lock().unwrap().pop().unwrap();
        match act {
            Act::Silent => std::future::pending().await,
            Act::Fail => Err(RpcError::new(RpcErrorKind::ConnectionLost, "broken")),
            Act::Refuse => Ok(RegistrationResponse::Failure("busy".to_owned())),
            Act::Reject => Ok(RegistrationResponse::Rejection("unknown job")),
            Act::Accept => Ok(RegistrationResponse::Success("welcome")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_until_it_is_accepted_with_flinks_delays() {
    let receiver = Receiver::new(&[
        Act::Silent,
        Act::Silent,
        Act::Fail,
        Act::Refuse,
        Act::Accept,
    ]);
    let began = tokio::time::Instant::now();
    let registration =
        RetryingRegistration::new(Worker(receiver.clone()), RegistrationOptions::default());
    let registered = registration.run().await.unwrap();
    assert_eq!((registered.gateway, registered.success), (2, "welcome"));
    assert_eq!(*receiver.attempts.lock().unwrap(), [1, 2, 3, 4, 5]);
    // 10 s until it connects, 100 ms and 200 ms time-outs, 10 s after the error, 30 s refused.
    let expected = Duration::from_millis(50_300);
    let elapsed = began.elapsed();
    assert!(
        elapsed >= expected && elapsed < expected + Duration::from_millis(100),
        "{elapsed:?}"
    );
    let mut verdicts = receiver.verdicts.lock().unwrap().clone();
    assert_eq!(verdicts.remove(0), Verdict::New);
    assert!(
        verdicts.iter().all(|verdict| *verdict == Verdict::Repeated),
        "{verdicts:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejection_ends_it() {
    let receiver = Receiver::new(&[Act::Reject]);
    let registration = RetryingRegistration::new(Worker(receiver), RegistrationOptions::default());
    assert_eq!(registration.run().await.unwrap_err(), "unknown job");
}

#[tokio::test(start_paused = true)]
async fn a_connection_keeps_its_gateway_until_the_next_one_stands() {
    let receiver = Receiver::new(&[Act::Accept, Act::Refuse, Act::Accept]);
    let mut connection =
        RegisteredConnection::new(Worker(receiver), RegistrationOptions::default());
    assert_eq!(
        connection.try_reconnect(),
        Err(ConnectionError::NotEstablished)
    );
    connection.start().unwrap();
    assert_eq!(connection.start(), Err(ConnectionError::AlreadyStarted));
    assert_eq!(connection.gateway(), None);
    let mut state = connection.watch();
    let established =
        |state: &ConnectionState<_, _, _>| matches!(state, ConnectionState::Established(_));
    drop(state.wait_for(established).await.unwrap());
    assert_eq!(connection.gateway(), Some(2));
    connection.try_reconnect().unwrap();
    assert_eq!(connection.gateway(), Some(2), "the former one is kept");
    drop(state.wait_for(established).await.unwrap());
    assert_eq!(connection.gateway(), Some(3));
    connection.close();
    assert_eq!(connection.start(), Err(ConnectionError::Closed));
    assert_eq!(connection.try_reconnect(), Err(ConnectionError::Closed));
    assert_eq!(connection.gateway(), None);
}
