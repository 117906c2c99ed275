use ipnet::Ipv6Net;
use wire::dhcp6::status;

use super::*;
use crate::dhcp6::message::Builder;

const NOW: u64 = 1_000_000_000;
const IAID: u32 = 7;
const DUID: [u8; 14] = [0, 1, 0, 1, 1, 2, 3, 4, 2, 0, 0, 0, 0, 7];
const SERVER: [u8; 10] = [0, 3, 0, 1, 2, 0, 0, 0, 0, 1];

fn settings() -> Settings {
    Settings { address: true, prefix: Some(56), by_routers: false, rapid_commit: false }
}

fn client(settings: Settings, known: Option<Lease>) -> Client {
    Client::new(settings, (DUID.to_vec(), IAID), (known, Params::default()), 4711, NOW)
}

/// The message that was sent last.
fn sent(acts: &[Act]) -> Vec<u8> {
    let mut messages =
        acts.iter().rev().filter_map(|act| if let Act::Send(message) = act { Some(message) } else { None });
    messages.next().unwrap_or_else(|| panic!("{acts:?}")).clone()
}

fn kind(message: &[u8]) -> Kind {
    View::parse(message).unwrap().kind
}

/// A server that has one address and one prefix for its client.
#[derive(Clone)]
struct Isp {
    prefix: Option<Ipv6Net>,
    addr: Option<Ipv6Addr>,
    old: Option<Ipv6Net>,
    status: u16,
    preference: u8,
    times: [u32; 4],
}

impl Isp {
    fn new() -> Self {
        let prefix = "2001:db8:4400::/56".parse().ok();
        let addr = "2001:db8::77".parse().ok();
        Self { prefix, addr, old: None, status: status::SUCCESS, preference: 0, times: [100, 160, 200, 300] }
    }

    fn answer(&self, to: &[u8], kind: Kind) -> Vec<u8> {
        let asked = View::parse(to).unwrap();
        let [renew, rebind, preferred, valid] = self.times.map(u32::to_be_bytes);
        let fixed = [&IAID.to_be_bytes()[..], &renew, &rebind].concat();
        let plain = |builder: Builder| builder.into_bytes().split_off(4);
        let part = || Builder::new(Kind::Reply, 0);
        let state = if self.status == status::SUCCESS {
            part()
        } else {
            part().with(option::STATUS, &self.status.to_be_bytes())
        };
        let addr = self.addr.iter().fold(state.clone(), |ia, addr| {
            ia.with(option::IA_ADDR, &[&addr.octets()[..], &preferred, &valid].concat())
        });
        let one = |ia: Builder, net: Ipv6Net, times: [[u8; 4]; 2]| {
            let value = [&times.concat()[..], &[net.prefix_len()], &net.addr().octets()].concat();
            ia.with(option::IA_PREFIX, &value)
        };
        let prefix = self.prefix.iter().fold(state, |ia, net| one(ia, *net, [preferred, valid]));
        let prefix = self.old.iter().fold(prefix, |ia, net| one(ia, *net, [[0; 4]; 2]));
        let mut reply = Builder::new(kind, asked.xid)
            .with(option::CLIENT_ID, asked.options.get(option::CLIENT_ID).unwrap())
            .with(option::SERVER_ID, &SERVER)
            .with(option::PREFERENCE, &[self.preference])
            .with_addrs(option::DNS, &["2001:db8::53".parse().unwrap()])
            .with(option::SEARCH, b"\x03isp\x07example\0");
        if asked.options.get(option::IA_NA).is_some() {
            reply = reply.with(option::IA_NA, &[&fixed[..], &plain(addr)].concat());
        }
        if asked.options.get(option::IA_PD).is_some() {
            reply = reply.with(option::IA_PD, &[&fixed[..], &plain(prefix)].concat());
        }
        reply.into_bytes()
    }
}

fn hears(client: &mut Client, message: &[u8], now: u64) -> Vec<Act> {
    client.arrived(&View::parse(message).unwrap(), now)
}

/// Lets time pass until the client does something.
fn wait(client: &mut Client, now: &mut u64) -> Vec<Act> {
    for _ in 0..8 {
        *now = client.next();
        let acts = client.due(*now);
        if !acts.is_empty() {
            return acts;
        }
    }
    panic!("nothing is done: {client:?}")
}

fn nets(client: &Client) -> Vec<String> {
    client.lease.iter().flat_map(|lease| lease.entries.iter().map(|entry| entry.net.to_string())).collect()
}

