//! One socket of a channel: datagrams between its lane and its queue.

use core::net::{IpAddr, SocketAddr};

use pkt::byte_channel::{Broken, Reader, Writer};

use super::datagram::{self, HEAD_LOCAL, Head, SendParams, room};
use super::record::{Bind, Event, Join, Link, QUOTE_PART, Quote, Sender, Setting};
use super::setting::prepare_socket;
use crate::base::count::Count;
use crate::host::dgram::{To, group_if};
use crate::host::pcb::is_of_a_link;
use crate::host::sock::Error;
use crate::host::udp::{self, Failure, Failures, Id, Received, Settings};
use crate::ip::group::{Filter, Membership, SOURCES_MAX};
use crate::link::tables::{IfIndex, Ifnet};
use crate::turn::cpu::Cpu;

/// Datagrams of a socket that are moved in a turn, in each direction.
pub(super) const DATAGRAMS_AT_ONCE: usize = 64;

/// Bytes that wait to be read besides those in the lane, unless a program says otherwise: what a program of Linux is used
/// to. The longest datagram has room.
const QUEUE_BYTES: usize = 212_992;

/// The socket of a lane.
pub(super) struct Socket {
    place: Bind,
    settings: Settings,
    /// Gone while what it speaks is another CPU's.
    pub(super) id: Option<Id>,
    /// Peer, if connected.
    remote: Option<SocketAddr>,
    /// Errors to be reported; the oldest are dropped first.
    failed: Failures,
    /// Bytes of the first one's datagram that the program was told.
    told: usize,
    /// Senders of the source filter that is set next: one more than there may be at the most.
    named: Vec<IpAddr>,
}

/// The work done for a socket in a turn.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    /// The program has something to read that it waits for.
    pub(super) readable: bool,
    /// It has room that it waits for.
    pub(super) writable: bool,
    /// There is more to be done.
    pub(super) more: bool,
}

impl Socket {
    /// Waits for datagrams at a place.
    pub(super) fn bind(cpu: &mut Cpu, place: Bind) -> Result<Self, Error> {
        let Bind { bind_any, device, .. } = place;
        let settings = Settings { queue_bytes: QUEUE_BYTES, bind_any, device, ..Settings::default() };
        let (failed, named) = (Failures::default(), Vec::new());
        let mut socket = Self { place, settings, id: None, remote: None, failed, told: 0, named };
        let id = udp::bind(cpu, &socket.wanted())?;
        // The port that was found, if none was said.
        socket.place.addr = udp::local(cpu, id).unwrap_or(place.addr);
        socket.id = Some(id);
        Ok(socket)
    }

    fn wanted(&self) -> udp::Bind {
        let Bind { addr, zone, only_v6, is_shared, .. } = self.place;
        udp::Bind { addr, zone, only_v6, is_shared, settings: self.settings }
    }

    /// Where it waits.
    pub(super) const fn place(&self) -> SocketAddr {
        self.place.addr
    }

    /// Speaks with one other end from now on. What it was before is the caller's to end.
    ///
    /// # Errors
    ///
    /// Those of [`udp::connect`]; then nothing has changed.
    pub(super) fn speak(
        &mut self,
        cpu: &mut Cpu,
        remote: SocketAddr,
        zone: u16,
    ) -> Result<Option<Id>, Error> {
        if self.id.is_some() && self.remote == Some(remote) {
            return Ok(None);
        }
        let local = Some(self.place.addr.ip()).filter(|local| !local.is_unspecified());
        let (port, settings) = (Some(self.place.addr.port()), self.settings);
        let id = udp::connect(cpu, &udp::Connect { remote, local, port, zone, settings })?;
        self.remote = Some(remote);
        Ok(self.id.replace(id))
    }

    /// Keeps a sender for the source filter that is set next.
    pub(super) fn name(&mut self, sender: IpAddr) {
        if self.named.len() <= SOURCES_MAX {
            self.named.push(sender);
        }
    }

    /// Listens to a group, or to one of its senders, or no longer.
    ///
    /// # Errors
    ///
    /// [`Error::AddrInUse`] of a group that it listens to already, those of [`filter_with`], and those of [`udp::listen`].
    pub(super) fn join(&mut self, cpu: &mut Cpu, wanted: &Join) -> Result<(), Error> {
        let &Join { group, on, joins, of } = wanted;
        let all = core::mem::take(&mut self.named);
        let id = self.id.ok_or(Error::NotFound)?;
        let named = link(cpu, on)?;
        let found = named.or_else(|| group_if(cpu, &self.settings, group));
        let is_it =
            |membership: &Membership| Some(membership.key.ifindex) == found && membership.key.group == group;
        let before = udp::memberships(cpu, id).iter().find(|membership| is_it(membership));
        let filter = match of {
            // One of a group that it is no member of is no change.
            Sender::Named | Sender::AllButNamed if before.is_none() => return Err(Error::BadAddress),
            Sender::Named => Filter::only(all),
            Sender::AllButNamed => Filter::except(all),
            _ => filter_with(before.map(|membership| &membership.filter), of, joins)?,
        };
        udp::listen(cpu, id, &udp::Listen { group, ifindex: named.unwrap_or(0), filter })
    }

