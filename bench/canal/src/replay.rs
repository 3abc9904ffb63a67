//! A server that plays recorded frames: to each connection all of them, from the first.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use crate::Failure;
use crate::frames::Batch;

const HANDSHAKE: &[u8] = b"\x10\x01\x18\x01\x2a\x0a\x12\x08\x01\x02\x03\x04\x05\x06\x07\x08";
const ACK: &[u8] = b"\x10\x01\x18\x03";
const NOTHING: &[u8] = b"\x10\x01\x18\x07\x2a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";

/// Serves until the process ends; gives the address.
pub fn start(batches: Arc<Vec<Batch>>) -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // It ends with its client.
            let _ = serve(client, &batches);
        }
    });
    Ok(address)
}

fn serve(mut client: TcpStream, batches: &[Batch]) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    send(&mut client, HANDSHAKE)?;
    let mut rest = batches.iter();
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut packet = vec![0; u32::from_be_bytes(length) as usize];
        client.read_exact(&mut packet)?;
        // Both clients begin with the type.
        match packet.get(1) {
            Some(2 | 4 | 5) => send(&mut client, ACK)?,
            Some(6) => match rest.next() {
                Some(batch) => client.write_all(&batch.frame)?,
                None => send(&mut client, NOTHING)?,
            },
            Some(11) => send(&mut client, &heartbeats_error())?,
            // Acknowledgements and rollbacks have no answer.
            _ => {}
        }
    }
}

fn send(client: &mut TcpStream, packet: &[u8]) -> std::io::Result<()> {
    let length = (packet.len() as u32).to_be_bytes();
    client.write_all(&[&length[..], packet].concat())
}

fn heartbeats_error() -> Vec<u8> {
    let text = b"packet type=HEARTBEAT is NOT supported!";
    let mut body = vec![0x08, 0x90, 0x03, 0x12, text.len() as u8];
    body.extend_from_slice(text);
    let mut packet = ACK.to_vec();
    packet.extend([0x2a, body.len() as u8]);
    packet.extend(body);
    packet
}
