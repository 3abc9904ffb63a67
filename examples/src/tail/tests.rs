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

#[test]
fn a_password_is_never_an_argument() {
    let command = Options::command();
    let names = command
        .get_arguments()
        .map(|argument| argument.get_id().as_str());
    let passwords: Vec<_> = names.filter(|name| name.contains("password")).collect();
    assert_eq!(passwords, ["password_file"]);
    let given = Options::try_parse_from(["canal-tail", "--embedded", "--password", "secret"]);
    assert!(given.is_err());
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

/// On the real servers; without them it says that it skips, and fails in CI.
mod real {
    use std::process::Command;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;

    /// What was written so far, for one who looks meanwhile.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn sql(address: &str, statement: &str) {
        let (host, port) = address.rsplit_once(':').unwrap();
        let password = variable("LOCKKEEPER_MYSQL_PASSWORD_FILE").map(std::fs::read_to_string);
        let user = variable("LOCKKEEPER_MYSQL_USER").unwrap_or_else(|| "root".to_owned());
        let status = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--protocol=TCP",
                "--host",
                host,
                "--port",
                port,
            ])
            .args(["--user", &user, "--execute", statement])
            .env(
                "MYSQL_PWD",
                password.map_or_else(String::new, Result::unwrap).trim(),
            )
            .status()
            .expect("the command line client `mariadb` starts");
        assert!(status.success(), "failed: {statement}");
    }

    #[tokio::test]
    async fn the_server_of_a_cluster_is_found_by_zookeeper() {
        let variables = [
            "LOCKKEEPER_ZOOKEEPER",
            "LOCKKEEPER_CANAL_HA_DESTINATIONS",
            "LOCKKEEPER_MYSQL",
        ];
        let [Some(ensemble), Some(destinations), Some(mysql)] = variables.map(variable) else {
            let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!ci, "no cluster: set {variables:?}");
            eprintln!("skipped: no cluster, set {variables:?}");
            return;
        };
        let destination = destinations.split(',').next_back().unwrap();
        let user = variable("LOCKKEEPER_CANAL_USER").unwrap_or_default();
        let password_file = variable("LOCKKEEPER_CANAL_PASSWORD_FILE").unwrap();
        let schema = format!("canal_tail_{}", std::process::id());
        sql(
            &mysql,
            &format!(
                "CREATE DATABASE {schema}; CREATE TABLE {schema}.notes (id INT PRIMARY KEY AUTO_INCREMENT, text TEXT)"
            ),
        );
        let filter = format!(r"{schema}\..*");
        let options = Options::try_parse_from([
            "canal-tail",
            "--from-zookeeper",
            &ensemble,
            "--destination",
            destination,
            "--user",
            &user,
            "--password-file",
            &password_file,
            "--filter",
            &filter,
            "--ack",
        ]);
        let options = options.unwrap();
        let output = Shared::default();
        let mut written = output.clone();
        let running = run(&options, &mut written);
        tokio::pin!(running);
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            // Until one comes behind the subscription.
            sql(
                &mysql,
                &format!("INSERT INTO {schema}.notes (text) VALUES ('by ZooKeeper')"),
            );
            let soon = tokio::time::timeout(Duration::from_millis(100), &mut running).await;
            assert!(soon.is_err(), "it has ended: {soon:?}");
            let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
            if text
                .lines()
                .any(|line| line.contains(&schema) && line.contains("by ZooKeeper"))
            {
                break;
            }
            assert!(Instant::now() < until, "{text}");
        }
        sql(&mysql, &format!("DROP DATABASE {schema}"));
    }
}
