//! `canal-to-kafka` as users start it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use lockkeeper_canal::mq::{FlatMessage, KafkaConsumer, KafkaSettings, MqConsumer};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Watch, given};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_canal-to-kafka"));
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn terminate(mut child: Child) {
    let pid = i32::try_from(child.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let _watch = Watch::over(&child);
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_anything_installed_it_prints_what_it_would_write() {
    let mut child = program(&["--embedded", "--print", "--dynamic-topic", r"shop\.orders"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // CREATE TABLE, two inserted rows, an update, a delete: rows of one statement may be split.
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    while !kinds.contains_key("CREATE") || kinds.values().sum::<usize>() < 4 {
        let line = lines.next().unwrap().unwrap();
        let (place, json) = line.split_once(' ').unwrap();
        assert!(place.starts_with("shop_orders/"), "{line}");
        let message = FlatMessage::parse(json.as_bytes()).unwrap();
        *kinds.entry(message.event_type().to_owned()).or_default() += message.rows();
    }
    let wanted = [("CREATE", 0), ("DELETE", 1), ("INSERT", 2), ("UPDATE", 1)];
    let kinds: Vec<_> = kinds
        .iter()
        .map(|(kind, rows)| (kind.as_str(), *rows))
        .collect();
    assert_eq!(kinds, wanted);
    terminate(child);
}

#[test]
fn protobuf_messages_are_printed_as_digits() {
    let mut child = program(&["--embedded", "--print", "--form", "protobuf"])
        .spawn()
        .unwrap();
    // Held until the end: a program whose output nobody takes has failed.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let digits = line
        .strip_prefix("canal/0 ")
        .unwrap_or_else(|| panic!("{line}"));
    assert!(digits.starts_with("10011807"), "{line}");
    terminate(child);
}

#[test]
fn wrong_settings_end_it_with_the_reason() {
    for (arguments, text) in [
        (vec!["--embedded"], "--kafka"),
        (
            vec!["--embedded", "--print", "--partition-hash", "shop.orders:"],
            "partition hash rule",
        ),
        (
            vec!["--embedded", "--print", "--topic", ""],
            "forwarder.topic has 0 bytes",
        ),
    ] {
        let mut child = program(&arguments).spawn().unwrap();
        assert!(!child.wait().unwrap().success());
        let mut error = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut error)
            .unwrap();
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}

mod real {
    use super::*;

    #[test]
    fn the_embedded_script_is_in_kafka() {
        let Some(broker) = given("LOCKKEEPER_KAFKA") else {
            return;
        };
        let started = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_micros();
        let topic = format!("to-kafka-{started}-{}", std::process::id());
        let arguments = [
            "--embedded",
            "--kafka",
            &broker,
            "--create-topics",
            "1",
            "--topic",
            &topic,
        ];
        let child = program(&arguments)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let consumer = KafkaConsumer::new(KafkaSettings::new([&broker])).unwrap();
        let limits =
            lockkeeper_canal::mq::FetchLimits::new(1 << 20, std::time::Duration::from_millis(200));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let read = async {
            let (mut next, mut kinds) = (0, Vec::new());
            // Until the topic is made, there is none to fetch from.
            while kinds.last().is_none_or(|kind| kind != "DELETE") {
                let Ok(fetched) = consumer.fetch(&topic, 0, next, limits).await else {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    continue;
                };
                for message in fetched.messages {
                    next = message.offset + 1;
                    let message = FlatMessage::parse(&message.payload.unwrap()).unwrap();
                    kinds.push(message.event_type().to_owned());
                }
            }
            kinds
        };
        let read = async { tokio::time::timeout(std::time::Duration::from_secs(120), read).await };
        let kinds = runtime.block_on(read).expect("the messages come");
        assert_eq!(kinds, ["CREATE", "INSERT", "INSERT", "UPDATE", "DELETE"]);
        terminate(child);
    }
}
