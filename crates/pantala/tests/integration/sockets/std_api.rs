//! Addresses as text and in slices, halves of a connection, and sockets that are configured before they connect: as in std
//! and tokio.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};

use pantala::sockets::{KeepAlive, aio, blocking};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::sockets::bodies::datagrams::any;
use crate::sockets::socket_api::{Face, Stacks};
use crate::sockets::tasks::wait;

/// An address of neither host.
const FOREIGN: &str = "198.51.100.9:1";

fn no_addresses<T>(result: io::Result<T>) {
    let why = result.err().unwrap();
    let text = "could not resolve to any addresses";
    assert_eq!((why.kind(), why.to_string().as_str()), (ErrorKind::InvalidInput, text));
}

fn threads_give_addresses_as_text_as_pairs_and_in_slices_of_which_each_is_tried() {
    let stacks = Stacks::new();
    let foreign: SocketAddr = FOREIGN.parse().unwrap();
    for addr in stacks.addrs() {
        let listener = blocking::TcpListener::bind(&stacks.server, &[foreign, (addr, 0).into()][..]).unwrap();
        let at = listener.local_addr().unwrap();
        let text = addr.to_string();
        let connect = [
            blocking::TcpStream::connect(&stacks.client, at.to_string()),
            blocking::TcpStream::connect(&stacks.client, (&*text, at.port())),
            blocking::TcpStream::connect(&stacks.client, (addr, at.port())),
            blocking::TcpStream::connect(&stacks.client, &[(addr, 1).into(), at][..]),
        ];
        assert!(connect.iter().all(|stream| stream.as_ref().unwrap().peer_addr().unwrap() == at));
        let last = blocking::TcpStream::connect(&stacks.client, &[at, (addr, 1).into()][1..]);
        assert_eq!(last.err().unwrap().kind(), ErrorKind::ConnectionRefused);
        let socket = blocking::UdpSocket::bind(&stacks.client, any((addr, 0).into())).unwrap();
        socket.connect(&[any((addr, 0).into()), at][..]).unwrap();
        socket.send_to(b"x", at.to_string()).unwrap();
        no_addresses(socket.send_to(b"x", &[][..]));
        no_addresses(socket.connect(&[][..]));
    }
    no_addresses(blocking::TcpListener::bind(&stacks.server, &[][..]));
    no_addresses(blocking::TcpStream::connect(&stacks.client, &[][..]));
    no_addresses(blocking::UdpSocket::bind(&stacks.client, &[][..]));
    for text in ["192.0.2.1", "192.0.2.1:none"] {
        let why = blocking::TcpStream::connect(&stacks.client, text).err().unwrap();
        assert_eq!(why.kind(), ErrorKind::InvalidInput, "{text}: {why}");
    }
}

fn tasks_give_addresses_as_text_as_pairs_and_in_slices_of_which_each_is_tried() {
    let stacks = Stacks::new();
    let foreign: SocketAddr = FOREIGN.parse().unwrap();
    let client = &stacks.client;
    wait(async {
        for addr in stacks.addrs() {
            let places = [foreign, (addr, 0).into()];
            let listener = aio::TcpListener::bind(&stacks.server, &places[..]).await.unwrap();
            let at = listener.local_addr().unwrap();
            let text = addr.to_string();
            let connect = [
                aio::TcpStream::connect(client, at.to_string()).await,
                aio::TcpStream::connect(client, &*at.to_string()).await,
                aio::TcpStream::connect(client, (&*text, at.port())).await,
                aio::TcpStream::connect(client, (text, at.port())).await,
                aio::TcpStream::connect(client, (addr, at.port())).await,
                aio::TcpStream::connect(client, &[(addr, 1).into(), at][..]).await,
            ];
            assert!(connect.iter().all(|stream| stream.as_ref().unwrap().peer_addr().unwrap() == at));
            let last = aio::TcpStream::connect(client, &[at, (addr, 1).into()][1..]).await;
            assert_eq!(last.err().unwrap().kind(), ErrorKind::ConnectionRefused);
            let socket = aio::UdpSocket::bind(client, any((addr, 0).into())).await.unwrap();
            socket.connect(&[any((addr, 0).into()), at][..]).await.unwrap();
            socket.send_to(b"x", at.to_string()).await.unwrap();
            no_addresses(socket.send_to(b"x", &[][..]).await);
            no_addresses(socket.connect(&[][..]).await);
        }
        no_addresses(aio::TcpListener::bind(&stacks.server, &[][..]).await);
        no_addresses(aio::TcpStream::connect(client, &[][..]).await);
        no_addresses(aio::UdpSocket::bind(client, &[][..]).await);
        for text in ["192.0.2.1", "192.0.2.1:none"] {
            let why = aio::TcpStream::connect(client, text).await.err().unwrap();
            assert_eq!(why.kind(), ErrorKind::InvalidInput, "{text}: {why}");
        }
    });
}

