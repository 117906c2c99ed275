//! A listener on all CPUs, whose connections come together where they are accepted.

use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::{Poll, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use net::channel::{Command, Listen, Setting, Target};
use net::sock::Error;

use super::endpoint::{Endpoint, lock};
use super::error;
#[cfg(feature = "cli")]
use super::options::check;
use super::stream::{Stream, zone};
use super::wakers::Wakers;

/// Connections that are handed over ahead of being asked for, from each CPU, if nothing else is said: as many as DragonFly tells
/// a program of at once, so that it serves those that it has before it takes more.
pub(super) const AHEAD: u32 = 32;

/// A listener.
pub(crate) struct Listener {
    endpoint: Arc<Endpoint>,
    number: u32,
    queue: Arc<Queue>,
    addr: SocketAddr,
    /// Settings of its connections.
    settings: Vec<Setting>,
}

/// The local address and settings of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) addr: SocketAddr,
    pub(super) only_v6: bool,
    pub(super) is_shared: bool,
    /// `None`: it takes its place, and no connections before it is opened.
    pub(super) backlog: Option<u32>,
    /// Connections that are handed over ahead of being asked for, from each CPU.
    pub(super) ahead: u32,
}

/// The events of a listener.
pub(super) struct Queue(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Results of the CPUs.
    listening: Vec<Option<Result<SocketAddr, Error>>>,
    accepted: VecDeque<Stream>,
    is_over: bool,
    wakers: Wakers,
}

impl Queue {
    pub(super) fn listens(&self, cpu: usize, at: Result<SocketAddr, Error>, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        if let Some(place) = told.listening.get_mut(cpu) {
            *place = Some(at);
        }
        told.wakers.move_to(wakes);
    }

    pub(super) fn push(&self, stream: Stream, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        told.accepted.push_back(stream);
        told.wakers.move_to(wakes);
    }

    pub(super) fn end(&self, wakes: &mut Vec<Waker>) {
        let mut told = lock(&self.0);
        told.is_over = true;
        told.wakers.move_to(wakes);
    }

    fn poll_listens(&self, cpu: usize, waker: &Waker) -> Poll<io::Result<SocketAddr>> {
        let mut told = lock(&self.0);
        match told.listening.get(cpu).copied().flatten() {
            Some(at) => Poll::Ready(at.map_err(error::of)),
            None if told.is_over => Poll::Ready(Err(error::gone())),
            None => {
                told.wakers.add(waker);
                Poll::Pending
            }
        }
    }
}

impl Listener {
    /// Listens at an address, on all CPUs. A dropped future has begun nothing.
    pub(super) async fn bind(
        endpoint: &Arc<Endpoint>,
        place: Place,
        settings: &[Setting],
    ) -> io::Result<Self> {
        let number = endpoint.take_number()?;
        let listening = vec![None; endpoint.cpus()];
        let queue = Arc::new(Queue(Mutex::new(Inner { listening, ..Inner::default() })));
        let (endpoint, settings) = (Arc::clone(endpoint), settings.to_vec());
        let mut listener = Self { endpoint, number, queue, addr: place.addr, settings };
        let endpoint = &listener.endpoint.clone();
        for cpu in 0..endpoint.cpus() {
            // The port that the first has found is everybody's.
            let commands = listener.commands(Place { addr: listener.addr, ..place });
            endpoint.link(cpu).listen(endpoint, number, &listener.queue, &commands)?;
            let queue = &listener.queue;
            let at = poll_fn(|context| queue.poll_listens(cpu, context.waker())).await?;
            listener.addr.set_port(at.port());
        }
        for cpu in 0..endpoint.cpus() {
            endpoint.link(cpu).offer(number, place.ahead.max(1) as usize);
        }
        Ok(listener)
    }

    fn commands(&self, place: Place) -> Vec<Command> {
        let Place { addr, only_v6, is_shared, backlog, .. } = place;
        let set = |setting: &Setting| Command::Set(Target::Listener(self.number), *setting);
        let (listener, zone) = (self.number, zone(addr));
        let listen = Command::Listen(Listen { listener, addr, zone, only_v6, is_shared, backlog });
        self.settings.iter().map(set).chain([listen]).collect()
    }

    /// The connection that has waited longest.
    pub(super) fn poll_accept(&self, waker: &Waker) -> Poll<io::Result<Stream>> {
        let mut told = lock(&self.queue.0);
        if let Some(stream) = told.accepted.pop_front() {
            drop(told);
            stream.remember(&self.settings);
            self.endpoint.link(stream.cpu()).offer(self.number, 1);
            return Poll::Ready(Ok(stream));
        }
        if told.is_over {
            return Poll::Ready(Err(error::gone()));
        }
        told.wakers.add(waker);
        Poll::Pending
    }

    /// Takes connections, or has another backlog, on all CPUs when this ends.
    #[cfg(feature = "cli")]
    pub(super) async fn open(&self, backlog: u32) -> io::Result<()> {
        let listener = self.number;
        lock(&self.queue.0).listening.fill(None);
        self.say(&Command::Open { listener, backlog });
        for cpu in 0..self.endpoint.cpus() {
            poll_fn(|context| self.queue.poll_listens(cpu, context.waker())).await?;
        }
        Ok(())
    }

    /// Changes how connections behave that are accepted from now on.
    #[cfg(feature = "cli")]
    pub(super) fn set(&self, settings: &[Setting]) -> io::Result<()> {
        check(settings, self.addr)?;
        settings.iter().for_each(|setting| self.say(&Command::Set(Target::Listener(self.number), *setting)));
        Ok(())
    }

    #[cfg(feature = "cli")]
    fn say(&self, command: &Command) {
        (0..self.endpoint.cpus()).for_each(|cpu| self.endpoint.link(cpu).say(command));
    }

    /// Where it waits.
    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for cpu in 0..self.endpoint.cpus() {
            self.endpoint.link(cpu).unlisten(self.number);
        }
        self.endpoint.give_number(self.number);
        // No more connections come; those not accepted are reset, when no lock is held.
        let left = core::mem::take(&mut lock(&self.queue.0).accepted);
        left.iter().for_each(|stream| stream.set_aborts(true));
    }
}
