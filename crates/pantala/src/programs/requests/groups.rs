//! Groups of programs' sockets of datagrams, and sockets that keep them though another one of the stack comes in their place.

use core::net::{IpAddr, SocketAddr};

use net::channel::{Join, Link, Sender};
use rustix::io::Errno;
use wire::program::{Group, Options as SetOptions, emit_senders};

use super::{Answer, Client, PORT_TRIES, Reply, any, errno};
use crate::programs::datagrams::{self, Before, Ends};

impl Client {
    pub(super) async fn group(
        &self,
        id: u64,
        group: Option<IpAddr>,
        (addr, interface): (IpAddr, u32),
        (joins, sender): (bool, Option<(IpAddr, bool)>),
    ) -> Answer {
        let own = self.registry.datagrams(self.process.uid, id).ok_or(Errno::NOPROTOOPT)?;
        let ifindex = u16::try_from(interface).map_err(|_| Errno::NODEV)?;
        let on = Link { addr, ifindex };
        let of = match sender {
            None => Sender::Any,
            Some((sender, is_blocked)) if is_blocked => Sender::AllBut(sender),
            Some((sender, _)) => Sender::Only(sender),
        };
        let Some(group) = group else {
            own.udp().send_groups_by(on).await.map_err(errno)?;
            own.groups().borrow_mut().send_by(on);
            return Ok(Reply::new());
        };
        let join = Join { group, on, joins, of };
        own.udp().join(join).await.map_err(errno)?;
        own.groups().borrow_mut().note(&join);
        Ok(Reply::new())
    }

    /// Sets the source filter of a group.
    pub(super) async fn set_filter(
        &self,
        id: u64,
        group: Group,
        excludes: bool,
        senders: Vec<IpAddr>,
    ) -> Answer {
        let own = self.registry.datagrams(self.process.uid, id).ok_or(Errno::NOPROTOOPT)?;
        let on = link(group)?;
        own.udp().set_filter((group.ip, on), excludes, &senders).await.map_err(errno)?;
        own.groups().borrow_mut().set(group.ip, on, excludes, senders);
        Ok(Reply::new())
    }

    pub(super) fn filter(&self, id: u64, group: Group) -> Answer {
        let own = self.registry.datagrams(self.process.uid, id).ok_or(Errno::NOPROTOOPT)?;
        let groups = own.groups().borrow();
        let (excludes, senders) = groups.filter(group.ip, link(group)?).ok_or(Errno::ADDRNOTAVAIL)?;
        let value = i32::try_from(senders.len()).unwrap_or(0) << 1 | i32::from(excludes);
        Ok(Reply { value, more: emit_senders(senders).to_vec(), ..Reply::new() })
    }

    /// Removes the peer of a socket of datagrams. It keeps the port that it was bound to, and its groups; what
    /// came from the peer is lost.
    pub(super) async fn disconnect(&self, id: u64) -> Answer {
        let options = self.registry.options(id);
        let (own, bound) = self.take(id).await?;
        let groups = own.groups().take();
        let (udp, _) = own.end(&self.registry).await;
        let remote = udp.peer_addr().or_else(|_| udp.local_addr()).map_err(errno)?;
        drop(udp);
        let addr = bound.unwrap_or_else(|| any(remote, 0));
        let mut tries = PORT_TRIES;
        let (held, udp) = loop {
            tries -= 1;
            match self.datagrams(addr, &options).await {
                Err(Errno::ADDRINUSE) if tries > 0 => {}
                done => break done?,
            }
        };
        let ends = Ends { bound, remote: None };
        // It is another socket of the stack.
        groups.join_again(&udp).await.map_err(errno)?;
        let before = Before { groups, ..self.before(options) };
        let (local, program) = datagrams::begin(&self.registry, held, udp, ends, before).map_err(errno)?;
        Ok(Reply::socket(local, program))
    }

    /// Makes a socket of datagrams that is not bound yet, so that it has a port of which its program knows nothing; or binds one of these to
    /// `addr`, with its groups.
    pub(super) async fn rebind(&self, id: u64, addr: SocketAddr, options: SetOptions) -> Answer {
        let (bound, options) = match id {
            0 => (None, options),
            _ => (Some(addr), self.registry.options(id)),
        };
        if id != 0 {
            let own = self.registry.datagrams(self.process.uid, id).ok_or(Errno::BADF)?;
            if own.ends().bound.is_some() || own.ends().remote.is_some() {
                return Err(Errno::INVAL);
            }
        }
        let (held, udp) = self.datagrams(addr, &options).await?;
        let mut before = self.before(options);
        if id != 0 {
            let (own, _) = self.take(id).await?;
            before.groups = own.groups().take();
            own.end(&self.registry).await;
            before.groups.join_again(&udp).await.map_err(errno)?;
        }
        let ends = Ends { bound, remote: None };
        let (local, program) = datagrams::begin(&self.registry, held, udp, ends, before).map_err(errno)?;
        Ok(Reply::socket(local, program))
    }
}

/// Returns the link that a program names with a group.
fn link(group: Group) -> Result<Link, Errno> {
    let ifindex = u16::try_from(group.interface).map_err(|_| Errno::NODEV)?;
    Ok(Link { addr: group.addr, ifindex })
}
