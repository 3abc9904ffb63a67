//! What all targets have in common: how a body is run, and how much it may allocate.

use std::alloc::System;
use std::sync::Once;

use cap::Cap;

/// What a body may allocate beside what stands in relation to its input, in bytes.
const ALLOWANCE: usize = 16 * 1024 * 1024;

/// How many bytes it may allocate for one byte of input: the smallest parts of the densest format
/// become objects, which a vector holds twice while it grows, and the body makes them once more to
/// compare.
const PER_BYTE: usize = 1024;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Runs a body on an input. What it allocates beyond the limit is refused, which ends the process and
/// is reported as any crash.
pub fn run(body: fn(&[u8]), bytes: &[u8]) {
    static HOOK: Once = Once::new();
    HOOK.call_once(report_without_a_limit);
    let limit = ALLOCATOR.allocated() + ALLOWANCE + PER_BYTE * bytes.len();
    ALLOCATOR
        .set_limit(limit)
        .expect("the limit is above what is allocated");
    body(bytes);
    ALLOCATOR
        .set_limit(usize::MAX)
        .expect("there is no higher limit");
}

/// What a panic writes, its backtrace above all, does not count: refused in there, the process would
/// hang instead of ending.
fn report_without_a_limit() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // There is no higher limit that could be refused.
        let _ = ALLOCATOR.set_limit(usize::MAX);
        report(panic);
    }));
}

/// A target: the function that libFuzzer calls, around a body.
#[macro_export]
macro_rules! target {
    ($body:path) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::run($body, bytes));
    };
}
