use super::*;

const NOW: u64 = 1_000_000;

struct Lab {
    server: Server,
    path: std::path::PathBuf,
}

impl Lab {
    /// A server with five addresses, 10 to 14, of which 14 is a host's.
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pt-dhcpd-{name}-{}", std::process::id()));
        let leases = Leases::open(&path).unwrap();
        let settings = Settings {
            own: "192.0.2.1/24".parse().unwrap(),
            pool: addr(10)..=addr(14),
            hosts: vec![Host { mac: mac(99), addr: addr(14) }],
            lease_s: 800,
            options: vec![
                (option::ROUTER, addr(1).octets().to_vec()),
                (option::DOMAIN, b"x.example".to_vec()),
            ],
        };
        Self { server: Server::new(settings, leases), path }
    }

    fn handle(&mut self, kind: Kind, message: &Message) -> Option<Act> {
        self.server.handle(message, kind, NOW).unwrap()
    }

    /// Brings a client to its lease; answers the address.
    fn lease(&mut self, client: u8) -> Ipv4Addr {
        let probed = self.handle(Kind::Discover, &of(client));
        let offer = match probed {
            Some(Act::Probe(addr)) => self.server.probed(addr, false, NOW),
            other => other,
        };
        let addr = sent(offer).1.yiaddr;
        let (kind, ack) = sent(self.handle(Kind::Request, &selecting(client, addr)));
        assert_eq!((kind, ack.yiaddr), (Kind::Ack, addr));
        addr
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn addr(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

fn of(client: u8) -> Message {
    Message::request(u32::from(client), mac(client))
}

fn selecting(client: u8, want: Ipv4Addr) -> Message {
    let mut message = of(client);
    message.put(option::SERVER, &addr(1).octets());
    message.put(option::REQUESTED_ADDRESS, &want.octets());
    message
}

fn sent(act: Option<Act>) -> (Kind, Message) {
    let Some(Act::Send { message, .. }) = act else { panic!("{act:?}") };
    let (read, kind) = Message::parse(&message.to_bytes()).unwrap();
    (kind, read)
}

#[test]
fn each_client_gets_its_own_address_and_the_same_again() {
    let mut lab = Lab::new("own");
    let given: Vec<Ipv4Addr> = (1..=4).map(|client| lab.lease(client)).collect();
    assert_eq!(given, [addr(10), addr(11), addr(12), addr(13)]);
    assert_eq!(lab.lease(2), addr(11));
    assert_eq!(lab.lease(99), addr(14), "the host's own");
    assert_eq!(lab.handle(Kind::Discover, &of(5)), None);
    assert_eq!(lab.server.counts.exhausted, 1);
    // What has ended is given again.
    let later = lab.server.handle(&of(5), Kind::Discover, NOW + 801).unwrap();
    assert_eq!(later, Some(Act::Probe(addr(10))));
}

#[test]
fn an_address_that_is_used_is_not_offered_and_one_that_a_client_declines_is_set_aside() {
    let mut lab = Lab::new("used");
    assert_eq!(lab.handle(Kind::Discover, &of(1)), Some(Act::Probe(addr(10))));
    assert_eq!(lab.handle(Kind::Discover, &of(1)), None, "the probe is under way");
    assert_eq!(lab.server.probed(addr(10), true, NOW), Some(Act::Probe(addr(11))));
    assert_eq!(sent(lab.server.probed(addr(11), false, NOW)).1.yiaddr, addr(11));
    assert_eq!(lab.lease(1), addr(11));
    assert_eq!(lab.handle(Kind::Decline, &selecting(2, addr(11))), None, "it is another's");
    assert_eq!(lab.server.counts.conflicts, 1);
    lab.handle(Kind::Decline, &selecting(1, addr(11)));
    assert_eq!(lab.lease(1), addr(12));
    assert_eq!(lab.server.kept(NOW), (0, 2));
}

#[test]
fn what_a_client_may_not_have_is_refused_and_what_is_not_known_is_not_answered() {
    let mut lab = Lab::new("refused");
    let own = lab.lease(1);
    let kind = |act| sent(act).0;
    assert_eq!(kind(lab.handle(Kind::Request, &selecting(2, own))), Kind::Nak);
    assert_eq!(kind(lab.handle(Kind::Request, &selecting(2, addr(14)))), Kind::Nak, "another host's");
    assert_eq!(kind(lab.handle(Kind::Request, &selecting(2, addr(200)))), Kind::Nak, "not of the pool");
    let mut reboot = of(2);
    reboot.put(option::REQUESTED_ADDRESS, &[203, 0, 113, 1]);
    assert_eq!(kind(lab.handle(Kind::Request, &reboot)), Kind::Nak, "another network");
    let mut reboot = of(2);
    reboot.put(option::REQUESTED_ADDRESS, &addr(13).octets());
    assert_eq!(lab.handle(Kind::Request, &reboot), None);
    let renewing = Message { ciaddr: own, ..of(1) };
    assert_eq!(kind(lab.handle(Kind::Request, &renewing)), Kind::Ack);
    let mut elsewhere = selecting(1, own);
    elsewhere.options[0].1 = addr(2).octets().to_vec();
    assert_eq!(lab.handle(Kind::Request, &elsewhere), None);
    // Released, and then free.
    lab.handle(Kind::Release, &Message { ciaddr: own, ..of(2) });
    assert!(lab.server.leases.get(own).is_some(), "another's");
    lab.handle(Kind::Release, &Message { ciaddr: own, ..of(1) });
    assert!(lab.server.leases.all().is_empty());
}

#[test]
fn answers_go_where_their_clients_hear_them_and_tell_what_was_asked() {
    let mut lab = Lab::new("where");
    lab.lease(1);
    let all = Ipv4Addr::BROADCAST;
    let relay = Ipv4Addr::new(192, 0, 2, 254);
    for (message, to, mac_of) in [
        (of(1), SocketAddrV4::new(addr(10), 68), Some(mac(1))),
        (Message { broadcast: true, ..of(1) }, SocketAddrV4::new(all, 68), None),
        (Message { giaddr: relay, ..of(1) }, SocketAddrV4::new(relay, 67), None),
    ] {
        let Some(Act::Send { to: at, mac, .. }) = lab.handle(Kind::Discover, &message) else { panic!() };
        assert_eq!((at, mac), (to, mac_of));
    }
    let mut message = of(1);
    message.put(option::PARAMETERS, &[option::SUBNET_MASK, option::DOMAIN]);
    message.put(option::RELAY_AGENT, b"port 7");
    let (_, offer) = sent(lab.handle(Kind::Discover, &message));
    assert_eq!(offer.addr(option::SUBNET_MASK), Some([255, 255, 255, 0].into()));
    assert_eq!(offer.text(option::DOMAIN).as_deref(), Some("x.example"));
    assert_eq!(offer.get(option::ROUTER), None, "not asked for");
    assert_eq!(offer.get(option::RELAY_AGENT), Some(&b"port 7"[..]));
    assert_eq!(offer.get(option::LEASE_TIME), Some(&800_u32.to_be_bytes()[..]));
}

#[test]
fn a_flood_of_clients_takes_no_lease_and_ends_with_its_offers() {
    let mut lab = Lab::new("flood");
    let own = lab.lease(1);
    for client in 2..=255_u8 {
        lab.handle(Kind::Discover, &of(client));
    }
    assert_eq!(lab.server.probes.len(), 3, "of the three addresses that are left");
    assert_eq!(lab.server.counts.exhausted, 250, "but for the host that has its own");
    assert_eq!(lab.lease(1), own);
    let later = NOW + OFFER_S + 1;
    for taken in [11, 12, 13] {
        lab.server.probed(addr(taken), false, NOW);
    }
    assert_eq!(lab.server.handle(&of(7), Kind::Discover, later).unwrap(), Some(Act::Probe(addr(13))));
}

/// A search does not begin anew for each client, and a pool that is exhausted is searched once in a second, but after a release.
#[test]
fn a_search_goes_on_where_the_last_one_ended_and_a_release_makes_room_at_once() {
    let mut lab = Lab::new("search");
    let first = [1, 2].map(|client| lab.lease(client))[0];
    lab.handle(Kind::Release, &Message { ciaddr: first, ..of(1) });
    let given: Vec<Ipv4Addr> = (3..=5).map(|client| lab.lease(client)).collect();
    assert_eq!(given, [addr(12), addr(13), addr(10)]);
    assert_eq!(lab.handle(Kind::Discover, &of(6)), None);
    lab.handle(Kind::Release, &Message { ciaddr: addr(12), ..of(3) });
    assert_eq!(lab.handle(Kind::Discover, &of(6)), Some(Act::Probe(addr(12))));
}

#[test]
fn leases_are_known_after_a_new_start_and_none_is_given_that_cannot_be_written() {
    let mut lab = Lab::new("again");
    let own = lab.lease(1);
    let settings = lab.server.settings.clone();
    lab.server = Server::new(settings, Leases::open(&lab.path).unwrap());
    assert_eq!(lab.lease(1), own);
    assert_eq!(lab.lease(2), addr(11));
}
