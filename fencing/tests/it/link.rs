//! A link to a server that a test can silence.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards to the server until it is silenced: connections stay open, and nothing comes through.
pub(crate) struct Link {
    pub(crate) address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    silent: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    pub(crate) fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let (server, shared) = (server.to_owned(), state.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&server) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = shared.clone();
                    std::thread::spawn(move || forward(from, to, &state));
                }
                shared.open.lock().unwrap().extend([near, far]);
            }
        });
        Link { address, state }
    }

    pub(crate) fn silence(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }

    /// Lets new connections through; those that have lost bytes are closed.
    pub(crate) fn restore(&self) {
        let mut open = self.state.open.lock().unwrap();
        for connection in open.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.state.silent.store(false, Ordering::SeqCst);
    }
}

/// Keeps both ends open after it was silenced, and swallows what comes.
fn forward(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if !state.silent.load(Ordering::SeqCst) && to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    if !state.silent.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}