/// The resolver of the system, which has this name from a file.
fn a_name_is_resolved_by_the_system_in_both_faces() {
    const NAME: &str = "localhost";
    let stacks = Stacks::new();
    let unknown = |why: io::Error| assert_ne!(why.kind(), ErrorKind::InvalidInput, "{why}");
    if std::net::ToSocketAddrs::to_socket_addrs(&(NAME, 1)).is_err() {
        return harness::skip("the system does not resolve `localhost`");
    }
    // It is an address of the kernel's, and not of the stack.
    unknown(blocking::TcpListener::bind(&stacks.server, (NAME, 1)).err().unwrap());
    unknown(wait(aio::TcpListener::bind(&stacks.server, (NAME, 1))).err().unwrap());
    unknown(wait(aio::TcpListener::bind(&stacks.server, format!("{NAME}:1"))).err().unwrap());
}

/// Futures with addresses of any kind can be given to other threads.
fn futures_are_sent_whatever_their_address_is() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let stacks = Stacks::new();
    let why = wait(is_send(aio::TcpStream::connect(&stacks.client, FOREIGN))).err().unwrap();
    assert_eq!(why.kind(), ErrorKind::NetworkUnreachable);
    let socket = wait(is_send(aio::UdpSocket::bind(&stacks.client, "0.0.0.0:0".to_owned()))).unwrap();
    wait(is_send(socket.send_to(b"x", (IpAddr::from([192, 0, 2, 1]), 9)))).unwrap();
}

