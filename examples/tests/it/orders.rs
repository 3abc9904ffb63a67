//! `orders` on a data folder that it ran on before.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lockkeeper_canal::testing::CanalServer;
use rustix::process::{Pid, Signal, kill_process};

fn start(server: &CanalServer, data: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orders"))
        .args(["--canal", &server.address().to_string()])
        .args(["--table", "shop.orders", "--workers", "0", "--no-chaos"])
        .args(["--period", "0.05", "--data"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs until a cut is complete, and ends with a last one.
fn run(server: &CanalServer, data: &Path) {
    let mut child = start(server, data);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let cut = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("cut ")));
    assert!(cut.is_some(), "{}", errors(child));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).unwrap();
    for line in lines {
        line.unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("to go on"), "{errors}");
}

/// What it says at its end.
fn errors(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

fn refuses(server: &CanalServer, data: &Path) -> String {
    let output = start(server, data).wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let advice = "put them back, or begin anew with an empty --data";
    assert!(errors.contains(advice), "{errors}");
    errors
}

#[test]
fn a_job_whose_checkpoints_were_removed_is_never_begun_anew() {
    let server = CanalServer::builder().start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    run(&server, &data);
    run(&server, &data);

    let store = data.join("store");
    fs::rename(&store, &aside).unwrap();
    refuses(&server, &data);
    assert!(!store.exists(), "an empty store was made");
    for part in ["objects", "log"] {
        fs::create_dir_all(store.join(part)).unwrap();
    }
    let errors = refuses(&server, &data);
    assert!(errors.contains("is empty"), "{errors}");

    fs::remove_dir_all(&store).unwrap();
    fs::rename(&aside, &store).unwrap();
    run(&server, &data);
}
