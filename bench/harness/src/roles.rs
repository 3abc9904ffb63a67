//! The roles of a peer's program: `server`, and `client ADDRESS SERVER_PID MODE BYTES IN_FLIGHT SECONDS`.

use std::io::Read as _;

use crate::Failure;
use crate::cell::{Cell, Outcome};

/// Does what the arguments say. A server tells its address by [`tell_ready`] and serves until [`parent_gone`].
pub fn peer_main(
    serve: impl FnOnce() -> Result<(), Failure>,
    measure: impl FnOnce(&str, &Cell) -> Result<Outcome, Failure>,
) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server"] => serve(),
        ["client", address, ref cell @ ..] => tell_result(&measure(address, &Cell::parse(cell)?)?),
        _ => Err("server, or client ADDRESS SERVER_PID MODE BYTES IN_FLIGHT SECONDS".into()),
    }
}

/// One thread, as the bare connection has: on a machine of few cores the fastest for every peer.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Says that the server can be called at `address`.
pub fn tell_ready(address: impl std::fmt::Display) {
    println!("READY {address}");
}

/// Says what a client has measured.
pub fn tell_result(outcome: &Outcome) -> Result<(), Failure> {
    println!("RESULT {}", serde_json::to_string(outcome)?);
    Ok(())
}

/// Ends this process when the one that started it closes the pipe.
pub fn parent_gone() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}
