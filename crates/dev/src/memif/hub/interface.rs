//! One interface, as the thread sees it: its peer, and the time of its next attempt.

use core::time::Duration;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::super::channel::Channel;
use super::super::fault::Fault;
use super::super::mailbox::{Mailbox, Wire};
use super::super::msg::{Init, Msg};
use super::super::session::{Master, Peer, Reply, Slave};
use super::super::{Options, Role, State, Status};
use super::Tell;
use super::control::PATIENCE;

/// Intervals of a slave's attempts after a refusal, first and last.
const AGAIN: core::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(1);

/// An interface.
pub(super) struct Interface {
    pub(super) options: Options,
    mailboxes: Vec<Arc<Mailbox>>,
    status: Arc<Mutex<Status>>,
    talk: Talk,
    /// Interval before a slave tries again.
    pause: Duration,
    /// The refusal that was told last, since it was connected.
    told: Option<Fault>,
}

/// The state of the session.
enum Talk {
    /// No peer; a slave tries again then.
    None(Option<Instant>),
    /// With a peer, which must be ready by then.
    Greeting(Channel, Side, Instant),
    /// Frames flow; nothing more is to be said.
    Up(Channel),
}

/// The session, by role.
enum Side {
    Master(Master),
    Slave(Slave),
}

impl Interface {
    pub(super) fn new(options: Options, mailboxes: Vec<Arc<Mailbox>>, status: Arc<Mutex<Status>>) -> Self {
        let at_once = (options.role == Role::Slave).then(Instant::now);
        Self { options, mailboxes, status, talk: Talk::None(at_once), pause: *AGAIN.start(), told: None }
    }

    /// Whether slaves find it at this socket.
    pub(super) fn listens_at(&self, path: &Path) -> bool {
        self.options.role == Role::Master && self.options.socket == path
    }

    /// Whether it is what a slave asks for.
    pub(super) fn serves(&self, path: &Path, id: u32) -> bool {
        self.listens_at(path) && self.options.id == id
    }

    pub(super) const fn channel(&self) -> Option<&Channel> {
        match &self.talk {
            Talk::None(_) => None,
            Talk::Greeting(channel, ..) | Talk::Up(channel) => Some(channel),
        }
    }

    /// When it must be looked at without a message from the peer.
    pub(super) const fn until(&self) -> Option<Instant> {
        match &self.talk {
            Talk::None(at) => *at,
            Talk::Greeting(_, _, until) => Some(*until),
            Talk::Up(_) => None,
        }
    }

    /// Whether a peer could hold up a CPU that rings it, so that it is to be looked at now and then.
    pub(super) fn is_to_be_watched(&self) -> bool {
        self.mailboxes.iter().any(|mailbox| mailbox.rings_a_peer())
    }

    /// Does what there is to do.
    pub(super) fn work(&mut self, now: Instant, tell: &Tell) {
        let complaint = self.mailboxes.iter().fold(None, |earlier, mailbox| mailbox.sweep().or(earlier));
        let choked = || self.mailboxes.iter().any(|mailbox| mailbox.is_choked()).then_some(Fault::FullBell);
        let complaint = complaint.or_else(choked);
        let done = match (complaint, &self.talk) {
            (Some(fault), Talk::Up(_)) => Err(fault),
            (_, Talk::None(Some(at))) if now >= *at => self.knock(now),
            (_, Talk::None(_)) => Ok(()),
            (_, Talk::Greeting(..) | Talk::Up(_)) => self.listen(now),
        };
        if let Err(fault) = done {
            self.tell(&fault, tell);
            self.end(fault, now);
        }
    }

    /// Tells of a connect that failed, once for each reason.
    fn tell(&mut self, fault: &Fault, tell: &Tell) {
        if matches!(fault, Fault::Connect { .. }) {
            if self.told.as_ref() != Some(fault) {
                tell(&self.options, fault);
                self.told = Some(fault.clone());
            }
            self.status().failed_connects += 1;
        }
    }

    /// A slave has come that asked for this interface.
    pub(super) fn receive(&mut self, channel: Channel, init: &Init, now: Instant) {
        if self.channel().is_some() {
            let busy = Fault::Busy(self.options.id);
            channel.farewell(&busy);
            return self.note(busy);
        }
        let welcome = Master::welcome(&self.options, init);
        match welcome.and_then(|(master, answer)| channel.send(&answer, None).map(|()| master)) {
            Ok(master) => {
                self.greet(&master.peer);
                self.talk = Talk::Greeting(channel, Side::Master(master), now + PATIENCE);
            }
            Err(fault) => {
                channel.farewell(&fault);
                self.note(fault);
            }
        }
    }

