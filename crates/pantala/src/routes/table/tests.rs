use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::rtnetlink::{Content, messages};

use super::super::target::{OBJECTS_MAX, TARGETS_MAX};
use super::*;

fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(16 + body.len()).unwrap();
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

/// A source's view of the network: families, and messages about them.
#[derive(Clone, Copy)]
struct Net {
    is_v4: bool,
}

const FAMILIES: [Net; 2] = [Net { is_v4: true }, Net { is_v4: false }];

impl Net {
    fn to(self, n: u32) -> Prefix {
        let addr = if self.is_v4 {
            Ipv4Addr::from_bits(0x1400_0000 | n << 8).into()
        } else {
            IpAddr::from(Ipv6Addr::from_bits(0x2400 << 112 | u128::from(n) << 80))
        };
        Prefix::new(addr, if self.is_v4 { 24 } else { 48 }).unwrap()
    }

    fn via(self, n: u8) -> IpAddr {
        if self.is_v4 {
            Ipv4Addr::new(10, 0, 0, n).into()
        } else {
            Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into()).into()
        }
    }

    const fn family(self) -> u8 {
        if self.is_v4 { 2 } else { 10 }
    }

    fn route(self, n: u32, protocol: u8, priority: u32, attrs: &[Vec<u8>]) -> Vec<u8> {
        let to = self.to(n);
        let mut body = vec![self.family(), to.prefix_len(), 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0];
        body.extend(attr(1, &octets(to.addr())));
        body.extend(attr(6, &priority.to_ne_bytes()));
        body.extend(attrs.concat());
        body
    }

    fn gateway(self, n: u8) -> Vec<Vec<u8>> {
        vec![attr(5, &octets(self.via(n))), attr(4, &u32::from(n).to_ne_bytes())]
    }

    fn several(self, hops: &[u8]) -> Vec<Vec<u8>> {
        let hop = |n: &u8| {
            let via = attr(5, &octets(self.via(*n)));
            let len = u16::try_from(8 + via.len()).unwrap();
            [&len.to_ne_bytes()[..], &[0, 0], &u32::from(*n).to_ne_bytes(), &via].concat()
        };
        vec![attr(9, &hops.iter().flat_map(hop).collect::<Vec<u8>>())]
    }

    fn next_hop(self, id: u32, n: u8) -> Vec<u8> {
        let body = [
            &[self.family(), 0, 11, 0, 0, 0, 0, 0][..],
            &attr(1, &id.to_ne_bytes()),
            &attr(6, &octets(self.via(n))),
            &attr(5, &u32::from(n).to_ne_bytes()),
        ];
        message(104, &body.concat())
    }
}

fn group(id: u32, members: &[(u32, u8)]) -> Vec<u8> {
    let members: Vec<u8> =
        members.iter().flat_map(|(id, weight)| [id.to_ne_bytes(), [weight - 1, 0, 0, 0]].concat()).collect();
    message(104, &[&[0; 8][..], &attr(1, &id.to_ne_bytes()), &attr(2, &members)].concat())
}

fn by_id(id: u32) -> Vec<Vec<u8>> {
    vec![attr(30, &id.to_ne_bytes())]
}

const LIVE: Told = Told::ByKernel { is_listed: false };
const LISTED: Told = Told::ByKernel { is_listed: true };

fn tell(table: &mut Table, told: Told, bytes: &[u8]) {
    for message in messages(bytes) {
        match message.unwrap().content().unwrap() {
            Content::NewRoute(route) => table.learn(0, &route, told, 7),
            Content::DelRoute(route) => table.unlearn(0, &route, told, 7),
            Content::NewNextHop(next) => table.learn_next_hop(&next),
            Content::DelNextHop(id) => table.unlearn_next_hop(id),
            _ => panic!(),
        }
    }
}

/// Interfaces have the same number here as there; those below `first` are down.
fn leads(first: u32) -> impl Fn(&RawHop) -> Option<To> {
    move |raw| {
        let ifindex = u16::try_from(raw.ifindex).unwrap();
        match raw.to {
            RawTo::Via(via) => Some(To::Gateway { ifindex, via }).filter(|_| raw.ifindex >= first),
            RawTo::Link => Some(To::OnLink { ifindex }).filter(|_| raw.ifindex >= first),
            RawTo::Blackhole => Some(To::Blackhole),
            RawTo::Reject => Some(To::Reject),
            _ => None,
        }
    }
}

