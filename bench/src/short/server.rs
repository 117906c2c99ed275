//! The server.

use core::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use net::app::{App, AppContext, Handle};
use net::sock::Error;
use net::tcp::{self, Accepted, Id, Listen};
#[cfg(feature = "web")]
use pantala::serve::Web;

use super::stream::PIECE;
use super::{ANSWER, Behind, QUESTION};

/// The server's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// [`Server`], which does as little as a server can.
    Least,
    /// The web server that users run, asked for a file of a kilobyte.
    Web,
    /// One that answers with [`PIECE`] bytes.
    Stream,
}

/// The request of [`Serves::Web`], and the least length of its response: that of the file.
const GET: &[u8] = b"GET /file HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
const GET_AND_STAY: &[u8] = b"GET /file HTTP/1.1\r\nHost: bench\r\n\r\n";
const FILE: usize = 1024;

impl Serves {
    /// Returns the request, and the length of the response.
    pub(super) const fn talk(self, behind: Behind) -> (&'static [u8], usize) {
        match (self, behind) {
            (Self::Least, _) => (&[b'q'; QUESTION], ANSWER),
            (Self::Web, Behind::Close) => (GET, FILE),
            (Self::Web, Behind::Ask | Behind::Rest) => (GET_AND_STAY, FILE),
            (Self::Stream, _) => (&[b'q'; QUESTION], PIECE),
        }
    }
}

/// The web server of one CPU, which has the file.
#[cfg(feature = "web")]
pub(super) fn web(addr: SocketAddr) -> Result<Box<dyn App>> {
    Ok(Box::new(Web::of_pages(addr, &[("file", &[b'a'; FILE])])))
}

/// Where it was left out, for what is built without `pantala`.
#[cfg(not(feature = "web"))]
pub(super) fn web(_: SocketAddr) -> Result<Box<dyn App>> {
    anyhow::bail!("built without the web server: --features web")
}

/// A server on one CPU.
pub struct Server {
    listen: Listen,
    behind: Behind,
    answer: Arc<[u8]>,
}

impl Server {
    /// Waits as `listen` says.
    #[must_use]
    pub fn new(listen: Listen, behind: Behind) -> Self {
        Self { listen, behind, answer: [b'a'; ANSWER].into() }
    }
}

impl App for Server {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        cx.listen(&self.listen, 0).map(|_| ())
    }

    fn accepted(&mut self, _: &mut AppContext<'_>, _: u32, _: Accepted) -> u32 {
        0
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let asked = tcp::read_in_place(cx.cpu, conn.id, |[first, second]| {
            let is_whole = first.len() + second.len() >= QUESTION;
            (if is_whole { QUESTION } else { 0 }, is_whole)
        });
        let answered = match asked {
            Ok(Some(true)) => tcp::send_shared(cx.cpu, conn.id, &self.answer).is_ok(),
            Ok(Some(false)) => return,
            Ok(None) | Err(_) => false,
        };
        if !answered || self.behind == Behind::Close {
            // What has ended meanwhile needs no closing.
            let _ = tcp::close(cx.cpu, conn.id);
        }
    }
}
