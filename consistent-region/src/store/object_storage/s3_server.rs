//! A server in this process that speaks the part of S3's API that is used.

use std::collections::BTreeMap;
use std::io;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A server for tests that speaks as much of S3's API as
/// [`ObjectStorageStore`](super::ObjectStorageStore) uses, on a port of this host (feature `testing`). It
/// keeps objects in memory, has every bucket that is asked for, and wants requests signed, by whatever
/// key. Dropping it ends it.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    objects: Objects,
    ended: Arc<AtomicBool>,
}

impl S3Server {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no port for it.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = Self {
            address: listener.local_addr()?,
            objects: Objects::default(),
            ended: Arc::default(),
        };
        let (objects, ended) = (Arc::clone(&server.objects), Arc::clone(&server.ended));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let objects = Arc::clone(&objects);
                std::thread::spawn(move || {
                    // Who has gone wants no answer.
                    let _ = answer(&stream, &objects);
                });
            }
        });
        Ok(server)
    }

    /// The options by which a store reaches it, as [`ObjectStorageStore::open`] takes them; in capital
    /// letters, they are the environment of `lockkeeper-region`.
    ///
    /// [`ObjectStorageStore::open`]: super::ObjectStorageStore::open
    #[must_use]
    pub fn options(&self) -> Vec<(&'static str, String)> {
        vec![
            ("aws_endpoint", format!("http://{}", self.address)),
            ("aws_allow_http", "true".to_owned()),
            ("aws_region", "eu-central-1".to_owned()),
            ("aws_access_key_id", "key".to_owned()),
            ("aws_secret_access_key", "secret".to_owned()),
            ("aws_disable_bulk_delete", "true".to_owned()),
        ]
    }

    /// The names of all objects, each as `bucket/key`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        lock(&self.objects).keys().cloned().collect()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that listens.
        let _ = TcpStream::connect(self.address);
    }
}

/// One request a connection.
fn answer(mut stream: &TcpStream, objects: &Objects) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let (mut length, mut only_new, mut signed) = (0, false, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "if-none-match" => only_new = value == "*",
            "authorization" => signed = value.starts_with("AWS4-HMAC-SHA256 "),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let key = path.trim_start_matches('/');
    let mut objects = lock(objects);
    let (status, content) = match method.as_str() {
        _ if !signed => ("403 Forbidden", Vec::new()),
        "PUT" if only_new && objects.contains_key(key) => ("412 Precondition Failed", Vec::new()),
        "PUT" => {
            objects.insert(key.to_owned(), body);
            ("200 OK", Vec::new())
        }
        "GET" if query.contains("list-type=2") => ("200 OK", list(&objects, key, query)),
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

/// Keys are `bucket/key` here, and without the bucket in an answer.
fn list(objects: &BTreeMap<String, Vec<u8>>, bucket: &str, query: &str) -> Vec<u8> {
    let parameter = |pair: &str| pair.strip_prefix("prefix=").map(|p| p.replace("%2F", "/"));
    let prefix = query.split('&').find_map(parameter).unwrap_or_default();
    let bucket = format!("{}/", bucket.trim_end_matches('/'));
    let in_bucket = |(key, bytes): (&String, &Vec<u8>)| {
        let key = key.strip_prefix(&bucket)?;
        key.starts_with(&prefix).then(|| {
            format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><ETag>\"1\"</ETag>\
                 <LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>",
                bytes.len()
            )
        })
    };
    let entries: String = objects.iter().filter_map(in_bucket).collect();
    format!("<ListBucketResult>{entries}</ListBucketResult>").into_bytes()
}

fn lock(objects: &Objects) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::super::contract;
    use super::super::ObjectStorageStore;
    use super::*;

    #[test]
    fn the_api_of_s3_keeps_the_contract() {
        let server = S3Server::start().unwrap();
        let options = server.options();
        let options = options.iter().map(|(name, value)| (*name, value.as_str()));
        let store = ObjectStorageStore::open("s3://bucket/regions/orders", options).unwrap();
        contract::all(&store.with_chunk_bytes(1024 * 1024));
        let names = server.names();
        let is_ours = |key: &String| key.starts_with("bucket/regions/orders/objects/");
        assert!(!names.is_empty() && names.iter().all(is_ours), "{names:?}");
    }
}
