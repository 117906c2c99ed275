//! Bytes of a program that many connections send, and that are not copied for each.

use std::sync::Arc;

use super::*;

#[test]
fn a_shared_page_arrives_whole_with_what_follows_and_takes_no_memory_of_its_connection() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let page: Arc<[u8]> = bytes(15_000).into();
        let pairs = [host.pair(0), host.pair(0)];
        let own = |host: &mut Host, (_, id): End| connection(host.cpu(0), id).unwrap().1.memory();
        for [client, server] in pairs {
            let before = own(&mut host, server);
            assert_eq!(send_shared(host.cpu(0), server.1, &page), Ok(page.len()));
            assert_eq!(own(&mut host, server), before, "it is where it was");
            // What follows must not overtake it.
            assert_eq!(send(host.cpu(0), server.1, b"more"), Ok(4));
            assert_eq!(send_shared(host.cpu(0), server.1, &page), Ok(page.len()));
            let mut read_so_far = Vec::new();
            while read_so_far.len() < 2 * page.len() + 4 {
                host.bench.run();
                let mut some = [0; 5000];
                match read(host.cpu(0), client.1, &mut some) {
                    Ok(count) => read_so_far.extend_from_slice(&some[..count]),
                    Err(_) => host.bench.advance(Duration::from_millis(10)),
                }
            }
            assert!(read_so_far == [&page[..], b"more", &page].concat());
        }
        host.bench.advance(Duration::from_secs(1));
        assert_eq!(Arc::strong_count(&page), 1, "connections have let go of it");
        for [client, server] in pairs {
            close(host.cpu(0), server.1).unwrap();
            host.bench.run();
            assert_eq!(send_shared(host.cpu(0), server.1, &page), Err(Error::Closed));
            close(host.cpu(0), client.1).unwrap();
        }
        host.bench.run();
    }
}
