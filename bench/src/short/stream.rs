//! A server that always has more to send: one stream at full rate.

use net::app::{App, AppContext, Handle};
use net::sock::Error;
use net::tcp::{self, Accepted, Id, Listen};

use super::QUESTION;

/// Bytes of an answer.
pub const PIECE: usize = 16 << 20;
/// Bytes that the program hands over at once.
const HANDFUL: usize = 64 << 10;

/// A server of one connection on one CPU.
pub(super) struct Stream {
    listen: Listen,
    handful: Box<[u8]>,
    /// Bytes of the answer that are not handed over.
    left: usize,
}

impl Stream {
    /// Waits as `listen` says.
    pub(super) fn new(listen: Listen) -> Self {
        Self { listen, handful: vec![b'a'; HANDFUL].into(), left: 0 }
    }

    fn pour(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        while self.left > 0
            && let Ok(sent) = tcp::send(cx.cpu, conn.id, &self.handful[..self.left.min(HANDFUL)])
        {
            self.left -= sent;
        }
    }
}

impl App for Stream {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        cx.listen(&self.listen, 0).map(|_| ())
    }

    fn accepted(&mut self, _: &mut AppContext<'_>, _: u32, _: Accepted) -> u32 {
        0
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let mut question = [0; QUESTION];
        // A question comes in one piece.
        if matches!(tcp::read(cx.cpu, conn.id, &mut question), Ok(QUESTION)) {
            self.left += PIECE;
            self.pour(cx, conn);
        } else {
            // What has ended meanwhile needs no closing.
            let _ = tcp::close(cx.cpu, conn.id);
        }
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        self.pour(cx, conn);
    }
}
