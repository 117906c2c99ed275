//! Limits and invalid requests.

use super::*;
use crate::base::count::Count;
use crate::host::udp::MEMBERSHIPS_MAX;

fn try_listen(bench: &mut Bench, id: Id, group: IpAddr, filter: Filter) -> Result<(), Error> {
    udp::listen(bench.cpu(), id, &Listen { group, ifindex: 1, filter })
}

#[test]
fn a_socket_and_the_sockets_of_a_link_listen_to_so_many_groups_and_to_no_more() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let mut groups = (0..=255).map(|n| family.group(n));
        for _ in 0..GROUPS_MAX / MEMBERSHIPS_MAX {
            let [id] = everywhere(&mut bench, family)[..] else { panic!() };
            for group in groups.by_ref().take(MEMBERSHIPS_MAX) {
                assert_eq!(try_listen(&mut bench, id, group, Filter::ALL), Ok(()));
            }
            assert_eq!(
                try_listen(&mut bench, id, family.channel(), Filter::only([family.sender(7)])),
                Err(Error::TooMany)
            );
        }
        let [id] = everywhere(&mut bench, family)[..] else { panic!() };
        let more = Filter::only([family.sender(7)]);
        assert_eq!(try_listen(&mut bench, id, family.channel(), more.clone()), Err(Error::TooMany));
        assert_eq!((bench.counted(Count::GroupsFull), udp::memberships(bench.cpu(), id)), (1, &[][..]));
        bench.advance(SECOND * 3);
        bench.forget_sent();
        let answers = ask(&mut bench, family, family.nobody(), &[]);
        let named: usize = answers
            .iter()
            .map(|told| match told {
                Sent::Report(records) => records.len(),
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(named, GROUPS_MAX, "in several packets");
        assert!(answers.len() > 1 && bench.drops().is_empty());
    }
}

#[test]
fn one_socket_and_all_of_a_cpu_name_so_many_senders_and_no_more() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let [first, second] = [0; 2].map(|_| everywhere(&mut bench, family)[0]);
        let senders = |range: core::ops::Range<u8>| range.map(|host| family.sender(host)).collect::<Vec<_>>();
        let group = family.group(1);
        let most = Filter::only(senders(2..66));
        assert_eq!(try_listen(&mut bench, first, group, Filter::only(senders(2..67))), Err(Error::TooMany));
        assert_eq!(try_listen(&mut bench, first, group, most.clone()), Ok(()));
        assert_eq!(try_listen(&mut bench, second, group, Filter::only(senders(66..67))), Err(Error::TooMany));
        assert_eq!(try_listen(&mut bench, second, group, Filter::only(senders(60..66))), Ok(()));
        assert_eq!(bench.counted(Count::GroupsFull), 1);
        bench.advance(SECOND * 3);
        bench.forget_sent();
        assert_eq!(
            ask(&mut bench, family, group, &[]),
            [report(&[(Kind::IsInclude, group, most.sources())])]
        );
    }
}

#[test]
fn what_no_router_could_be_told_is_refused() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let id = everywhere(&mut bench, family)[0];
        let other = FAMILIES.into_iter().find(|other| *other != family).unwrap();
        let bad = [
            (family.addr(1, 9), Filter::ALL),
            (family.channel(), Filter::ALL),
            (family.channel(), Filter::except([family.sender(7)])),
            (family.group(1), Filter::only([other.sender(7)])),
            (family.group(1), Filter::only([family.group(2)])),
            (family.group(1), Filter::only([family.nobody()])),
        ];
        for (group, filter) in bad {
            assert_eq!(
                try_listen(&mut bench, id, group, filter.clone()),
                Err(Error::BadAddress),
                "{group} {filter:?}"
            );
        }
        let nowhere = Listen { group: family.group(1), ifindex: 9, filter: Filter::ALL };
        assert_eq!(udp::listen(bench.cpu(), id, &nowhere), Err(Error::AddrNotAvailable));
        assert_eq!(try_listen(&mut bench, id, family.group(1), Filter::NONE), Err(Error::AddrNotAvailable));
        let of_the_host: IpAddr = "ff01::1234".parse().unwrap();
        assert_eq!(try_listen(&mut bench, id, of_the_host, Filter::ALL), Err(Error::BadAddress));
        assert_eq!(memberships(bench.cpu()).iter().filter(|of| !is_follower(of.key.group)).count(), 0);
    }
}