    /// Sends to groups by an interface from now on.
    ///
    /// # Errors
    ///
    /// [`Error::AddrNotAvailable`] if there is no such interface.
    pub(super) fn send_groups_by(&mut self, cpu: &mut Cpu, by: Link) -> Result<(), Error> {
        self.settings.group_if = link(cpu, by)?.unwrap_or(0);
        self.settle(cpu);
        Ok(())
    }

    /// Changes how it behaves.
    pub(super) fn set(&mut self, cpu: &mut Cpu, setting: Setting) {
        prepare_socket(&mut self.settings, setting);
        self.settle(cpu);
    }

    fn settle(&self, cpu: &mut Cpu) {
        if let Some(id) = self.id {
            // It is there.
            let _ = udp::change(cpu, id, |settings| *settings = self.settings);
        }
    }

    /// Returns the event of the first error to be reported: a part of its datagram, or the error behind all parts.
    pub(super) fn failed(&self, lane: u32) -> Option<Event> {
        let mut bytes = [0; QUOTE_PART];
        match self.failed.copy_quote(self.told, &mut bytes) {
            0 => self.failed.first().map(|failure| Event::Failed(lane, failure)),
            len => Some(Event::Quote(lane, Quote { len: u8::try_from(len).unwrap_or(0), bytes })),
        }
    }

    /// It has been told; true if there is more.
    pub(super) fn told(&mut self) -> bool {
        match self.failed.copy_quote(self.told, &mut [0; QUOTE_PART]) {
            0 => {
                self.failed.pop(&mut Vec::new());
                self.told = 0;
            }
            len => self.told += len,
        }
        self.has_failed()
    }

    /// Whether there are errors to be reported.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.len() > 0
    }

    fn fail(&mut self, failure: Failure, quote: &[u8]) {
        // One that the program knows a part of stays.
        self.failed.push(failure, quote, usize::from(self.told > 0));
    }

    /// Learns what became of what was sent.
    fn learn(&mut self, cpu: &mut Cpu, id: Id) {
        let mut quote = Vec::new();
        while let Some(failure) = udp::failure_with_quote(cpu, id, &mut quote) {
            self.fail(failure, &quote);
            quote.clear();
        }
    }

    /// Moves what has come to the program, as many datagrams as there is room for.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn receive(&mut self, cpu: &mut Cpu, to: &mut Writer) -> Result<Moved, Broken> {
        let Some(id) = self.id else { return Ok(Moved::default()) };
        self.learn(cpu, id);
        let longest = to.capacity() - room(0);
        let mut more = true;
        for _ in 0..DATAGRAMS_AT_ONCE {
            let put = |received: &Received, pieces: [&[u8]; 2]| match received.len <= longest {
                true => put(to, received, pieces),
                false => (true, Ok(Put::TooLong)),
            };
            match udp::read_in_place(cpu, id, put) {
                Ok(Ok(Put::Whole)) => {}
                Ok(Ok(Put::TooLong)) => cpu.count(Count::ChannelDatagramsTooLong),
                Ok(Ok(Put::NoRoom(needs))) if !to.waits_for(needs)? => {}
                Ok(Err(broken)) => return Err(broken),
                Ok(Ok(Put::NoRoom(_))) | Err(_) => {
                    more = false;
                    break;
                }
            }
        }
        Ok(Moved { readable: to.publish(), more, ..Moved::default() })
    }

    /// Sends what the program has written, as many datagrams as may be at once. `whole` is memory for one that is in two
    /// pieces.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) fn send(
        &mut self,
        cpu: &mut Cpu,
        from: &mut Reader,
        whole: &mut Vec<u8>,
    ) -> Result<Moved, Broken> {
        let mut more = true;
        for _ in 0..DATAGRAMS_AT_ONCE {
            let sent = datagram::take(from, |head, pieces| (true, self.send_one(cpu, head, pieces, whole)))?;
            if sent.is_none() && from.waits()? {
                more = false;
                break;
            }
        }
        let writable = from.release()?;
        if writable {
            cpu.count(Count::ChannelDatagramsWaited);
        }
        Ok(Moved { writable, more, ..Moved::default() })
    }

    /// Sends a datagram; one that cannot be sent is a failure that the program is told of.
    fn send_one(&mut self, cpu: &mut Cpu, head: &Head, pieces: [&[u8]; 2], whole: &mut Vec<u8>) {
        // What it says on a CPU that it has left is lost.
        let Some(id) = self.id else { return };
        let settings = head.how.of(self.settings);
        if settings != self.settings {
            self.settings = settings;
            self.settle(cpu);
        }
        // Else it would be said instead of sending this.
        self.learn(cpu, id);
        let bytes = match pieces {
            [all, []] => all,
            [one, two] => {
                whole.clear();
                whole.extend_from_slice(one);
                whole.extend_from_slice(two);
                whole
            }
        };
        let done = match head.peer {
            Some(remote) => udp::send_to(cpu, id, to(remote, head), bytes),
            None => udp::send(cpu, id, bytes),
        };
        if let (Err(error), Some(to)) = (done, head.peer.or(self.remote)) {
            self.fail(Failure { to, error, icmp: None }, &[]);
        }
    }
}