/// Edits in short: destination, protocol, numbers of the gateways.
fn told(table: &mut Table, first: u32) -> Vec<(Prefix, u8, Vec<u16>)> {
    let edits = table.edits(&leads(first));
    let hops = |edit: &Edit| edit.hops.iter().map(|hop| hop.to.ifindex().unwrap_or_default()).collect();
    edits.iter().map(|edit| (edit.to, edit.protocol, hops(edit))).collect()
}

#[test]
fn a_route_comes_changes_and_goes() {
    for net in FAMILIES {
        let mut table = Table::default();
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &net.gateway(1))));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![1])]);
        assert_eq!(table.since(0, net.to(1), 186), Some(7));
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &net.several(&[2, 3]))));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![2, 3])]);
        // Said again, it is no news.
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &net.several(&[2, 3]))));
        assert_eq!(told(&mut table, 0), []);
        tell(&mut table, Told::ByZebra, &message(25, &net.route(1, 0, 20, &[])));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![])]);
        assert_eq!(table.routes(), Held::default());
    }
}

#[test]
fn a_route_that_is_deleted_and_made_in_one_step_is_one_change() {
    for net in FAMILIES {
        let mut table = Table::default();
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &net.gateway(1))));
        assert_eq!(told(&mut table, 0).len(), 1);
        let both =
            [message(25, &net.route(1, 186, 20, &[])), message(24, &net.route(1, 188, 20, &net.gateway(2)))];
        tell(&mut table, Told::ByZebra, &both.concat());
        // The route of another protocol is there before the one before it goes.
        assert_eq!(told(&mut table, 0), [(net.to(1), 188, vec![2]), (net.to(1), 186, vec![])]);
    }
}

#[test]
fn a_group_may_be_told_before_its_members_and_changes_with_them() {
    for net in FAMILIES {
        let mut table = Table::default();
        tell(&mut table, Told::ByZebra, &net.next_hop(23, 3));
        tell(&mut table, Told::ByZebra, &group(24, &[(23, 1), (25, 2)]));
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &by_id(24))));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![3])], "one of two members is known");
        tell(&mut table, Told::ByZebra, &net.next_hop(25, 5));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![3, 5, 5])], "shares are as the weights");
        tell(&mut table, Told::ByZebra, &group(24, &[(25, 1)]));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![5])]);
        let gone = message(105, &[&[0; 8][..], &attr(1, &24u32.to_ne_bytes())].concat());
        tell(&mut table, Told::ByZebra, &gone);
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![])]);
    }
}

#[test]
fn an_interface_that_goes_takes_its_routes_along_and_brings_them_back() {
    for net in FAMILIES {
        let mut table = Table::default();
        let routes = [
            message(24, &net.route(1, 186, 20, &net.gateway(1))),
            message(24, &net.route(2, 186, 20, &net.several(&[1, 2]))),
            message(24, &net.route(3, 186, 20, &net.gateway(2))),
        ];
        tell(&mut table, Told::ByZebra, &routes.concat());
        assert_eq!(told(&mut table, 0).len(), 3);
        table.interfaces_changed();
        assert_eq!(told(&mut table, 2), [(net.to(1), 186, vec![]), (net.to(2), 186, vec![2])]);
        assert_eq!(table.routes().idle, 1);
        table.interfaces_changed();
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![1]), (net.to(2), 186, vec![1, 2])]);
        table.interfaces_changed();
        assert_eq!(told(&mut table, 0), []);
    }
}

#[test]
fn the_smallest_metric_that_leads_somewhere_is_in_force() {
    for net in FAMILIES {
        let mut table = Table::default();
        tell(&mut table, LIVE, &message(24, &net.route(1, 3, 50, &net.gateway(2))));
        tell(&mut table, LIVE, &message(24, &net.route(1, 186, 20, &net.gateway(1))));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![1])]);
        table.interfaces_changed();
        assert_eq!(told(&mut table, 2), [(net.to(1), 3, vec![2]), (net.to(1), 186, vec![])]);
        tell(&mut table, LIVE, &message(25, &net.route(1, 3, 50, &net.gateway(2))));
        assert_eq!(told(&mut table, 2), [(net.to(1), 3, vec![])]);
        assert_eq!((table.routes().routes, table.routes().idle), (1, 1));
    }
}

