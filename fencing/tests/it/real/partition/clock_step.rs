//! The wall clocks of the leader, the standby and the server jump: nothing follows from it.
//!
//! A library that is loaded before the others adds what a file says to each reading of the wall clock.
//! (Go programs do not ask that library, so the server here is ZooKeeper.)

use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::Driver;
use super::stage::{Setting, Stage};

const HOUR: i64 = 3_600;

/// The library and the file that it reads.
struct Clock {
    folder: tempfile::TempDir,
}

impl Clock {
    fn new() -> Self {
        let clock = Clock {
            folder: tempfile::tempdir().unwrap(),
        };
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/real/partition/clock.c"
        );
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(clock.library())
            .arg(source)
            .arg("-ldl")
            .status();
        assert!(made.unwrap().success(), "{source} does not compile");
        clock.step_to(0);
        clock
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("clock.so")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("seconds")
    }

    /// So many seconds before or after the true time, from now on.
    fn step_to(&self, seconds: i64) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, seconds.to_string()).unwrap();
        std::fs::rename(draft, self.file()).unwrap();
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD", text(&self.library())),
            ("LOCKKEEPER_TEST_CLOCK", text(&self.file())),
        ]
    }
}

#[test]
fn wall_clocks_jump_an_hour_forth_and_back() {
    let clock = Clock::new();
    let setting = Setting {
        environment: clock.environment(),
        ..Setting::of(Driver::ZooKeeper)
    };
    let test = "wall_clocks_jump_an_hour_forth_and_back";
    let Some(mut stage) = Stage::open(test, &setting) else {
        return;
    };
    let before = stage.leaders_wall_clock();
    for seconds in [HOUR, -HOUR, 0] {
        clock.step_to(seconds);
        let now = i64::try_from(stage.leaders_wall_clock()).unwrap();
        let stepped = now - i64::try_from(before).unwrap();
        // Half an hour is for the time that has really passed.
        assert!((stepped - seconds).abs() < HOUR / 2, "it has not jumped");
        stage.await_calls(20);
    }
    stage.judge(1);
}