/// Where a datagram goes, and from which end of ours, as far as that is named.
fn to(remote: SocketAddr, head: &Head) -> To {
    let local = head.local.map(|own| own.addr).filter(|addr| !addr.is_unspecified());
    let ifindex = head.local.map_or(0, |own| own.ifindex);
    To { remote, local, zone: if head.zone == 0 { ifindex } else { head.zone } }
}

/// The source filter of a member with one sender more or less, or of one that joins or leaves the group.
///
/// # Errors
///
/// [`Error::AddrInUse`] of a group that it listens to already; [`Error::AddrNotAvailable`] of a sender that is named already, or not;
/// [`Error::BadAddress`] where the filter names the others: some senders, or all but some.
fn filter_with(before: Option<&Filter>, of: Sender, joins: bool) -> Result<Filter, Error> {
    let (sender, excludes) = match of {
        Sender::Any if joins && before.is_some() => return Err(Error::AddrInUse),
        Sender::Any => return Ok(if joins { Filter::ALL } else { Filter::NONE }),
        Sender::Only(sender) => (sender, false),
        Sender::AllBut(sender) => (sender, true),
        Sender::Named | Sender::AllButNamed => return Err(Error::BadAddress),
    };
    let mut sources = match before {
        Some(filter) if filter.excludes() == excludes => filter.sources().to_vec(),
        None if !excludes => Vec::new(),
        _ => return Err(Error::BadAddress),
    };
    if sources.contains(&sender) == joins {
        return Err(Error::AddrNotAvailable);
    }
    sources.retain(|known| *known != sender);
    sources.extend(joins.then_some(sender));
    Ok(if excludes { Filter::except(sources) } else { Filter::only(sources) })
}

/// The interface that is named; `None` if none is.
fn link(cpu: &Cpu, Link { addr, ifindex }: Link) -> Result<Option<IfIndex>, Error> {
    let is_it = |ifnet: &&Ifnet| match addr.is_unspecified() {
        true => ifnet.index == ifindex,
        false => ifnet.addrs.iter().any(|own| own.addr == addr),
    };
    if addr.is_unspecified() && ifindex == 0 {
        return Ok(None);
    }
    cpu.tables.ifnets().find(is_it).map(|ifnet| Some(ifnet.index)).ok_or(Error::AddrNotAvailable)
}

/// The result of delivering a datagram.
enum Put {
    Whole,
    /// It needs so much.
    NoRoom(usize),
    TooLong,
}

fn put(to: &mut Writer, received: &Received, pieces: [&[u8]; 2]) -> (bool, Result<Put, Broken>) {
    let zone = if is_of_a_link(received.from.ip()) { received.ifindex } else { 0 };
    let len = u16::try_from(received.len).unwrap_or(u16::MAX);
    let how = SendParams { tx_params: received.tx_params, ..SendParams::default() };
    let has_room = room(received.len) + HEAD_LOCAL <= to.capacity();
    let local = has_room.then_some(Link { addr: received.to, ifindex: received.ifindex });
    let head = Head { peer: Some(received.from), zone, local, len, how };
    match datagram::put(to, &head, pieces) {
        Ok(true) => (true, Ok(Put::Whole)),
        Ok(false) => (false, Ok(Put::NoRoom(head.room()))),
        Err(broken) => (false, Err(broken)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{addr4, addr6};

    #[test]
    fn a_source_filter_has_one_sender_more_or_less_and_never_both_kinds() {
        for [one, two] in [[1, 2].map(|n| addr4(1, n).into()), [1, 2].map(|n| IpAddr::from(addr6(1, n)))] {
            let only = filter_with(None, Sender::Only(one), true).unwrap();
            assert_eq!(only, Filter::only([one]));
            let both = filter_with(Some(&only), Sender::Only(two), true).unwrap();
            assert_eq!(both, Filter::only([one, two]));
            assert_eq!(filter_with(Some(&only), Sender::Only(one), true), Err(Error::AddrNotAvailable));
            assert_eq!(filter_with(Some(&only), Sender::Only(two), false), Err(Error::AddrNotAvailable));
            assert_eq!(filter_with(Some(&only), Sender::AllBut(two), true), Err(Error::BadAddress));
            assert!(filter_with(Some(&only), Sender::Only(one), false).unwrap().is_none(), "it leaves");
            let all = filter_with(None, Sender::Any, true).unwrap();
            assert_eq!(filter_with(Some(&all), Sender::Any, true), Err(Error::AddrInUse));
            let most = filter_with(Some(&all), Sender::AllBut(one), true).unwrap();
            assert_eq!(most, Filter::except([one]));
            assert_eq!(filter_with(Some(&most), Sender::AllBut(one), false), Ok(Filter::ALL));
            assert_eq!(filter_with(None, Sender::AllBut(one), true), Err(Error::BadAddress));
        }
    }
}