#[test]
fn the_kernel_takes_hops_of_ipv6_out_one_by_one() {
    let [v4, v6] = FAMILIES;
    let mut table = Table::default();
    for net in [v4, v6] {
        tell(&mut table, LIVE, &message(24, &net.route(1, 3, 20, &net.several(&[1, 2, 3]))));
        assert_eq!(told(&mut table, 0).len(), 1);
    }
    for net in [v4, v6] {
        tell(&mut table, LIVE, &message(25, &net.route(1, 3, 20, &net.gateway(2))));
    }
    assert_eq!(told(&mut table, 0), [(v4.to(1), 3, vec![]), (v6.to(1), 3, vec![1, 3])]);
    tell(&mut table, LIVE, &message(25, &v6.route(1, 3, 20, &v6.several(&[1, 3]))));
    assert_eq!(told(&mut table, 0), [(v6.to(1), 3, vec![])]);
}

#[test]
fn of_several_ipv4_routes_with_one_metric_the_first_that_is_listed_is_taken() {
    let [net, _] = FAMILIES;
    let mut table = Table::default();
    table.begin_round();
    tell(&mut table, LISTED, &message(24, &net.route(1, 3, 0, &net.gateway(1))));
    tell(&mut table, LISTED, &message(24, &net.route(1, 3, 0, &net.gateway(2))));
    assert_eq!(told(&mut table, 0), [(net.to(1), 3, vec![1])]);
}

#[test]
fn what_a_resynchronisation_does_not_have_is_swept_and_the_rest_is_left_alone() {
    for net in FAMILIES {
        let mut table = Table::default();
        for n in 1..=3 {
            tell(&mut table, Told::ByZebra, &message(24, &net.route(n, 186, 20, &net.gateway(1))));
        }
        assert_eq!(told(&mut table, 0).len(), 3);
        table.begin_round();
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &net.gateway(1))));
        tell(&mut table, Told::ByZebra, &message(24, &net.route(2, 186, 20, &net.gateway(2))));
        assert_eq!(told(&mut table, 0), [(net.to(2), 186, vec![2])]);
        assert_eq!(table.routes().stale, 1);
        assert_eq!(table.sweep(), 1);
        assert_eq!(told(&mut table, 0), [(net.to(3), 186, vec![])]);
        assert_eq!((table.counts.swept, table.routes().stale, table.is_clean()), (1, 0, true));
    }
}

#[test]
fn a_number_that_means_another_next_hop_after_a_restart_leads_no_stale_route_there() {
    for net in FAMILIES {
        let mut table = Table::default();
        tell(&mut table, Told::ByZebra, &net.next_hop(23, 3));
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &by_id(23))));
        tell(&mut table, Told::ByZebra, &message(24, &net.route(2, 186, 20, &by_id(23))));
        assert_eq!(told(&mut table, 0).len(), 2);
        table.begin_round();
        tell(&mut table, Told::ByZebra, &net.next_hop(23, 9));
        assert_eq!(told(&mut table, 0), [], "stale routes stay where they lead");
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &by_id(23))));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![9])]);
        table.sweep();
        assert_eq!(told(&mut table, 0), [(net.to(2), 186, vec![])]);
        assert_eq!(table.routes().next_hops, 1);
    }
}

fn learn_in(table: &mut Table, fib: FibIndex, body: &[u8]) {
    for message in messages(&message(24, body)) {
        if let Content::NewRoute(route) = message.unwrap().content().unwrap() {
            table.learn(fib, &route, Told::ByZebra, 7);
        }
    }
}

#[test]
fn a_table_that_zebra_does_not_tell_again_keeps_the_routes_whose_next_hops_are_there() {
    for net in FAMILIES {
        let mut table = Table::default();
        let next_hops = [net.next_hop(20, 1), net.next_hop(21, 2), group(22, &[(20, 1), (21, 3)])].concat();
        tell(&mut table, Told::ByZebra, &next_hops);
        tell(&mut table, Told::ByZebra, &message(24, &net.route(1, 186, 20, &net.gateway(1))));
        for (fib, n, leads) in
            [(1, 2, by_id(20)), (1, 3, by_id(22)), (1, 4, net.gateway(3)), (2, 5, by_id(20))]
        {
            learn_in(&mut table, fib, &net.route(n, 186, 20, &leads));
        }
        assert_eq!(told(&mut table, 0).len(), 5);
        // Zebra is still what it was: it tells next hops and the main table.
        table.begin_round();
        tell(&mut table, Told::ByZebra, &next_hops);
        assert_eq!(table.sweep_but_untold(0), 1, "the main table is told as a whole");
        assert_eq!((table.routes().routes, table.routes().stale, table.routes().next_hops), (4, 0, 3));
        let _ = told(&mut table, 0);
        assert_eq!(table.routes().idle, 0, "they lead where they did");
        // It is another one, whose numbers are those of other next hops; of table 2 it tells something.
        table.begin_round();
        tell(&mut table, Told::ByZebra, &net.next_hop(20, 7));
        learn_in(&mut table, 2, &net.route(6, 186, 20, &net.gateway(1)));
        assert_eq!(table.sweep_but_untold(0), 3);
        assert!(table.since(1, net.to(4), 186).is_some(), "it has no number");
        assert!(table.since(2, net.to(6), 186).is_none() && told(&mut table, 0).len() == 4);
        // Zebra stays away.
        table.begin_round();
        assert_eq!(table.sweep(), 2);
        assert_eq!((told(&mut table, 0).len(), table.routes()), (2, Held::default()));
    }
}

