//! Two stacks with a wire between them, and a program that asks the echo service of the other.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};

use pantala::net::app::services::{Kind, Service};
use pantala::net::app::{App, AppContext, Handle};
use pantala::net::sock::Error;
use pantala::net::tcp::settings::Settings;
use pantala::net::tcp::{self, Connect};
use pantala::{Interface, Stack, mem};

/// Longest time without progress before the test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Where the server is, and the client.
pub(crate) const SERVER: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const CLIENT: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const PORT: u16 = 7;

/// Says so many bytes to an echo, and tells whether they came back as they were said.
pub(crate) struct Caller {
    server: SocketAddr,
    said: usize,
    heard: usize,
    bytes: usize,
    tell: Sender<bool>,
}

/// An echo service on each of so many CPUs, and a stack beside it.
pub(crate) fn pair(cpus: [usize; 2]) -> [Stack; 2] {
    let [one, other] = mem::wire(2).unwrap();
    let server = start(cpus[0], one, SERVER);
    server.begin_on_all(echo).unwrap();
    [server, start(cpus[1], other, CLIENT)]
}

pub(crate) fn echo() -> Service {
    Service::new(Kind::Echo, SocketAddr::new(IpAddr::from([0; 16]), PORT), Settings::default())
}

fn start(cpus: usize, end: mem::End, addresses: [&str; 2]) -> Stack {
    let [v4, v6] = addresses;
    let lan = Interface::mem(end).name("lan").address(format!("{v4}/24")).address(format!("{v6}/64"));
    Stack::builder().threads(cpus).interface(lan).start().unwrap()
}

impl Caller {
    pub(crate) fn new(server: &str, bytes: usize) -> (Self, Receiver<bool>) {
        let (tell, told) = channel();
        let server = SocketAddr::new(server.parse().unwrap(), PORT);
        (Self { server, said: 0, heard: 0, bytes, tell }, told)
    }

    /// Says as much as there is room for.
    fn say(&mut self, cx: &mut AppContext<'_>, conn: tcp::Id) {
        while self.said < self.bytes {
            let piece: Vec<u8> = (self.said..self.bytes).take(16_384).map(byte).collect();
            match tcp::send(cx.cpu, conn, &piece) {
                Ok(sent) => self.said += sent,
                Err(_) => return,
            }
        }
    }

    fn tell(&self, is_right: bool) {
        // The caller may not wait any more.
        let _ = self.tell.send(is_right);
    }
}

impl App for Caller {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        cx.connect(&Connect::to(self.server), 0).map(drop)
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.say(cx, conn.id);
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        let mut bytes = vec![0; 65_536];
        while let Ok(count @ 1..) = tcp::read(cx.cpu, conn.id, &mut bytes) {
            let is_right = (self.heard..).map(byte).zip(&bytes[..count]).all(|(said, heard)| said == *heard);
            self.heard += count;
            if !is_right || self.heard == self.bytes {
                self.tell(is_right);
            }
        }
    }

    fn closed(&mut self, _: &mut AppContext<'_>, _: Handle<tcp::Id>, _: Option<Error>) {
        self.tell(false);
    }
}

fn byte(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap_or(0)
}

/// Whether so many bytes go to a server and back, from this CPU of a stack.
pub(crate) fn is_heard(stack: &Stack, cpu: usize, server: &str, bytes: usize) -> bool {
    let (caller, told) = Caller::new(server, bytes);
    stack.begin(cpu, Box::new(caller)).unwrap();
    told.recv_timeout(PATIENCE).unwrap_or(false)
}
