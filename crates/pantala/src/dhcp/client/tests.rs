use super::*;

const NOW: u64 = 1_000_000_000;
const SERVER_ADDR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ADDR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

fn client(known: Option<Lease>) -> Client {
    Client::new(Mac([2, 0, 0, 0, 0, 7]), Some("gate".to_owned()), known, 4711, NOW)
}

/// The message that was sent, and where to.
fn sent(acts: &[Act]) -> (Kind, Message, Ipv4Addr) {
    let Some(Act::Send { to, message, .. }) = acts.last() else { panic!("{acts:?}") };
    let (message, kind) = Message::parse(&message.to_bytes()).unwrap();
    (kind, message, *to.ip())
}

fn answer(to: &Message, kind: Kind) -> Message {
    let mut reply = to.reply(kind);
    reply.yiaddr = ADDR;
    reply.put(option::SERVER, &SERVER_ADDR.octets());
    reply.put(option::SUBNET_MASK, &[255, 255, 255, 0]);
    reply.put(option::ROUTER, &SERVER_ADDR.octets());
    reply.put(option::DNS, &[192, 0, 2, 53]);
    reply.put(option::LEASE_TIME, &1000_u32.to_be_bytes());
    reply
}

/// Brings a client to its lease.
fn bound() -> Client {
    let mut client = client(None);
    let (kind, discover, to) = sent(&client.due(NOW));
    assert_eq!((kind, to, discover.broadcast), (Kind::Discover, Ipv4Addr::BROADCAST, true));
    let (kind, request, _) = sent(&client.arrived(&answer(&discover, Kind::Offer), Kind::Offer, NOW));
    assert_eq!((kind, request.addr(option::REQUESTED_ADDRESS)), (Kind::Request, Some(ADDR)));
    assert_eq!(request.addr(option::SERVER), Some(SERVER_ADDR));
    let acts = client.arrived(&answer(&request, Kind::Ack), Kind::Ack, NOW);
    let [Act::Use(lease)] = &acts[..] else { panic!("{acts:?}") };
    assert_eq!((lease.addr.to_string().as_str(), &lease.routers[..]), ("192.0.2.50/24", &[SERVER_ADDR][..]));
    assert_eq!((lease.renew, lease.rebind, lease.expires), (NOW + 500_000, NOW + 875_000, NOW + 1_000_000));
    client
}

#[test]
fn a_client_takes_an_offer_renews_rebinds_and_gives_the_address_up_in_time() {
    let mut client = bound();
    assert_eq!(client.due(NOW + 499_999), []);
    let (kind, renew, to) = sent(&client.due(NOW + 500_000));
    assert_eq!((kind, to, renew.ciaddr), (Kind::Request, SERVER_ADDR, ADDR));
    assert_eq!((renew.get(option::SERVER), renew.get(option::REQUESTED_ADDRESS)), (None, None));
    let later = NOW + 500_000;
    let mut extended = answer(&renew, Kind::Ack);
    extended.options.retain(|(code, _)| *code != option::DNS);
    let acts = client.arrived(&extended, Kind::Ack, later);
    assert!(
        matches!(&acts[..], [Act::Use(lease)] if lease.expires == later + 1_000_000 && lease.dns.is_empty())
    );
    // Nothing answers any more.
    let (mut now, mut to_all) = (client.at, 0);
    let left = loop {
        let acts = client.due(now);
        if acts.first() == Some(&Act::Leave) {
            break sent(&acts).0;
        }
        to_all += u32::from(sent(&acts).2 == Ipv4Addr::BROADCAST);
        assert!(client.at > now);
        now = client.at;
    };
    assert_eq!((left, to_all > 0, now), (Kind::Discover, true, later + 1_000_000));
}

#[test]
fn a_client_without_an_answer_asks_less_and_less_often() {
    let mut client = client(None);
    let (mut now, mut pauses) = (NOW, Vec::new());
    for _ in 0..7 {
        assert_eq!(sent(&client.due(now)).0, Kind::Discover);
        pauses.push((client.at - now).div_ceil(1000));
        now = client.at;
    }
    for (pause, usual) in pauses.iter().zip([4, 8, 16, 32, 64, 64, 64]) {
        assert!(pause.abs_diff(usual) <= 1, "{pauses:?}");
    }
}

