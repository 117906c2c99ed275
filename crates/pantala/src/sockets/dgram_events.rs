//! Events of a socket of datagrams, and its waiters.

use core::net::SocketAddr;
use core::task::{Poll, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use net::channel::Event;
use net::sock::Error;
use net::udp::{FAILURES_MAX, Failure, QUOTE_MAX};

use super::endpoint::lock;
use super::error;
use super::wakers::Wakers;

/// Events of a socket.
pub(super) struct State(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// A netisr that it is on is gone.
    is_gone: bool,
    readers: Wakers,
    writers: Wakers,
    askers: Wakers,
    serial: u32,
    /// Requests, until their callers look no more.
    asked: Vec<(u32, Option<Result<SocketAddr, Error>>)>,
    /// Datagrams that did not arrive, and what ICMP errors quote of them; the oldest give way.
    failures: VecDeque<(Failure, Vec<u8>)>,
    /// Parts of a quote, by the CPU that reports it.
    parts: Vec<(usize, Vec<u8>)>,
}

impl State {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(super) fn note(&self, cpu: usize, event: Event, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        match event {
            Event::Readable(_) => told.readers.move_to(wakes),
            Event::Answer(question, answer) => told.answer(question.serial, answer, wakes),
            Event::Failed(_, failure) => told.fail(cpu, failure, wakes),
            Event::Quote(_, quote) => told.quote(cpu, quote.bytes()),
            _ => told.writers.move_to(wakes),
        }
    }

    /// Nothing goes on: a netisr is gone.
    pub(super) fn end(&self, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        told.is_gone = true;
        told.readers.move_to(wakes);
        told.writers.move_to(wakes);
        told.askers.move_to(wakes);
    }

    pub(super) fn is_gone(&self) -> bool {
        lock(&self.0).is_gone
    }

    pub(super) fn add_reader(&self, waker: &Waker) {
        lock(&self.0).readers.add(waker);
    }

    pub(super) fn add_writer(&self, waker: &Waker) {
        lock(&self.0).writers.add(waker);
    }

    pub(super) fn take_failure(&self) -> Option<(Failure, Vec<u8>)> {
        lock(&self.0).failures.pop_front()
    }

    pub(super) fn has_failed(&self) -> bool {
        !lock(&self.0).failures.is_empty()
    }

    /// Something is asked.
    pub(super) fn ask(self: &Arc<Self>) -> Asked {
        let mut told = lock(&self.0);
        told.serial = told.serial.wrapping_add(1);
        let serial = told.serial;
        told.asked.push((serial, None));
        drop(told);
        Asked { state: Arc::clone(self), serial }
    }
}

impl Inner {
    fn answer(&mut self, serial: u32, answer: Result<SocketAddr, Error>, wakes: &mut Vec<Waker>) {
        if let Some((_, place)) = self.asked.iter_mut().find(|(asked, _)| *asked == serial) {
            *place = Some(answer);
            self.askers.move_to(wakes);
        }
    }

    /// Keeps a part of the datagram whose failure comes next from a CPU.
    fn quote(&mut self, cpu: usize, bytes: &[u8]) {
        match self.parts.iter_mut().find(|(of, _)| *of == cpu) {
            Some((_, quote)) if quote.len() + bytes.len() > QUOTE_MAX => {}
            Some((_, quote)) => quote.extend(bytes),
            None => self.parts.push((cpu, bytes.to_vec())),
        }
    }

    fn fail(&mut self, cpu: usize, failure: Failure, wakes: &mut Vec<Waker>) {
        let part = self.parts.iter().position(|(of, _)| *of == cpu);
        let quote = part.map_or_else(Vec::new, |at| self.parts.swap_remove(at).1);
        if self.failures.len() >= FAILURES_MAX {
            self.failures.pop_front();
        }
        self.failures.push_back((failure, quote));
        self.readers.move_to(wakes);
    }
}

/// A request. Dropping it discards the reply.
pub(super) struct Asked {
    state: Arc<State>,
    serial: u32,
}

impl Asked {
    /// The number of the answer.
    pub(super) const fn serial(&self) -> u32 {
        self.serial
    }

    /// The answer.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<io::Result<Result<SocketAddr, Error>>> {
        let mut told = lock(&self.state.0);
        match told.asked.iter().find(|(serial, _)| *serial == self.serial) {
            Some((_, Some(answer))) => Poll::Ready(Ok(*answer)),
            _ if told.is_gone => Poll::Ready(Err(error::gone())),
            _ => {
                told.askers.add(waker);
                Poll::Pending
            }
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        lock(&self.state.0).asked.retain(|(serial, _)| *serial != self.serial);
    }
}
