use super::*;

fn gateway(host: u8) -> To {
    To::Gateway { ifindex: 1, via: IpAddr::from([192, 0, 2, host]) }
}

/// A group of these gateways, and the gateway that each of many flows takes.
fn choices(hosts: &[u8]) -> Vec<To> {
    let mut hops = Hops::default();
    let mut ids = std::collections::HashMap::new();
    let mut id = |host: &u8| *ids.entry(*host).or_insert_with(|| hops.push(gateway(*host).into()));
    let members: Vec<_> = hosts.iter().map(&mut id).collect();
    let group = hops.push(Hop::default());
    hops.set_group(group, &members);
    (0..1 << 16).map(|flow: u32| hops.get(hops.member(group, || flow << 16)).to).collect()
}

#[test]
fn members_have_about_equal_shares() {
    for count in [2u8, 3, 16] {
        let hosts: Vec<_> = (1..=count).collect();
        let choices = choices(&hosts);
        for host in &hosts {
            let share = choices.iter().filter(|to| **to == gateway(*host)).count();
            let equal = choices.len() / usize::from(count);
            assert!(
                share > equal * 4 / 5 && share < equal * 6 / 5,
                "{host} of {count}: {share}, not {equal}"
            );
        }
    }
}

#[test]
fn a_member_that_goes_moves_only_its_own_flows() {
    let (before, after) = (choices(&[1, 2, 3, 4, 5]), choices(&[1, 2, 4, 5]));
    for (before, after) in before.iter().zip(&after) {
        assert!(before == after || *before == gateway(3), "{before:?} moved to {after:?}");
    }
    assert!(!after.contains(&gateway(3)));
}

#[test]
fn a_member_that_is_named_several_times_has_as_many_shares() {
    let (equal, weighted) = (choices(&[1, 2]), choices(&[1, 2, 2, 2]));
    let share = weighted.iter().filter(|to| **to == gateway(2)).count();
    let expected = weighted.len() * 3 / 4;
    assert!(share > expected * 9 / 10 && share < expected * 11 / 10, "{share}, not {expected}");
    for (before, after) in equal.iter().zip(&weighted) {
        assert!(before == after || *after == gateway(2), "a flow left the member that gained");
    }
}

#[test]
fn flows_do_not_depend_on_the_order_of_members() {
    assert_eq!(choices(&[1, 2, 3]), choices(&[3, 1, 2]));
}

#[test]
fn a_hop_that_is_not_a_group_is_its_own_member_and_asks_for_no_flow() {
    let mut hops = Hops::default();
    let id = hops.push(gateway(1).into());
    assert_eq!(hops.member(id, || panic!("a flow is not needed")), id);
}

#[test]
fn an_unknown_hop_leads_nowhere() {
    assert_eq!(Hops::default().get(HopId::from_bits(7)).to, To::NoRoute);
    assert_eq!(Hops::default().get(HopId::NO_ROUTE).to, To::NoRoute);
}

#[test]
fn the_smaller_mtu_counts() {
    let route = |mtu| Metrics { mtu, ..Metrics::default() };
    assert_eq!(route(0).mtu_over(1500), 1500);
    assert_eq!(route(1400).mtu_over(1500), 1400);
    assert_eq!(route(9000).mtu_over(1500), 1500);
}