#[test]
fn what_is_not_forwarded_by_is_ignored_and_counted() {
    for net in FAMILIES {
        let mut table = Table::default();
        let mut local = net.route(1, 2, 0, &net.gateway(1));
        local[7] = 2;
        let mut of_a_source = net.route(1, 186, 0, &net.gateway(1));
        of_a_source[2] = 8;
        for body in [local, of_a_source, net.route(1, 186, 0, &[])] {
            tell(&mut table, Told::ByZebra, &message(24, &body));
        }
        assert_eq!((told(&mut table, 0), table.counts.ignored), (vec![], 3));
        for (action, to) in [(6, To::Blackhole), (7, To::Reject), (8, To::Reject)] {
            let mut body = net.route(1, 186, 0, &[]);
            body[7] = action;
            tell(&mut table, Told::ByZebra, &message(24, &body));
            let edits = table.edits(&leads(0));
            assert!(edits.iter().all(|edit| edit.hops[0].to == to), "{edits:?}");
        }
    }
}

#[test]
fn a_full_source_refuses_routes_and_next_hops_and_keeps_those_that_it_has() {
    for net in FAMILIES {
        let mut table = Table { paths_max: 2, ..Table::default() };
        for n in 1..=3 {
            tell(&mut table, Told::ByZebra, &message(24, &net.route(n, 186, 20, &net.gateway(1))));
        }
        assert_eq!(told(&mut table, 0).len(), 2);
        assert_eq!((table.counts.refused, table.routes().routes), (1, 2));
        tell(&mut table, Told::ByZebra, &message(24, &net.route(2, 186, 20, &net.gateway(2))));
        assert_eq!(told(&mut table, 0), [(net.to(2), 186, vec![2])], "those that are there may change");
        let most = u32::try_from(OBJECTS_MAX).unwrap();
        (0..=most).for_each(|id| tell(&mut table, Told::ByZebra, &net.next_hop(id, 1)));
        assert_eq!((table.counts.refused, table.routes().next_hops), (2, OBJECTS_MAX));
    }
}

#[test]
fn a_prefix_has_a_bounded_number_of_metrics() {
    for net in FAMILIES {
        let mut table = Table::default();
        for metric in (1..=100).rev() {
            tell(&mut table, LIVE, &message(24, &net.route(1, 186, metric, &net.gateway(1))));
        }
        assert_eq!((table.counts.refused, table.routes().routes), (36, 64));
    }
}

#[test]
fn as_many_targets_as_there_may_be_and_no_more() {
    for net in FAMILIES {
        let mut table = Table::default();
        let most = u32::try_from(TARGETS_MAX).unwrap();
        for mtu in 1..=most + 1 {
            let metrics = attr(8, &attr(2, &mtu.to_ne_bytes()));
            let mut leads = net.gateway(1);
            leads.push(metrics);
            tell(&mut table, LIVE, &message(24, &net.route(mtu, 186, 0, &leads)));
        }
        assert_eq!((table.counts.refused, table.routes().targets), (1, TARGETS_MAX));
    }
}

#[test]
fn another_stack_gets_all_that_is_in_force_there() {
    for net in FAMILIES {
        let mut table = Table::default();
        tell(&mut table, LIVE, &message(24, &net.route(1, 186, 20, &net.gateway(1))));
        tell(&mut table, LIVE, &message(24, &net.route(1, 3, 50, &net.gateway(2))));
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![1])]);
        let mut all = Vec::new();
        table.all(&leads(2), |edit| all.push((edit.to, edit.protocol)));
        assert_eq!(all, [(net.to(1), 3)]);
        table.all_are_installed(&leads(2));
        table.interfaces_changed();
        assert_eq!(told(&mut table, 0), [(net.to(1), 186, vec![1]), (net.to(1), 3, vec![])]);
    }
}
