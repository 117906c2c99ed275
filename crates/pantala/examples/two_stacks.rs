//! Two stacks in one process, and a wire in memory between them: no rights are needed, and nothing of the machine is
//! touched. A program on the netisr of one asks the echo service on the netisr of the other.
//!
//! cargo run --example two_stacks

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::mpsc::{Sender, channel};

use pantala::net::app::services::{Kind, Service};
use pantala::net::app::{App, AppContext, Handle};
use pantala::net::sock;
use pantala::net::tcp::settings::Settings;
use pantala::net::tcp::{self, Connect};
use pantala::{Interface, Stack, mem};

const WORDS: &[u8] = b"the wandering glider flies farthest";

/// Connects, says the words, and passes on what comes back.
struct Caller {
    server: SocketAddr,
    heard: Sender<Vec<u8>>,
}

impl App for Caller {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), sock::Error> {
        cx.connect(&Connect::to(self.server), 0).map(drop)
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        let _ = tcp::send(cx.cpu, conn.id, WORDS);
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        let mut bytes = vec![0; WORDS.len()];
        if let Ok(count) = tcp::read(cx.cpu, conn.id, &mut bytes) {
            let _ = self.heard.send(bytes[..count].to_vec());
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let [one_end, other_end] = mem::wire(1)?;
    let server =
        Stack::builder().threads(1).interface(Interface::mem(one_end).address("2001:db8::1/64")).start()?;
    let client =
        Stack::builder().threads(1).interface(Interface::mem(other_end).address("2001:db8::2/64")).start()?;

    let everywhere = "[::]:7".parse()?;
    server.begin_on_all(|| Service::new(Kind::Echo, everywhere, Settings::default()))?;
    let (heard, answer) = channel();
    client.begin(0, Box::new(Caller { server: "[2001:db8::1]:7".parse()?, heard }))?;

    let answer = answer.recv_timeout(Duration::from_secs(10))?;
    println!("{}", String::from_utf8_lossy(&answer));
    assert_eq!(answer, WORDS);
    client.stop()?;
    Ok(server.stop()?)
}
