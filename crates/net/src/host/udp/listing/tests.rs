use core::net::IpAddr;

use super::*;
use crate::host::udp::{Bind, Connect, Settings, bind, close, connect};
use crate::testkit::{Bench, addr4, addr6};

/// Our address, and a neighbour's, of both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
}

#[test]
fn sockets_are_listed_once_and_no_page_is_longer_than_the_bound() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let settings = Settings::default();
        let remote = (peer, 53).into();
        let to = Connect { remote, local: None, port: None, zone: 0, settings };
        let ids: Vec<_> = (0..PER_PAGE + 10).map(|_| connect(bench.cpu(), &to).unwrap()).collect();
        let wanted = Bind { addr: (addr, 0).into(), zone: 0, only_v6: false, is_shared: true, settings };
        bind(bench.cpu(), &wanted).unwrap();
        ids.iter().step_by(100).for_each(|id| close(bench.cpu(), *id).unwrap());
        let sockets = bench.cpu().udp.as_deref().unwrap();
        let (first, next) = sockets.page(0, usize::MAX);
        let (second, end) = sockets.page(next.unwrap(), usize::MAX);
        assert_eq!((first.len(), end), (PER_PAGE, None));
        let all: Vec<Listed> = first.into_iter().chain(second).collect();
        assert_eq!(all.len(), ids.len() - ids.len().div_ceil(100) + 1);
        assert_eq!(all.iter().filter(|listed| listed.ends.is_none() && listed.is_shared).count(), 1);
        let of_peer = |listed: &&Listed| listed.ends.is_some_and(|ends| ends.remote() == remote);
        assert_eq!(all.iter().filter(of_peer).count(), all.len() - 1);
    }
}
