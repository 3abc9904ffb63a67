//! What a program says on its terminal: its lines, and its log.
//!
//! `println!` panics when nobody reads any longer: behind `orders | head`, or when the journal was started
//! again. A job is not there for its lines, so [`say!`](crate::say) and [`note!`](crate::note) let it go on.
//! A program that is nothing but its output, as `canal-tail`, writes to a `Write` and ends when that fails.

use std::fmt;
use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

/// Prints a line on standard output; what can't be written is left out.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::terminal::say(format_args!($($text)*)) };
}

/// Prints a line on standard error; what can't be written is left out.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => { $crate::terminal::note(format_args!($($text)*)) };
}

#[doc(hidden)]
pub fn say(text: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{text}")
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        note(format_args!("standard output: {error}"));
    }
}

#[doc(hidden)]
pub fn note(text: fmt::Arguments<'_>) {
    // there is nowhere left to say so
    let _ = writeln!(io::stderr(), "{text}");
}

/// Logs to standard error, from now on, what `RUST_LOG` asks for; without it what `default` does, in its form.
///
/// # Panics
/// When the process logs already.
pub fn log(default: &str) {
    log_as(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default)));
}

/// Logs to standard error, from now on, what `filter` lets through, whatever the environment says.
///
/// # Panics
/// When the process logs already.
pub fn log_only(filter: &str) {
    log_as(EnvFilter::new(filter));
}

fn log_as(filter: EnvFilter) {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // or a line that can't be written would be a panic
        .log_internal_errors(false)
        .init();
}
