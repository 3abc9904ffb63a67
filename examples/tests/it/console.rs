//! The console as people see it: in a headless Chromium.

/// In a browser, whose program is in the environment (`tests/services/browser` prints it).
mod real {
    mod cluster;
    mod page;
}
