//! Lifetimes of addresses.

use net::ip6::autoconf::{Kind, OwnStatus, Settings};
use net::time::Duration;
use wire::nd::{Opt, Prefix};

use super::link::{self, FAR, Link, SECOND, advert, prefix};

const HOUR: Duration = Duration::from_secs(3600);

/// Seconds for which each address is preferred and valid still.
fn lives(link: &mut Link) -> Vec<(Kind, u64, u64)> {
    let now = link.world.now();
    let left = |at: net::time::Instant| at.since(now).as_secs();
    let life = |own: &OwnStatus| (own.kind, left(own.preferred), left(own.valid));
    link.status().unwrap().addrs.iter().map(life).collect()
}

fn hear(link: &mut Link, valid_s: u32, preferred_s: u32) {
    link.hear(1, advert(), &[Opt::Prefix(Prefix { valid_s, preferred_s, ..prefix(1) })]);
}

#[test]
fn an_advertisement_shortens_a_life_to_two_hours_at_the_least() {
    let mut link = Link::new("two_hours", 1, link::EUI64);
    let valid = |link: &mut Link, valid_s| {
        hear(link, valid_s, valid_s);
        lives(link).first().map_or(0, |(_, _, valid)| *valid)
    };
    assert!(valid(&mut link, 86_400) > 86_000);
    assert!(valid(&mut link, 100_000) > 99_000, "more than it had");
    let shortened = valid(&mut link, 10);
    assert!((7190..7200).contains(&shortened), "{shortened}");
    let left = valid(&mut link, 0);
    assert!((7180..7200).contains(&left), "{left}: less than two hours are not shortened");
    assert!(valid(&mut link, 9000) > 8990, "more than two hours is believed");
}

#[test]
fn an_address_is_deprecated_and_dies_in_time() {
    for cpus in link::CPUS {
        let mut link = Link::new("dies", cpus, link::EUI64);
        hear(&mut link, 600, 300);
        assert_eq!(link.pings(FAR), 3);
        link.world.run_for(310 * SECOND);
        assert_eq!(lives(&mut link)[0].1, 0, "not preferred any more");
        assert_eq!(link.pings(FAR), 3, "and used as long as there is no other");
        link.world.run_for(300 * SECOND);
        assert_eq!(lives(&mut link), []);
        assert!(!link.host().cpus[0].netisr.cpu.tables.own.has("2001:db8:1::ff:fe00:102".parse().unwrap()));
    }
}

#[test]
fn temporary_addresses_are_spoken_with_and_follow_each_other() {
    let temporary = Settings { temporary: true, ..link::STABLE };
    let mut link = Link::new("temporary", 2, temporary);
    hear(&mut link, u32::MAX, u32::MAX);
    let first = link.addrs();
    assert_eq!(first.len(), 2, "{first:?}");
    assert_eq!(link.pings(FAR), 3);
    assert_eq!(link.speaker(FAR).to_string(), first[1], "the temporary one");
    let mut seen = vec![first[1].clone()];
    for _ in 0..24 * 6 {
        link.world.run_for(HOUR);
        let now = link.addrs();
        assert!(now.len() <= 5, "{now:?}");
        assert_eq!(now[0], first[0]);
        seen.extend(now[1..].iter().filter(|addr| !seen.contains(addr)).cloned().collect::<Vec<_>>());
    }
    // Each is preferred for 14 to 24 hours.
    assert!((6..=11).contains(&seen.len()), "{} in six days", seen.len());
}

#[test]
fn a_prefix_that_no_address_can_be_made_of_makes_none() {
    let mut link = Link::new("useless", 1, link::EUI64);
    let useless = [
        Prefix { len: 63, ..prefix(1) },
        Prefix { len: 128, ..prefix(1) },
        Prefix { len: 200, ..prefix(1) },
        Prefix { autonomous: false, ..prefix(1) },
        Prefix { preferred_s: 2, valid_s: 1, ..prefix(1) },
        Prefix { preferred_s: 0, valid_s: 0, ..prefix(1) },
        Prefix { addr: "fe80::".parse().unwrap(), ..prefix(1) },
        Prefix { addr: "ff05::".parse().unwrap(), ..prefix(1) },
    ];
    for prefix in useless {
        link.hear(1, advert(), &[Opt::Prefix(prefix)]);
        assert_eq!(link.addrs(), Vec::<String>::new(), "{prefix:?}");
    }
}