/// Brings a client to its lease.
fn bound(isp: &Isp) -> (Client, u64) {
    let (mut client, mut now) = (client(settings(), None), NOW);
    let solicit = sent(&wait(&mut client, &mut now));
    assert_eq!(kind(&solicit), Kind::Solicit);
    let hint = View::parse(&solicit).unwrap().options.associations(option::IA_PD).next().unwrap();
    assert_eq!(hint.leased().map(|leased| leased.len).collect::<Vec<_>>(), [56]);
    // Others have time to advertise something better.
    assert_eq!(hears(&mut client, &isp.answer(&solicit, Kind::Advertise), now), []);
    let request = sent(&wait(&mut client, &mut now));
    let view = View::parse(&request).unwrap();
    assert_eq!((view.kind, view.options.get(option::SERVER_ID)), (Kind::Request, Some(&SERVER[..])));
    assert_eq!(hears(&mut client, &isp.answer(&request, Kind::Reply), now), [Act::Use]);
    assert_eq!(client.state, State::Bound);
    (client, now)
}

#[test]
fn four_messages_make_a_lease_of_an_address_and_a_prefix() {
    let (client, now) = bound(&Isp::new());
    assert_eq!(nets(&client), ["2001:db8::77/128", "2001:db8:4400::/56"]);
    let lease = client.lease.as_ref().unwrap();
    assert_eq!((lease.renew - now, lease.rebind - now, lease.expires() - now), (100_000, 160_000, 300_000));
    assert_eq!(client.params.dns, ["2001:db8::53".parse::<Ipv6Addr>().unwrap()]);
    assert_eq!(client.params.search, b"\x03isp\x07example\0");
}

#[test]
fn it_renews_with_its_server_then_rebinds_with_any_and_then_has_nothing() {
    let isp = Isp::new();
    let (mut client, mut now) = bound(&isp);
    let begun = now;
    let renew = sent(&wait(&mut client, &mut now));
    assert_eq!((kind(&renew), now - begun), (Kind::Renew, 100_000));
    assert_eq!(hears(&mut client, &isp.answer(&renew, Kind::Reply), now), [Act::Use]);
    let begun = now;
    let (mut kinds, mut ends) = (Vec::new(), 0);
    while client.lease.is_some() {
        for act in wait(&mut client, &mut now) {
            match act {
                Act::Send(message) => kinds.push((kind(&message), (now - begun) / 1000)),
                Act::Use => ends = now - begun,
            }
        }
    }
    assert!(kinds.iter().all(|(kind, at)| (*kind == Kind::Renew) == (*at < 160)), "{kinds:?}");
    assert!(kinds.contains(&(Kind::Renew, 100)) && kinds.contains(&(Kind::Rebind, 160)), "{kinds:?}");
    assert_eq!((ends, client.state.clone()), (300_000, State::Soliciting));
    assert_eq!(kind(&sent(&wait(&mut client, &mut now))), Kind::Solicit);
}

#[test]
fn another_prefix_takes_the_place_of_one_that_the_provider_ends_or_says_no_more_of() {
    for ends in [true, false] {
        let mut isp = Isp::new();
        let (mut client, mut now) = bound(&isp);
        let renew = sent(&wait(&mut client, &mut now));
        isp.old = isp.prefix.filter(|_| ends);
        isp.prefix = "2001:db8:5500::/56".parse().ok();
        hears(&mut client, &isp.answer(&renew, Kind::Reply), now);
        let lease = client.lease.as_ref().unwrap();
        let used: Vec<_> =
            lease.prefixes().filter(|entry| entry.preferred > now).map(|entry| entry.net).collect();
        assert_eq!(used, [isp.prefix.unwrap()]);
        let deprecated = lease.prefixes().filter(|entry| entry.preferred <= now && entry.valid > now).count();
        assert_eq!((deprecated, client.counts.renumbered), (usize::from(!ends), 1));
    }
}

#[test]
fn a_server_that_does_not_know_the_lease_any_more_is_asked_anew_and_the_lease_stays_until_then() {
    let mut isp = Isp::new();
    let (mut client, mut now) = bound(&isp);
    let renew = sent(&wait(&mut client, &mut now));
    let unknown = Isp { status: status::NO_BINDING, addr: None, prefix: None, ..isp };
    let request = sent(&hears(&mut client, &unknown.answer(&renew, Kind::Reply), now));
    assert_eq!((kind(&request), nets(&client).len()), (Kind::Request, 2));
    isp.prefix = "2001:db8:6600::/56".parse().ok();
    hears(&mut client, &isp.answer(&request, Kind::Reply), now);
    assert_eq!(nets(&client), ["2001:db8::77/128", "2001:db8:6600::/56"]);
}

