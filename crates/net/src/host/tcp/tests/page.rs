//! Connections and listeners, as they are listed.

use super::*;
use crate::host::tcp::pcbs::Owner;

/// All connections of the first CPU, so many at a time.
fn all_by(host: &mut Host, limit: usize) -> Vec<Listed> {
    let now = host.cpu(0).now;
    let pcbs = host.cpu(0).tcp.as_deref().unwrap();
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let (listed, next) = pcbs.page(at, limit, Some(now));
        assert!(listed.len() <= limit.min(PER_PAGE));
        all.extend(listed);
        from = next;
    }
    all
}

#[test]
fn each_connection_is_listed_with_its_queues_and_its_owner() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let [client, server] = host.pair(0);
        send(host.cpu(0), client.1, &[7; 300]).unwrap();
        host.bench.run();
        send(host.cpu(0), server.1, &[7; 50]).unwrap();
        host.connect(0);
        host.bench.run();
        let mut all = all_by(&mut host, 1);
        assert_eq!(all.len(), 4);
        all.retain(|listed| matches!(listed.owner, Owner::Listener(_)));
        assert_eq!(all.len(), 1, "one waits to be accepted");
        let local = connection(host.cpu(0), server.1).unwrap().0.remote();
        let all = all_by(&mut host, 100);
        let of = |end: SocketAddr| all.iter().find(|listed| listed.ends.local() == end).unwrap();
        let is_accepted = |listed: &&Listed| listed.ends.remote() == local;
        assert_eq!((of(local).receive_queue, of(local).owner), (50, Owner::Program));
        let accepted = all.iter().find(is_accepted).unwrap();
        assert_eq!((accepted.receive_queue, accepted.state), (300, State::Established));
        let (info, times) = &**accepted.info.as_ref().unwrap();
        assert_eq!((info.tally.bytes_received, info.state), (300, State::Established));
        assert!(times.busy <= times.data_sent.max(times.ack_came));
    }
}

#[test]
fn one_that_has_ended_is_listed_until_its_program_lets_go_of_it_however_many_had_its_ends() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let remote = host.addr;
        let port = (10_000..).find(|port| {
            let ends = crate::host::pcb::FourTuple::new((addr, *port).into(), remote, 0);
            host.cpu(0).placement.owner(ends.flow()) == host.cpu(0).id
        });
        let again = Connect { port, ..connector(remote) };
        let mut ended = Vec::new();
        for _ in 0..5 {
            ended.push(connect(host.cpu(0), &again).unwrap());
            host.bench.run();
            let (_, server) = host.accept().unwrap();
            abort(host.cpu(0), server).unwrap();
            host.bench.run();
        }
        for limit in [1, 2, 100] {
            let states: Vec<State> = all_by(&mut host, limit).iter().map(|listed| listed.state).collect();
            assert_eq!(states, [State::Closed; 5], "{limit} at a time");
        }
        close(host.cpu(0), ended.remove(2)).unwrap();
        host.bench.run();
        assert_eq!(all_by(&mut host, 1).len(), 4);
        ended.into_iter().for_each(|id| abort(host.cpu(0), id).unwrap());
        assert!(all_by(&mut host, 1).is_empty());
    }
}

#[test]
fn no_page_is_longer_than_the_bound() {
    let mut host = Host::new(1, addr4(1, 1).into(), |_| ());
    let remote = (addr4(1, 9), 80).into();
    for _ in 0..3 * PER_PAGE {
        connect(host.cpu(0), &connector(remote)).unwrap();
    }
    assert_eq!(all_by(&mut host, usize::MAX).len(), 3 * PER_PAGE);
}

#[test]
fn listeners_are_listed_by_port_with_what_waits_to_be_accepted() {
    for addr in families() {
        let mut host = Host::new(1, addr, |wanted| wanted.backlog = 7);
        for port in [443, 22] {
            listen(host.cpu(0), &listen_on((addr, port).into())).unwrap();
        }
        host.connect(0);
        host.bench.run();
        let pcbs = host.cpu(0).tcp.as_deref().unwrap();
        let (first, next) = pcbs.page_of_listeners(0, 2);
        let (second, end) = pcbs.page_of_listeners(next.unwrap(), 2);
        let ports: Vec<u16> = first.iter().chain(&second).map(|listed| listed.addr.port()).collect();
        assert_eq!((ports.as_slice(), end), (&[22, 80, 443][..], None));
        assert_eq!((first[1].waiting, first[1].backlog), (1, 7));
    }
}