    /// Notes why a peer was refused.
    pub(super) fn note(&self, fault: Fault) {
        let mut status = self.status();
        status.ends += 1;
        status.last_fault = Some(fault);
    }

    /// Says farewell.
    pub(super) fn close(&mut self) {
        if let Some(channel) = self.channel() {
            channel.farewell(&Fault::Closed);
        }
        self.hang_up(None);
    }

    /// Connects as slave, if a master listens. The slave says nothing before the master speaks.
    fn knock(&mut self, now: Instant) -> Result<(), Fault> {
        let channel = Channel::connect(&self.options.socket)?;
        self.talk = Talk::Greeting(channel, Side::Slave(Slave::new()), now + PATIENCE);
        Ok(())
    }

    /// Hears what the peer has to say, and answers.
    fn listen(&mut self, now: Instant) -> Result<(), Fault> {
        let Some((msg, fd)) = self.channel().map_or(Ok(None), Channel::receive)? else {
            let late = self.until().is_some_and(|until| now >= until);
            return if late { Err(Fault::TimedOut) } else { Ok(()) };
        };
        let reply = match &mut self.talk {
            Talk::Greeting(_, Side::Master(master), _) => master.hear(&self.options, msg, fd)?,
            Talk::Greeting(_, Side::Slave(slave), _) => slave.hear(&self.options, msg)?,
            Talk::Up(_) => return Err(after_all_was_said(&msg)),
            Talk::None(_) => return Ok(()),
        };
        self.answer(reply)
    }

    fn answer(&mut self, reply: Reply) -> Result<(), Fault> {
        let Some(channel) = self.channel() else { return Ok(()) };
        match reply {
            Reply::Send(msg, fd) => {
                channel.send(&msg, fd.as_ref().map(std::os::fd::AsFd::as_fd))?;
                if let Some(peer) = self.peer() {
                    self.greet(&peer);
                }
            }
            Reply::Up(msg, wires) => {
                msg.map_or(Ok(()), |msg| channel.send(&msg, None))?;
                self.up(wires);
            }
        }
        Ok(())
    }

    /// Frames may flow.
    fn up(&mut self, wires: Vec<Wire>) {
        let peer = self.peer();
        self.talk = match core::mem::replace(&mut self.talk, Talk::None(None)) {
            Talk::Greeting(channel, ..) => Talk::Up(channel),
            other => other,
        };
        (self.pause, self.told) = (*AGAIN.start(), None);
        {
            let mut status = self.status();
            status.state = State::Connected;
            status.connects += 1;
            status.rings = wires.len();
            status.peer_interface = peer.map_or_else(String::new, |peer| peer.interface.to_string());
        }
        for (mailbox, wire) in self.mailboxes.iter().zip(wires) {
            mailbox.put(Some(Box::new(wire)));
        }
    }

    /// It is over; a slave tries again.
    fn end(&mut self, fault: Fault, now: Instant) {
        let spoke = self.channel().inspect(|channel| channel.farewell(&fault)).is_some();
        let again = now + self.pause;
        self.pause = (self.pause * 2).min(*AGAIN.end());
        // Before the state: whatever reads `Waiting` also reads why.
        if spoke {
            self.note(fault);
        } else {
            self.status().last_fault = Some(fault);
        }
        self.hang_up((self.options.role == Role::Slave).then_some(again));
    }

    /// Takes the rings down. The status changes first: an owner that finds its ring down never reads `Connected`.
    fn hang_up(&mut self, again: Option<Instant>) {
        self.status().state = State::Waiting;
        if let Talk::Up(_) = self.talk {
            self.mailboxes.iter().for_each(|mailbox| mailbox.put(None));
        }
        self.talk = Talk::None(again);
    }

    /// Notes the peer.
    fn greet(&self, peer: &Peer) {
        let mut status = self.status();
        status.state = State::Greeting;
        status.peer = peer.program.to_string();
    }

    const fn peer(&self) -> Option<Peer> {
        match &self.talk {
            Talk::Greeting(_, Side::Master(master), _) => Some(master.peer),
            Talk::Greeting(_, Side::Slave(slave), _) => slave.peer,
            _ => None,
        }
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handles messages while frames flow: only a disconnect is allowed.
fn after_all_was_said(msg: &Msg) -> Fault {
    match msg {
        Msg::Disconnect { why, .. } => Fault::Disconnected(why.to_string()),
        other => Fault::Order { got: other.word(), due: "DISCONNECT" },
    }
}
