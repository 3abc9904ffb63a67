//! A receiver that does not keep up: the memory of both processes in the flood of `docs/rpc-flow.md`.

use std::process::Command;

use bench_harness::Failure;
use bench_harness::report::Figure;
use bench_harness::report::Goal::AtMost;

/// The project's own workspace.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
const TEST: &str = "flow::both_ways_of_sending_stay_within_their_bounds";
/// How long it is flooded.
const SECONDS: &str = "60";

/// The greater of the two is the figure.
pub fn figures() -> Result<[Figure; 1], Failure> {
    let flooded = Command::new(env!("CARGO"))
        .args(["test", "--release", "--manifest-path", PROJECT])
        .args(["-p", "lockkeeper-remote", "--test", "it", "--"])
        .args(["--exact", TEST, "--nocapture"])
        .env("LOCKKEEPER_FLOW_SECONDS", SECONDS)
        .output()?;
    let said = String::from_utf8_lossy(&flooded.stdout);
    if !flooded.status.success() {
        let errors = String::from_utf8_lossy(&flooded.stderr);
        return Err(format!("the flood failed: {said}{errors}").into());
    }
    let [caller, callee] = ["caller", "callee"].map(|side| {
        let name = format!("rpc.flow.{side}.rss_mb ");
        let line = said.lines().find_map(|line| line.strip_prefix(&name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse::<f64>().ok())
    });
    let (Some(caller), Some(callee)) = (caller, callee) else {
        return Err(format!("the flood told no memory: {said}").into());
    };
    let value = Some(caller.max(callee));
    let figure = Figure::new("rpc.slow_receiver.rss_mb", "MiB", AtMost(128.0), value);
    let figure = figure.runs(1).peer("caller", caller);
    Ok([figure.peer("callee", callee)])
}
