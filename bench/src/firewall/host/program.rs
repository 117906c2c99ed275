//! The two programs: one asks, one answers, and both only as often as a connection needs it.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use anyhow::{Result, anyhow};
use net::netisr::Netisr;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, Id, Listen, ListenerId};
use net::time::Instant;

const QUESTION: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
/// A kilobyte.
const ANSWER: [u8; 1024] = [b'a'; 1024];

/// Who asks.
pub(super) struct Client {
    pub(super) netisr: Netisr,
    addrs: Vec<IpAddr>,
    server: SocketAddr,
    settings: Settings,
    /// Connections that have not been asked anything, and those that have not answered.
    opening: VecDeque<Id>,
    asked: VecDeque<Id>,
    begun: usize,
}

/// Who answers.
pub struct Server {
    pub(super) netisr: Netisr,
    listener: ListenerId,
    /// Connections that have not asked anything yet.
    accepted: VecDeque<Id>,
    served: usize,
}

impl Client {
    pub(super) fn new(netisr: Netisr, addrs: &[IpAddr], server: SocketAddr, settings: Settings) -> Self {
        let (opening, asked) = (VecDeque::new(), VecDeque::new());
        Self { netisr, addrs: addrs.to_vec(), server, settings, opening, asked, begun: 0 }
    }

    /// Connections that it has begun.
    pub(super) const fn begun(&self) -> usize {
        self.begun
    }

    /// Begins so many connections, and goes on with others.
    pub(super) fn turn(&mut self, now: Instant, new: usize) {
        (0..new).for_each(|_| self.begin());
        self.netisr.turn(now);
        let cpu = &mut self.netisr.cpu;
        for _ in 0..self.opening.len() {
            let Some(id) = self.opening.pop_front() else { break };
            let is_asked = tcp::ready(cpu, id).writable && tcp::send(cpu, id, QUESTION).is_ok();
            if is_asked { &mut self.asked } else { &mut self.opening }.push_back(id);
        }
        for _ in 0..self.asked.len() {
            let Some(id) = self.asked.pop_front() else { break };
            if is_over(cpu, id) {
                // One that fails is missed at the server.
                let _ = tcp::close(cpu, id);
            } else {
                self.asked.push_back(id);
            }
        }
    }

    #[cfg(test)]
    pub(super) const fn ask(&mut self, port: u16) {
        self.server.set_port(port);
    }

    fn begin(&mut self) {
        let Some(local) = self.addrs.get(self.begun % self.addrs.len().max(1)).copied() else { return };
        let &mut Self { server: remote, settings, .. } = self;
        let look = tcp::Look::default();
        let connect = Connect { remote, local: Some(local), port: None, zone: 0, settings, look };
        if let Ok(id) = tcp::connect(&mut self.netisr.cpu, &connect) {
            self.opening.push_back(id);
        }
        self.begun += 1;
    }
}

/// Reads what is there; whether that was the end.
fn is_over(cpu: &mut net::cpu::Cpu, id: Id) -> bool {
    let mut into = [0; 2048];
    while tcp::ready(cpu, id).readable {
        match tcp::read(cpu, id, &mut into) {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
    }
    false
}

impl Server {
    /// # Errors
    ///
    /// None is expected.
    pub(super) fn new(mut netisr: Netisr, addr: SocketAddr, settings: Settings) -> Result<Self> {
        let listen = Listen {
            addr,
            zone: 0,
            only_v6: false,
            backlog: 1024,
            is_shared: false,
            settings,
            look: tcp::Look::default(),
        };
        let listener = tcp::listen(&mut netisr.cpu, &listen).map_err(|error| anyhow!("{error:?}"))?;
        Ok(Self { netisr, listener, accepted: VecDeque::new(), served: 0 })
    }

    /// Connections that it has answered.
    pub(super) const fn served(&self) -> usize {
        self.served
    }

    /// Answers what has been asked.
    pub fn turn(&mut self, now: Instant) {
        self.netisr.turn(now);
        let cpu = &mut self.netisr.cpu;
        while let Ok(accepted) = tcp::accept(cpu, self.listener) {
            self.accepted.push_back(accepted.id);
        }
        for _ in 0..self.accepted.len() {
            let Some(id) = self.accepted.pop_front() else { break };
            let mut into = [0; QUESTION.len()];
            if tcp::read(cpu, id, &mut into).is_err() {
                self.accepted.push_back(id);
                continue;
            }
            let is_answered = tcp::send(cpu, id, &ANSWER) == Ok(ANSWER.len());
            self.served += usize::from(is_answered && tcp::close(cpu, id).is_ok());
        }
    }
}
