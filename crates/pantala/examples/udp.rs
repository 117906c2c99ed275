//! UDP as threads know it: a server on one stack, a client on another, a wire in memory between them. And a group, to which
//! both listen.
//!
//! cargo run --example udp

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use pantala::sockets::blocking::UdpSocket;
use pantala::{Interface, Stack, mem};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let [one_end, other_end] = mem::wire(1)?;
    let server =
        Stack::builder().threads(1).interface(Interface::mem(one_end).address("192.0.2.1/24")).start()?;
    let client =
        Stack::builder().threads(1).interface(Interface::mem(other_end).address("192.0.2.2/24")).start()?;
    let (here, there) = (server.sockets()?, client.sockets()?);

    // An answer for each question, from a thread of its own.
    let answers = UdpSocket::bind(&here, "192.0.2.1:5300")?;
    let listens = answers.try_clone()?;
    std::thread::spawn(move || {
        let mut bytes = [0; 1500];
        while let Ok((count, from)) = listens.recv_from(&mut bytes) {
            let _ = listens.send_to(&bytes[..count].to_ascii_uppercase(), from);
        }
    });

    // A connected socket receives from its peer only, and gets an error when no socket is there.
    let asks = UdpSocket::bind(&there, "0.0.0.0:0")?;
    asks.connect("192.0.2.1:5300")?;
    asks.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut bytes = [0; 1500];
    asks.send(b"who is there?")?;
    let count = asks.recv(&mut bytes)?;
    println!("{}", String::from_utf8_lossy(&bytes[..count]));
    assert_eq!(&bytes[..count], b"WHO IS THERE?");

    asks.connect("192.0.2.1:5301")?;
    asks.send(b"and here?")?;
    let why = asks.recv(&mut bytes).err().ok_or("nobody is there")?;
    println!("port 5301: {why}");
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionRefused);

    // A member of a group receives what any host sends to it.
    let hears = UdpSocket::bind(&here, "0.0.0.0:7777")?;
    hears.join_multicast_v4(&GROUP, &Ipv4Addr::UNSPECIFIED)?;
    hears.set_read_timeout(Some(Duration::from_secs(10)))?;
    UdpSocket::bind(&there, "0.0.0.0:0")?.send_to(b"to all of you", SocketAddr::from((GROUP, 7777)))?;
    let (count, from) = hears.recv_from(&mut bytes)?;
    println!("{from} to {GROUP}: {}", String::from_utf8_lossy(&bytes[..count]));
    assert_eq!(&bytes[..count], b"to all of you");

    client.stop()?;
    Ok(server.stop()?)
}
