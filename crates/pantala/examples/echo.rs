//! Echo on the netisr: a program that lives where its packets are, and is called when something has happened. Nothing is
//! handed to another thread, and no thread is woken. The kernel of this machine talks to it over a TAP, which needs root, or
//! a network of one's own:
//!
//! unshare -rn cargo run --example echo

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use core::net::SocketAddr;
use std::io::{Read, Write};
use std::net::TcpStream;

use pantala::dev::netlink::Rtnetlink;
use pantala::net::app::{App, AppContext, Handle};
use pantala::net::sock;
use pantala::net::tcp::{self, Accepted, Listen};
use pantala::{Interface, Stack};

struct Echo {
    at: SocketAddr,
    bytes: Vec<u8>,
}

impl App for Echo {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), sock::Error> {
        cx.listen(&Listen::at(self.at), 0).map(drop)
    }

    /// Connections need no names here: all are alike.
    fn accepted(&mut self, _: &mut AppContext<'_>, _: u32, _: Accepted) -> u32 {
        0
    }

    /// Sends back what has come, as much as there is room for. What stays is looked at when there is room again.
    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        while let Ok(come) = tcp::peek(cx.cpu, conn.id, &mut self.bytes) {
            if come == 0 {
                let _ = tcp::close(cx.cpu, conn.id);
                return;
            }
            let Ok(sent) = tcp::send(cx.cpu, conn.id, &self.bytes[..come]) else { return };
            let _ = tcp::read_in_place(cx.cpu, conn.id, |_| (sent, ()));
        }
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.readable(cx, conn);
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let tap = Interface::tap("pt-echo").address("10.71.1.1/24");
    let stack = Stack::builder().threads(2).interface(tap).start()?;
    // One on each CPU: a connection is accepted where its packets come.
    let at = "[::]:7".parse()?;
    stack.begin_on_all(|| Echo { at, bytes: vec![0; 65_536] })?;

    // The other end of the TAP is an interface of the kernel.
    Rtnetlink::open()?.add_address("pt-echo", "10.71.1.2/24".parse()?)?;
    let mut kernel = TcpStream::connect("10.71.1.1:7")?;
    let said: Vec<u8> = (0..251).cycle().take(1_000_000).collect();
    let mut heard = vec![0; said.len()];
    let mut mouth = kernel.try_clone()?;
    std::thread::scope(|scope| {
        scope.spawn(|| mouth.write_all(&said));
        kernel.read_exact(&mut heard)
    })?;
    assert_eq!(heard, said);
    println!("{} bytes came back as they were sent", heard.len());
    Ok(stack.stop()?)
}