#[test]
fn what_is_not_for_it_or_cannot_be_used_is_ignored() {
    let mut client = client(None);
    let discover = sent(&client.due(NOW)).1;
    let good = answer(&discover, Kind::Offer);
    let without = |code| {
        let mut message = good.clone();
        message.options.retain(|(known, _)| *known != code);
        message
    };
    for bad in [
        Message { xid: good.xid ^ 1, ..good.clone() },
        Message { chaddr: Mac([2, 0, 0, 0, 0, 8]), ..good.clone() },
        Message { is_reply: false, ..good.clone() },
        Message { yiaddr: Ipv4Addr::LOCALHOST, ..good.clone() },
        Message { yiaddr: Ipv4Addr::new(224, 0, 0, 1), ..good.clone() },
        without(option::SERVER),
    ] {
        assert_eq!(client.arrived(&bad, Kind::Offer, NOW), []);
    }
    assert_eq!(client.arrived(&answer(&discover, Kind::Ack), Kind::Ack, NOW), [], "it has asked for nothing");
    assert_eq!(client.counts.ignored, 7);
    assert_eq!(sent(&client.arrived(&good, Kind::Offer, NOW)).0, Kind::Request);
}

#[test]
fn a_lease_is_asked_for_again_after_a_start_used_without_an_answer_and_given_up_if_refused() {
    let known = bound().lease().cloned();
    let mut again = client(known.clone());
    let (kind, request, _) = sent(&again.due(NOW));
    assert_eq!((kind, request.addr(option::REQUESTED_ADDRESS)), (Kind::Request, Some(ADDR)));
    assert_eq!(request.get(option::SERVER), None);
    let mut nak = request.reply(Kind::Nak);
    nak.put(option::SERVER, &SERVER_ADDR.octets());
    let mut refused = client(known.clone());
    refused.due(NOW);
    let acts = refused.arrived(&nak, Kind::Nak, NOW);
    assert_eq!((acts.first(), sent(&acts).0), (Some(&Act::Leave), Kind::Discover));
    let used = loop {
        let acts = again.due(again.at);
        if let [Act::Use(lease)] = &acts[..] {
            break lease.clone();
        }
    };
    assert_eq!(Some(used), known);
    let late = Client::new(Mac([2, 0, 0, 0, 0, 7]), None, known, 1, NOW + 2_000_000);
    assert_eq!(late.state, State::Init, "it is over");
}

#[test]
fn an_address_that_another_host_uses_is_declined_and_another_asked_for_later() {
    let mut client = bound();
    let acts = client.conflict(NOW);
    let (kind, decline, _) = sent(&acts);
    assert_eq!((acts.first(), kind), (Some(&Act::Leave), Kind::Decline));
    assert_eq!(decline.addr(option::REQUESTED_ADDRESS), Some(ADDR));
    assert_eq!(client.due(NOW + 9_999), []);
    assert_eq!(sent(&client.due(NOW + 10_000)).0, Kind::Discover);
}

#[test]
fn classless_routes_take_the_place_of_the_router() {
    for (routes, expected) in [
        (&[][..], &["0.0.0.0/0 192.0.2.1"][..]),
        (&[("10.0.0.0/8", [192, 0, 2, 9])][..], &["10.0.0.0/8 192.0.2.9"][..]),
        (
            &[("0.0.0.0/0", [192, 0, 2, 9]), ("10.1.0.0/16", [0; 4]), ("10.2.0.0/16", [203, 0, 113, 1])],
            &["0.0.0.0/0 192.0.2.9", "10.1.0.0/16 -"],
        ),
    ] {
        let mut client = client(None);
        let (_, discover, _) = sent(&client.due(NOW));
        assert!(discover.get(option::PARAMETERS).unwrap().contains(&option::CLASSLESS_ROUTES));
        let (_, request, _) = sent(&client.arrived(&answer(&discover, Kind::Offer), Kind::Offer, NOW));
        let mut ack = answer(&request, Kind::Ack);
        let routes: Vec<_> =
            routes.iter().map(|(to, via)| (to.parse().unwrap(), Ipv4Addr::from(*via))).collect();
        if !routes.is_empty() {
            ack.put(option::CLASSLESS_ROUTES, &crate::dhcp::message::classless_routes(&routes));
        }
        client.arrived(&ack, Kind::Ack, NOW);
        let text = |(to, via): (Ipv4Net, Option<Ipv4Addr>)| {
            format!("{to} {}", via.map_or_else(|| "-".to_owned(), |via| via.to_string()))
        };
        let shown: Vec<String> = client.lease().unwrap().routes().into_iter().map(text).collect();
        assert_eq!(shown, expected);
    }
}
