//! Properties of server, client and relay, whatever messages come. The fuzz target checks them, and so do the ordinary tests.

use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::path::PathBuf;

use wire::ether::Mac;

use super::client::{self, Client};
use super::leases::Leases;
use super::message::{Kind, Message, option};
use super::relay::{self, Relay};
use super::server::{self, Host, Server};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);
/// The server's address, and its pool of five.
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const POOL: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(192, 0, 2, 10), Ipv4Addr::new(192, 0, 2, 14));
/// Payload of a datagram on Ethernet.
const LEN_MAX: usize = 1472;

/// Messages, one after the other: a byte that says which end gets it and how much time has passed, two bytes of length, the message.
pub fn dhcp(mut data: &[u8]) {
    let mut link = Link::new();
    while let Some(([choice, high, low], rest)) = data.split_first_chunk::<3>() {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes([*high, *low]))));
        // Up to nine hours: leases end, too.
        link.now += 1 << (choice >> 4);
        match choice & 0b11 {
            0 => link.server_takes(bytes),
            1 => link.client_takes(bytes, choice & 0b100 != 0),
            2 => link.relay_takes(bytes),
            _ => link.time_passes(),
        }
        data = rest;
    }
}

/// A server, a client and a relay.
struct Link {
    server: Server,
    client: Client,
    relay: Relay,
    /// Transaction of the client's last message.
    xid: u32,
    /// Seconds.
    now: u64,
    path: PathBuf,
}

impl Link {
    #[expect(clippy::expect_used, reason = "without its directory nothing is tested")]
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pt-dhcp-{}-{number}", std::process::id()));
        let leases = Leases::open(&path).expect("a writable directory for temporary files");
        let settings = server::Settings {
            own: ipnet::Ipv4Net::new(OWN, 24).expect("a prefix"),
            pool: POOL.0..=POOL.1,
            hosts: vec![Host { mac: MAC, addr: POOL.1 }],
            lease_s: 800,
            options: vec![(option::ROUTER, OWN.octets().to_vec())],
        };
        let relay = relay::Settings { own: OWN, servers: Vec::new(), circuit: Some("lan".to_owned()) };
        Self {
            server: Server::new(settings, leases),
            client: Client::new(MAC, Some("host".to_owned()), None, 1, 0),
            relay: Relay::new(relay),
            xid: 0,
            now: 0,
            path,
        }
    }

    /// Addresses go to those that ask, each once and only from the pool; what is said of them can be read.
    fn server_takes(&mut self, bytes: &[u8]) {
        let Ok((message, kind)) = Message::parse(bytes) else { return };
        let mut act = self.server.handle(&message, kind, self.now).unwrap_or_default();
        if let Some(server::Act::Probe(addr)) = act {
            assert!(is_given(addr), "{addr} is probed");
            act = self.server.probed(addr, message.secs % 4 == 3, self.now);
        }
        if let Some(server::Act::Send { message, .. }) = act {
            let (read, kind) = again(&message);
            assert!(read.is_reply && matches!(kind, Kind::Offer | Kind::Ack | Kind::Nak), "{kind:?}");
            assert!(read.yiaddr.is_unspecified() || is_given(read.yiaddr), "{} is given", read.yiaddr);
            // The client sees what the server says, if it is for it.
            self.client_takes(&message.to_bytes(), true);
        }
        assert!(self.server.leases.all().keys().all(|addr| is_given(*addr)));
    }

    /// Its times follow each other, and its address is one of a host.
    fn client_takes(&mut self, bytes: &[u8], is_for_it: bool) {
        let Ok((mut message, kind)) = Message::parse(bytes) else { return };
        if is_for_it {
            (message.xid, message.chaddr, message.is_reply) = (self.xid, MAC, true);
        }
        let acts = self.client.arrived(&message, kind, self.now * 1000);
        self.done_by_client(acts);
    }

    fn time_passes(&mut self) {
        let acts = self.client.due(self.now * 1000);
        self.done_by_client(acts);
    }

    fn done_by_client(&mut self, acts: Vec<client::Act>) {
        for act in acts {
            match act {
                client::Act::Send { message, .. } => {
                    self.xid = message.xid;
                    assert!(!again(&message).0.is_reply);
                }
                client::Act::Use(lease) => {
                    assert!(lease.renew <= lease.rebind && lease.rebind <= lease.expires, "{lease:?}");
                    let addr = lease.addr.addr();
                    assert!(!addr.is_unspecified() && !addr.is_multicast() && !addr.is_broadcast(), "{addr}");
                    let _ = lease.routes();
                }
                client::Act::Leave => assert_eq!(self.client.lease(), None),
            }
        }
    }

    /// A request is passed on with one hop more and the link's name; a reply without it.
    fn relay_takes(&mut self, bytes: &[u8]) {
        let before = Message::parse(bytes).map(|(message, _)| message);
        if let Some(sent) = self.relay.request(bytes.to_vec(), LEN_MAX) {
            assert!(sent.len() <= LEN_MAX.max(bytes.len()), "{} bytes of {}", sent.len(), bytes.len());
            let Ok((after, _)) = Message::parse(&sent) else { unreachable!("a relay leaves it a message") };
            assert_eq!(before.map(|before| before.hops + 1), Ok(after.hops));
            assert!(!after.giaddr.is_unspecified());
        } else if let Some(reply) = self.relay.reply(bytes.to_vec()) {
            assert_eq!(reply.bytes.len(), bytes.len());
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It may be gone already, with its directory.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_given(addr: Ipv4Addr) -> bool {
    (POOL.0..=POOL.1).contains(&addr)
}

/// Reads what was written.
fn again(message: &Message) -> (Message, Kind) {
    let Ok(read) = Message::parse(&message.to_bytes()) else { unreachable!("{message:?} cannot be read") };
    read
}

#[cfg(test)]
mod tests;
