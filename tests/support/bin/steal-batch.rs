//! A second connection that takes batches of somebody else's client id and acknowledges nothing:
//! what a forgotten client, or a GET of a dead socket, does to a consumer.
//!
//! Speaks Canal's packets by hand, because the project's own client would roll back first.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use sha1::{Digest, Sha1};

/// Packet types.
const HANDSHAKE: u64 = 1;
const AUTHENTICATION: u64 = 2;
const GET: u64 = 6;
const MESSAGES: u64 = 7;
/// Batches to ask for until one is stolen.
const ATTEMPTS: u32 = 2_000;

fn main() -> ExitCode {
    match steal() {
        Ok(entries) => {
            println!("stole a batch of {entries} bytes");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("steal-batch: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn steal() -> anyhow::Result<usize> {
    let address = argument("--address")?;
    let destination = argument("--destination")?;
    let user = argument("--user")?;
    let password = std::fs::read_to_string(argument("--password-file")?)?;
    let mut server = TcpStream::connect(&address).with_context(|| address.clone())?;
    server.set_read_timeout(Some(Duration::from_secs(10)))?;
    let handshake = receive(&mut server, HANDSHAKE)?;
    let seeds = bytes_field(&handshake, 2).context("a handshake without seeds")?;
    let mut login = Vec::new();
    text(&mut login, 1, user.as_bytes());
    text(
        &mut login,
        2,
        token(password.trim_end().as_bytes(), seeds).as_bytes(),
    );
    send(&mut server, AUTHENTICATION, &login)?;
    receive(&mut server, 3)?;
    for _ in 0..ATTEMPTS {
        let mut get = Vec::new();
        text(&mut get, 1, destination.as_bytes());
        text(&mut get, 2, b"1001");
        number(&mut get, 3, 64);
        // -1: what is there, at once; in milliseconds
        number(&mut get, 4, u64::MAX);
        number(&mut get, 5, 2);
        send(&mut server, GET, &get)?;
        let messages = receive(&mut server, MESSAGES)?;
        if number_field(&messages, 1) != Some(u64::MAX) {
            return Ok(messages.len());
        }
    }
    bail!("{destination} had nothing to steal in {ATTEMPTS} attempts")
}

fn argument(name: &str) -> anyhow::Result<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments
        .nth(1)
        .with_context(|| format!("{name} is needed"))
}

/// What the server expects in the place of a password.
fn token(password: &[u8], seeds: &[u8]) -> String {
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mixed = Sha1::new()
        .chain_update(seeds)
        .chain_update(twice)
        .finalize();
    once.iter()
        .zip(mixed)
        .map(|(a, b)| format!("{:02x}", a ^ b))
        .collect()
}

fn send(server: &mut TcpStream, kind: u64, body: &[u8]) -> anyhow::Result<()> {
    let mut packet = Vec::new();
    number(&mut packet, 3, kind);
    text(&mut packet, 5, body);
    let length = u32::try_from(packet.len())?;
    server.write_all(&[&length.to_be_bytes()[..], &packet].concat())?;
    Ok(())
}

/// The body of the next packet, which must be of this kind.
fn receive(server: &mut TcpStream, kind: u64) -> anyhow::Result<Vec<u8>> {
    let mut length = [0; 4];
    server.read_exact(&mut length)?;
    let mut packet = vec![0; usize::try_from(u32::from_be_bytes(length))?];
    server.read_exact(&mut packet)?;
    let body = bytes_field(&packet, 5).unwrap_or_default().to_vec();
    match number_field(&packet, 3) {
        Some(got) if got == kind => Ok(body),
        got => bail!(
            "packet {got:?} in the place of {kind}: {}",
            String::from_utf8_lossy(&body)
        ),
    }
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    to.push(u8::try_from(value).unwrap_or_default());
}

fn number(to: &mut Vec<u8>, field: u64, value: u64) {
    varint(to, field << 3);
    varint(to, value);
}

fn text(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(mut rest: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while let Some((tag, after)) = read_varint(rest) {
        let Some((value, after)) = read_varint(after) else {
            break;
        };
        rest = after;
        if tag & 7 == 0 {
            found.push((tag >> 3, Field::Number(value)));
            continue;
        }
        let length = usize::try_from(value).unwrap_or(usize::MAX).min(rest.len());
        found.push((tag >> 3, Field::Bytes(&rest[..length])));
        rest = &rest[length..];
    }
    found
}

fn read_varint(from: &[u8]) -> Option<(u64, &[u8])> {
    let end = from.iter().position(|byte| byte & 0x80 == 0)?;
    let value = from[..=end]
        .iter()
        .rev()
        .fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, &from[end + 1..]))
}

fn number_field(message: &[u8], wanted: u64) -> Option<u64> {
    fields(message)
        .into_iter()
        .find_map(|(field, value)| match value {
            Field::Number(value) if field == wanted => Some(value),
            _ => None,
        })
}

fn bytes_field(message: &[u8], wanted: u64) -> Option<&[u8]> {
    fields(message)
        .into_iter()
        .find_map(|(field, value)| match value {
            Field::Bytes(value) if field == wanted => Some(value),
            _ => None,
        })
}