#[test]
fn after_a_start_a_lease_with_prefixes_is_rebound_and_one_of_addresses_confirmed() {
    let (bound, _) = bound(&Isp::new());
    let whole = bound.lease.unwrap();
    let addresses = Lease { entries: whole.addresses().copied().collect(), ..whole.clone() };
    for (lease, expected) in [(whole, Kind::Rebind), (addresses, Kind::Confirm)] {
        // Without an answer it is used on.
        let (mut silent, mut now) = (client(settings(), Some(lease.clone())), NOW);
        let mut kinds = Vec::new();
        while now < NOW + 60_000 {
            assert_eq!(silent.lease.as_ref(), Some(&lease));
            now = silent.next();
            let acts = silent.due(now);
            assert_eq!(acts.contains(&Act::Use), kinds.is_empty());
            // At its end there is nothing to do.
            if !acts.is_empty() {
                kinds.push(kind(&sent(&acts)));
            }
        }
        assert!((3..6).contains(&kinds.iter().filter(|kind| **kind == expected).count()), "{kinds:?}");
        // Of another link it is none.
        let mut moved = client(settings(), Some(lease.clone()));
        let asked = sent(&moved.due(NOW));
        let not_here = Isp { status: status::NO_BINDING, addr: None, prefix: None, ..Isp::new() }
            .answer(&asked, Kind::Reply);
        let not_here = if expected == Kind::Confirm {
            let view = View::parse(&asked).unwrap();
            let reply = Builder::new(Kind::Reply, view.xid)
                .with(option::CLIENT_ID, &DUID)
                .with(option::SERVER_ID, &SERVER);
            reply.with(option::STATUS, &status::NOT_ON_LINK.to_be_bytes()).into_bytes()
        } else {
            not_here
        };
        hears(&mut moved, &not_here, NOW);
        assert_eq!(moved.state, State::Soliciting);
        assert_eq!(moved.lease.is_some(), expected == Kind::Rebind);
    }
}

#[test]
fn routers_say_whether_there_is_something_to_ask_for() {
    for (flags, expected) in
        [((false, false), None), ((true, false), Some(Kind::Solicit)), ((false, true), Some(Kind::Solicit))]
    {
        let mut client = client(Settings { by_routers: true, ..settings() }, None);
        assert_eq!(client.next(), u64::MAX);
        client.routers_say(flags.0, flags.1, NOW);
        let message = (client.next() < u64::MAX).then(|| sent(&client.due(NOW + 1000)));
        assert_eq!(message.as_deref().map(kind), expected, "{flags:?}");
        if let Some(message) = message {
            let view = View::parse(&message).unwrap();
            assert_eq!(view.options.get(option::IA_NA).is_some(), flags.0);
        }
    }
}

#[test]
fn parameters_alone_are_asked_for_again_when_they_are_old() {
    let nothing = Settings { address: false, prefix: None, ..settings() };
    let (mut client, mut now) = (client(nothing, None), NOW);
    let asked = sent(&wait(&mut client, &mut now));
    assert_eq!(kind(&asked), Kind::InformationRequest);
    assert_eq!(hears(&mut client, &Isp::new().answer(&asked, Kind::Reply), now), [Act::Use]);
    assert_eq!((client.params.dns.len(), client.lease.is_none()), (1, true));
    let begun = now;
    assert_eq!(kind(&sent(&wait(&mut client, &mut now))), Kind::InformationRequest);
    assert_eq!(now - begun, 86_400_000);
}

#[test]
fn the_server_that_has_more_and_then_the_one_that_is_preferred_is_asked() {
    let (mut client, mut now) = (client(settings(), None), NOW);
    let solicit = sent(&wait(&mut client, &mut now));
    let poor = Isp { addr: None, preference: 9, ..Isp::new() };
    let rich = Isp { prefix: "2001:db8:7700::/56".parse().ok(), ..Isp::new() };
    let first = Isp { prefix: "2001:db8:8800::/56".parse().ok(), preference: 255, ..Isp::new() };
    for (isp, is_end) in [(poor.clone(), false), (rich, false), (poor, false), (first, true)] {
        let acts = hears(&mut client, &isp.answer(&solicit, Kind::Advertise), now);
        assert_eq!(!acts.is_empty(), is_end);
        if is_end {
            let request = sent(&acts);
            let ia = View::parse(&request).unwrap().options.associations(option::IA_PD).next().unwrap();
            assert_eq!(ia.leased().next().unwrap().addr, "2001:db8:8800::".parse::<Ipv6Addr>().unwrap());
        }
    }
}

