//! What is printed, what comes again, and what a wrong password says.

use clap::CommandFactory as _;
use lockkeeper_canal::testing::CanalServer;

use super::*;

async fn output(arguments: &[&str]) -> String {
    let arguments = [&["canal-tail"], arguments].concat();
    let options = Options::try_parse_from(arguments).unwrap();
    let mut output = Vec::new();
    let running = run(&options, &mut output);
    tokio::time::timeout(Duration::from_secs(60), running)
        .await
        .expect("it ends at its limit")
        .unwrap();
    String::from_utf8(output).unwrap()
}

#[test]
fn the_options_are_sound() {
    Options::command().debug_assert();
}

#[tokio::test]
async fn a_newcomer_sees_changes_as_json_with_nothing_installed() {
    let text = output(&["--embedded", "--limit", "5"]).await;
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["CREATE", "INSERT", "INSERT", "UPDATE", "DELETE"]);
    assert_eq!(lines[1]["table"], "orders");
    assert_eq!(lines[1]["after"]["customer"], "Ada");
    assert_eq!(lines[3]["before"]["amount"], "99.00");
    assert_eq!(lines[3]["after"]["amount"], "89.00");
    assert_eq!(lines[3]["changed"], serde_json::json!(["amount"]));
    assert_eq!(lines[4].get("after"), None);
}

#[tokio::test]
async fn a_table_is_for_people() {
    let text = output(&["--embedded", "--limit", "4", "--format", "table"]).await;
    assert!(text.contains("shop.orders"), "{text}");
    assert!(text.contains("amount=99.00→89.00"), "{text}");
}

#[tokio::test]
async fn what_is_peeked_at_comes_again_and_what_is_acknowledged_does_not() {
    let server = CanalServer::builder()
        .destination("example")
        .user("canal", "secret")
        .start()
        .unwrap();
    for transaction in embedded::script() {
        server.handle().commit(transaction).unwrap();
    }
    let address = server.address().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret\n").unwrap();
    let password_file = file.path().to_str().unwrap();
    let common = [
        "--address",
        &address,
        "--user",
        "canal",
        "--password-file",
        password_file,
    ];
    let peeked = output(&[&common[..], &["--limit", "5"]].concat()).await;
    let acknowledged = output(&[&common[..], &["--limit", "5", "--ack"]].concat()).await;
    assert_eq!(peeked, acknowledged);
    assert_eq!(server.handle().statistics().acked_rows, 4);
}

#[tokio::test]
async fn a_wrong_password_is_said_plainly() {
    let server = CanalServer::builder()
        .destination("example")
        .user("canal", "secret")
        .start()
        .unwrap();
    let address = server.address().to_string();
    let options =
        Options::try_parse_from(["canal-tail", "--address", &address, "--user", "other"]).unwrap();
    let error = run(&options, &mut Vec::new()).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("refused user `other`"), "{text}");
}
