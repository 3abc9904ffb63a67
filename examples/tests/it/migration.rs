//! docs/migration.md: its programs run, its claim holds, its text is their text.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::support::{Program, example};

const BEFORE: &str = include_str!("../../examples/migration_before.rs");
const AFTER: &str = include_str!("../../examples/migration_after.rs");
const GUIDE: &str = include_str!("../../../docs/migration.md");

fn post(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_app_before_answers() {
    let (app, address) = Program::start(&mut example("migration_before"));
    assert!(post(&address, "/add/5").ends_with("\r\n\r\n5"));
    app.terminate();
}

#[test]
fn the_app_after_answers_from_two_processes_and_by_status_when_one_is_gone() {
    let (counter, at) = Program::start(&mut example("migration_after"));
    let (web, address) = Program::start(example("migration_after").arg(&at));
    assert!(post(&address, "/add/5").ends_with("\r\n\r\n5"));
    assert!(post(&address, "/add/2").ends_with("\r\n\r\n7"));
    counter.terminate();
    let answer = post(&address, "/add/1");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    web.terminate();
}

/// The lines of code, without empty ones and comments.
fn code(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//"))
}

#[test]
fn fewer_than_thirty_lines_change() {
    let mut before = HashMap::<&str, u32>::new();
    for line in code(BEFORE) {
        *before.entry(line).or_default() += 1;
    }
    let changed = code(AFTER)
        .filter(|line| match before.get_mut(line) {
            Some(left @ 1..) => {
                *left -= 1;
                false
            }
            _ => true,
        })
        .collect::<Vec<_>>();
    assert!(changed.len() < 30, "{}: {changed:#?}", changed.len());
}

#[test]
fn the_guides_code_is_the_programs() {
    for block in GUIDE.split("```rust\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let known = |line| code(BEFORE).chain(code(AFTER)).any(|known| known == line);
        for line in code(block) {
            assert!(known(line), "no program has this line: {line}");
        }
    }
}