#[test]
fn an_address_that_is_in_use_is_declined_and_what_is_released_is_gone() {
    let (mut client, now) = bound(&Isp::new());
    let decline = sent(&client.conflict("2001:db8::77".parse().unwrap(), now));
    assert_eq!((kind(&decline), nets(&client)), (Kind::Decline, vec!["2001:db8:4400::/56".to_owned()]));
    let (mut client, now) = bound(&Isp::new());
    let acts = client.release(now);
    let release = sent(&acts);
    let view = View::parse(&release).unwrap();
    assert_eq!((view.kind, view.options.associations(option::IA_PD).count()), (Kind::Release, 1));
    assert_eq!((acts.last(), client.lease, client.at), (Some(&Act::Use), None, u64::MAX));
}

#[test]
fn messages_for_others_and_those_that_nothing_waits_for_change_nothing() {
    let isp = Isp::new();
    let (mut client, mut now) = bound(&isp);
    let renew = sent(&wait(&mut client, &mut now));
    let before = client.lease.clone();
    let good = isp.answer(&renew, Kind::Reply);
    let mut other_xid = good.clone();
    other_xid[3] ^= 1;
    let mut other_client = good;
    other_client[9] ^= 1;
    let advertise = isp.answer(&renew, Kind::Advertise);
    for wrong in [other_xid, other_client, advertise] {
        assert_eq!(hears(&mut client, &wrong, now), []);
    }
    assert_eq!((client.counts.ignored, &client.lease), (3, &before));
    // What cannot be used is as if it were not there.
    for wrong in [
        Isp { prefix: "ff00::/56".parse().ok(), addr: None, ..isp.clone() },
        Isp { prefix: "2001:db8:9::/80".parse().ok(), addr: None, ..isp.clone() },
        Isp { times: [200, 100, 100, 200], ..isp.clone() },
        Isp { times: [10, 20, 300, 200], ..isp },
    ] {
        assert_eq!(hears(&mut client, &wrong.answer(&renew, Kind::Reply), now), []);
        assert_eq!(&client.lease, &before);
    }
}

/// A provider that loses messages, restarts, renumbers and says nonsense, as a seed says, for three days.
#[test]
fn whatever_a_provider_does_a_lease_is_used_no_longer_than_it_lasts_and_messages_are_few() {
    for seed in 1..200 {
        let mut dice = client(settings(), None);
        dice.random = u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15) | 1;
        let mut isp = Isp { times: [0, 0, 600, 900], ..Isp::new() };
        let mut own = Client::new(settings(), (DUID.to_vec(), IAID), (None, Params::default()), seed, NOW);
        let (mut now, mut messages) = (NOW, 0_u64);
        while now < NOW + 86_400_000 {
            now = own.next().max(now + 1);
            let mut acts = own.due(now);
            for _ in 0..4 {
                let Some(Act::Send(asked)) = acts.iter().rev().find(|act| matches!(act, Act::Send(_))) else {
                    break;
                };
                messages += 1;
                let asked = asked.clone();
                let reply = if kind(&asked) == Kind::Solicit { Kind::Advertise } else { Kind::Reply };
                isp.status = [status::SUCCESS, status::NO_BINDING][usize::from(dice.draw(8) == 0)];
                if dice.draw(16) == 0 {
                    let third = u16::try_from(dice.draw(0xffff)).unwrap();
                    isp.prefix = Ipv6Net::new(Ipv6Addr::new(0x2001, 0xdb8, third, 0, 0, 0, 0, 0), 56).ok();
                }
                if dice.draw(3) == 0 {
                    break;
                }
                let mut answer = isp.answer(&asked, reply);
                if dice.draw(4) == 0 {
                    let at = usize::try_from(dice.draw(answer.len() as u64)).unwrap();
                    answer[at] ^= 1 << dice.draw(8);
                }
                acts = View::parse(&answer).map(|view| own.arrived(&view, now)).unwrap_or_default();
            }
            let lives = |entry: &Entry| entry.valid > now && entry.preferred <= entry.valid;
            assert!(
                own.lease.iter().all(|lease| !lease.entries.is_empty() && lease.entries.iter().all(lives)),
                "{seed}"
            );
            if dice.draw(50) == 0 {
                // Killed, and started again.
                let known = (own.lease.clone(), own.params.clone());
                own = Client::new(settings(), (DUID.to_vec(), IAID), known, dice.draw(u64::MAX), now);
            }
        }
        assert!((100..20_000).contains(&messages), "{seed}: {messages} messages");
    }
}
