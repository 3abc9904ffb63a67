//! actix's own mailbox, across arbiters of one process: what a one-way message could cost at best.

use actix::prelude::*;

use bench_harness::Failure;
use bench_harness::cell::{Cell, Outcome, Peer};

#[derive(Default)]
struct Counter {
    notes: u64,
}

impl Actor for Counter {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(4096);
    }
}

#[derive(Message)]
#[rtype(result = "Vec<u8>")]
struct Echo(Vec<u8>);

#[derive(Message)]
#[rtype(result = "()")]
struct Note(#[expect(dead_code, reason = "it is only carried")] Vec<u8>);

#[derive(Message)]
#[rtype(result = "u64")]
struct Count;

impl Handler<Echo> for Counter {
    type Result = Vec<u8>;

    fn handle(&mut self, Echo(payload): Echo, _: &mut Self::Context) -> Vec<u8> {
        payload
    }
}

impl Handler<Note> for Counter {
    type Result = ();

    fn handle(&mut self, _: Note, _: &mut Self::Context) {
        self.notes += 1;
    }
}

impl Handler<Count> for Counter {
    type Result = u64;

    fn handle(&mut self, Count: Count, _: &mut Self::Context) -> u64 {
        self.notes
    }
}

struct Mailbox(Addr<Counter>);

impl Peer for Mailbox {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        Ok(self.0.send(Echo(payload)).await?.len())
    }

    fn note(&self, payload: &[u8]) -> Result<bool, Failure> {
        match self.0.try_send(Note(payload.to_vec())) {
            Ok(()) => Ok(true),
            Err(SendError::Full(_)) => Ok(false),
            Err(SendError::Closed(_)) => Err("the actor is gone".into()),
        }
    }

    async fn count(&self) -> Result<u64, Failure> {
        Ok(self.0.send(Count).await?)
    }
}

pub fn measure(cell: &Cell) -> Result<Outcome, Failure> {
    System::new().block_on(async {
        let arbiter = Arbiter::new();
        let counter = Counter::start_in_arbiter(&arbiter.handle(), |_| Counter::default());
        bench_harness::cell::measure(Mailbox(counter), cell).await
    })
}