async fn echo(stacks: &Stacks, addr: IpAddr) -> [aio::TcpStream; 2] {
    let listener = aio::TcpListener::bind(&stacks.server, (addr, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(aio::TcpStream::connect(&stacks.client, at), listener.accept());
    [near.unwrap(), far.unwrap().0]
}

fn halves_of_a_connection_are_of_two_tasks_and_are_reunited() {
    const LEN: usize = 300_000;
    let stacks = Stacks::new();
    wait(async {
        for addr in stacks.addrs() {
            let [near, mut far] = echo(&stacks, addr).await;
            let at = near.peer_addr().unwrap();
            let (mut reads, mut writes) = near.into_split();
            let back = async {
                let (mut from, mut to) = far.split();
                tokio::io::copy(&mut from, &mut to).await.unwrap();
                to.shutdown().await.unwrap();
            };
            let here = async {
                let says = async {
                    writes.write_all(&vec![7; LEN]).await.unwrap();
                    writes
                };
                let hears = async {
                    let mut came = vec![0; LEN];
                    reads.read_exact(&mut came).await.unwrap();
                    assert!(came.iter().all(|byte| *byte == 7));
                    reads
                };
                let (writes, reads) = tokio::join!(says, hears);
                let mut whole = reads.reunite(writes).unwrap();
                assert_eq!(whole.peer_addr().unwrap(), at);
                // Reunited, it was not shut down.
                whole.write_all(b"x").await.unwrap();
                assert_eq!(whole.read_u8().await.unwrap(), b'x');
                let (mut reads, writes) = whole.into_split();
                // Dropped, a write half is the end of the stream.
                drop(writes);
                assert_eq!(reads.read(&mut [0; 8]).await.unwrap(), 0);
            };
            tokio::join!(back, here);
        }
    });
}

fn halves_of_different_connections_are_not_reunited() {
    let stacks = Stacks::new();
    wait(async {
        let [near, far] = echo(&stacks, stacks.addrs()[0]).await;
        let ((reads, writes), (other_reads, other_writes)) = (near.into_split(), far.into_split());
        let refused = reads.reunite(other_writes).unwrap_err();
        assert_eq!(refused.to_string(), "the halves are of different connections");
        // They are given back as they were.
        let mut far = other_reads.reunite(refused.1).unwrap();
        let mut near = writes.reunite(refused.0).unwrap();
        near.write_all(b"x").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'x');
        let (reads, writes) = near.into_split();
        writes.forget();
        drop(far);
        let mut reads = reads;
        assert_eq!(reads.read(&mut [0; 8]).await.unwrap(), 0);
    });
}

fn a_socket_of_a_thread_is_configured_before_it_listens_or_connects() {
    const SECOND: Duration = Duration::from_secs(1);
    let stacks = Stacks::new();
    for addr in stacks.addrs() {
        let new = if addr.is_ipv4() { blocking::TcpSocket::new_v4 } else { blocking::TcpSocket::new_v6 };
        let server = new(&stacks.server).unwrap();
        server.set_recv_buffer_size(100_000).unwrap();
        server.set_reuseport(true).unwrap();
        server.bind((addr, 0).into()).unwrap();
        let listener = server.listen(8).unwrap();
        let at = listener.local_addr().unwrap();
        let again = new(&stacks.server).unwrap();
        again.bind(at).unwrap();
        assert_eq!(again.listen(8).err().unwrap().kind(), ErrorKind::AddrInUse, "it does not share");

        let client = new(&stacks.client).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_ttl(9).unwrap();
        client.set_keepalive(Some(KeepAlive { idle: SECOND, interval: SECOND, count: 3 })).unwrap();
        client.bind(SocketAddr::new(any((addr, 0).into()).ip(), 4711)).unwrap();
        assert_eq!(client.local_addr().unwrap().port(), 4711);
        let mut near = client.connect(at).unwrap();
        assert_eq!((near.nodelay().unwrap(), near.ttl().unwrap()), (true, 9));
        let (mut far, peer) = listener.accept().unwrap();
        assert_eq!((peer, peer.port()), (near.local_addr().unwrap(), 4711));
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
    }
    let [four, six] = stacks.addrs().map(|addr| SocketAddr::new(addr, 1));
    let wrong = blocking::TcpSocket::new_v4(&stacks.client).unwrap();
    assert_eq!(wrong.bind(six).unwrap_err().raw_os_error(), Some(97), "EAFNOSUPPORT");
    assert_eq!(wrong.connect(six).err().unwrap().raw_os_error(), Some(97));
    let wrong = blocking::TcpSocket::new_v6(&stacks.client).unwrap();
    assert_eq!(wrong.connect(four).err().unwrap().raw_os_error(), Some(97));
}

fn a_socket_of_a_task_is_configured_before_it_listens_or_connects() {
    let stacks = Stacks::new();
    wait(async {
        for addr in stacks.addrs() {
            let new = if addr.is_ipv4() { aio::TcpSocket::new_v4 } else { aio::TcpSocket::new_v6 };
            let server = new(&stacks.server).unwrap();
            server.set_send_buffer_size(100_000).unwrap();
            server.bind((addr, 0).into()).unwrap();
            let listener = server.listen(8).await.unwrap();
            let client = new(&stacks.client).unwrap();
            client.set_nodelay(true).unwrap();
            client.set_tos(0x20).unwrap();
            let near = client.connect(listener.local_addr().unwrap()).await.unwrap();
            assert_eq!((near.nodelay().unwrap(), near.tos().unwrap()), (true, 0x20));
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer, near.local_addr().unwrap());
        }
    });
}

harness::tests![
    threads_give_addresses_as_text_as_pairs_and_in_slices_of_which_each_is_tried,
    tasks_give_addresses_as_text_as_pairs_and_in_slices_of_which_each_is_tried,
    a_name_is_resolved_by_the_system_in_both_faces,
    futures_are_sent_whatever_their_address_is,
    halves_of_a_connection_are_of_two_tasks_and_are_reunited,
    halves_of_different_connections_are_not_reunited,
    a_socket_of_a_thread_is_configured_before_it_listens_or_connects,
    a_socket_of_a_task_is_configured_before_it_listens_or_connects,
];
