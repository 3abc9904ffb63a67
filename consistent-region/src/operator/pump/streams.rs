//! The open streams of one instance in one attempt.

use std::task::{self, Poll};

use super::input::Input;
use crate::graph::spec::Erased;
use crate::operator::Operator;
use crate::operator::markers::Markers;
use crate::operator::ports::Side;
use crate::stream::{Closed, Marker, Route};

/// The open streams of one attempt.
pub(crate) struct Streams<A: Operator> {
    pub(super) input: Option<Input<A::Input>>,
    pub(super) sides: Vec<Box<dyn Side<A>>>,
    pub(super) routes: Vec<Route<A::Output>>,
    pub(super) markers: Markers,
    pub(super) paused: bool,
    pub(super) ended: bool,
    /// The last cut that a start operator began.
    pub(super) drained: u64,
}

impl<A: Operator> Streams<A> {
    pub(super) fn open(
        input: Option<Erased>,
        sides: Option<Vec<Box<dyn Side<A>>>>,
        channels: Vec<usize>,
        routes: Vec<Erased>,
    ) -> Option<Self> {
        let input = match input {
            None => None,
            Some(input) => Some(Input::new(*input.downcast().ok()?)),
        };
        let routes = routes
            .into_iter()
            .map(|route| route.downcast().ok().map(|route| *route))
            .collect::<Option<Vec<Route<A::Output>>>>()?;
        Some(Self {
            input,
            sides: sides?,
            routes,
            markers: Markers::new(channels),
            paused: true,
            ended: false,
            drained: 0,
        })
    }

    pub(super) fn poll_room(&mut self, task: &mut task::Context<'_>) -> Poll<Result<(), Closed>> {
        let mut all = Poll::Ready(Ok(()));
        for route in &mut self.routes {
            match route.poll_ready(task) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(closed)) => return Poll::Ready(Err(closed)),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    }

    /// Gives every route the tuples; those that share a stream get copies.
    pub(super) fn accept(&mut self, tuples: Vec<A::Output>) {
        if tuples.is_empty() || self.routes.is_empty() {
            return;
        }
        let owner = self
            .routes
            .iter()
            .position(|route| route.duplicate().is_none());
        let owner = owner.unwrap_or(self.routes.len() - 1);
        for (index, route) in self.routes.iter_mut().enumerate() {
            if let (true, Some(duplicate)) = (index != owner, route.duplicate()) {
                route.accept(tuples.iter().map(duplicate).collect());
            }
        }
        self.routes[owner].accept(tuples);
    }

    /// Batches that the receivers have not taken yet.
    pub(super) fn queued(&self) -> u64 {
        let queued: usize = self.routes.iter().map(Route::queued).sum();
        u64::try_from(queued).unwrap_or(u64::MAX)
    }

    pub(super) fn accept_marker(&mut self, marker: Marker) {
        for route in &mut self.routes {
            route.accept_marker(marker);
        }
    }
}
