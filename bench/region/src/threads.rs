//! Whose processor time it is: that of the operators' threads, or of those that write state and coordinate.

use actix_rt::Arbiter;
use bench_harness::Failure;
use tokio::sync::oneshot;

/// The threads of the arbiters.
pub async fn of(arbiters: &[Arbiter]) -> Result<Vec<String>, Failure> {
    let mut threads = Vec::new();
    for arbiter in arbiters {
        let (told, thread) = oneshot::channel();
        arbiter.spawn_fn(move || {
            let _ = told.send(rustix::thread::gettid());
        });
        threads.push(thread.await?.as_raw_nonzero().to_string());
    }
    Ok(threads)
}

/// Seconds of all threads of this process but these, those included that have ended.
pub fn cpu_of_others(threads: &[String]) -> Result<f64, Failure> {
    let mut others = bench_harness::cell::cpu_seconds(0)?;
    for thread in threads {
        // Nanoseconds on a processor come first.
        let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))?;
        let ran: f64 = line.split(' ').next().unwrap_or_default().parse()?;
        others -= ran / 1e9;
    }
    Ok(others.max(0.0))
}
