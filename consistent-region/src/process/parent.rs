//! A child process that does not outlive who started it.

use std::io::Read;

/// Ends this process when its standard input does: for a process whose parent holds the other end
/// of its standard input and writes nothing, as [`LocalProcesses`](super::LocalProcesses) does.
///
/// A parent that is killed can't tell its children, and they would go on. It holds its end of the
/// pipe until its very last moment, so that this works for every way to end. What ends here ends
/// as by SIGKILL, without a last word: a region loses nothing by it.
///
/// Not for a process that reads its standard input, or that has none (`/dev/null` ends at once).
/// A process that is stopped by SIGSTOP ends when it goes on.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let (mut input, mut ignored) = (std::io::stdin().lock(), [0_u8; 64]);
        while input.read(&mut ignored).is_ok_and(|count| count > 0) {}
        // Nothing else can be done if even that fails.
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
}
