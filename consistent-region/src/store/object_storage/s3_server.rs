//! Against a server in this process that speaks the part of S3's API that is used.

use std::collections::BTreeMap;
use std::io;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::super::contract;
use super::ObjectStorageStore;

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Serves the bucket `bucket` until the test's process ends.
fn serve() -> (String, Objects) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let objects = Objects::default();
    let shared = Arc::clone(&objects);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let objects = Arc::clone(&shared);
            std::thread::spawn(move || {
                let _ = answer(&stream, &objects);
            });
        }
    });
    (url, objects)
}

/// One request a connection.
fn answer(mut stream: &TcpStream, objects: &Objects) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (mut length, mut only_new, mut signed) = (0, false, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "if-none-match" => only_new = value == "*",
            "authorization" => signed = value.starts_with("AWS4-HMAC-SHA256 "),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let key = path.trim_start_matches("/bucket").trim_start_matches('/');
    let mut objects = objects.lock().unwrap();
    let (status, content) = match method.as_str() {
        _ if !signed => ("403 Forbidden", Vec::new()),
        "PUT" if only_new && objects.contains_key(key) => ("412 Precondition Failed", Vec::new()),
        "PUT" => {
            objects.insert(key.to_owned(), body);
            ("200 OK", Vec::new())
        }
        "GET" if query.contains("list-type=2") => ("200 OK", list(&objects, query)),
        "GET" => match objects.get(key) {
            Some(bytes) => ("200 OK", bytes.clone()),
            None => ("404 Not Found", Vec::new()),
        },
        "DELETE" => {
            objects.remove(key);
            ("204 No Content", Vec::new())
        }
        _ => ("501 Not Implemented", Vec::new()),
    };
    drop(objects);
    let length = content.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"1\"\r\n\
         Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&content)
}

fn list(objects: &BTreeMap<String, Vec<u8>>, query: &str) -> Vec<u8> {
    let parameter = |pair: &str| pair.strip_prefix("prefix=").map(|p| p.replace("%2F", "/"));
    let prefix = query.split('&').find_map(parameter).unwrap_or_default();
    let found = objects.iter().filter(|(key, _)| key.starts_with(&prefix));
    let entries: String = found
        .map(|(key, bytes)| {
            format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><ETag>\"1\"</ETag>\
                 <LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>",
                bytes.len()
            )
        })
        .collect();
    format!("<ListBucketResult>{entries}</ListBucketResult>").into_bytes()
}

#[test]
fn the_api_of_s3_keeps_the_contract() {
    let (endpoint, objects) = serve();
    let options = [
        ("aws_endpoint", endpoint.as_str()),
        ("aws_allow_http", "true"),
        ("aws_region", "eu-central-1"),
        ("aws_access_key_id", "key"),
        ("aws_secret_access_key", "secret"),
        ("aws_disable_bulk_delete", "true"),
    ];
    let store = ObjectStorageStore::open("s3://bucket/regions/orders", options).unwrap();
    contract::all(&store.with_chunk_bytes(1024 * 1024));
    let objects = objects.lock().unwrap();
    let is_ours = |key: &String| key.starts_with("regions/orders/objects/");
    assert!(
        !objects.is_empty() && objects.keys().all(is_ours),
        "{:?}",
        objects.keys()
    );
}
