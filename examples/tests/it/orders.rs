//! `orders` on a data folder that it ran on before.

use std::fs;
use std::path::Path;
use std::process::Command;

use lockkeeper_canal::testing::CanalServer;

use crate::support::{Program, output};

fn orders(server: &CanalServer, data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orders"));
    command
        .args(["--canal", &server.address().to_string()])
        .args(["--table", "shop.orders", "--workers", "0", "--no-chaos"])
        .args(["--period", "0.05", "--data"])
        .arg(data);
    command
}

/// Runs until it reads from the server, and ends with a last cut.
fn run(server: &CanalServer, data: &Path) {
    let (mut program, _) = Program::start(&mut orders(server, data));
    program.stop();
}

fn refuses(server: &CanalServer, data: &Path) -> String {
    let output = output(&mut orders(server, data));
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
