//! Who answers.

use net::program::{Desk, Handle, Program};
use net::sock::Error;
use net::tcp::{self, Accepted, Id, Listen};

use super::{ANSWER, Behind, QUESTION};

/// A server on one CPU.
pub struct Server {
    listen: Listen,
    behind: Behind,
    answer: Box<[u8; ANSWER]>,
}

impl Server {
    /// Waits as `listen` says.
    #[must_use]
    pub fn new(listen: Listen, behind: Behind) -> Self {
        Self { listen, behind, answer: Box::new([b'a'; ANSWER]) }
    }
}

impl Program for Server {
    fn begin(&mut self, desk: &mut Desk<'_>) -> Result<(), Error> {
        desk.listen(&self.listen, 0).map(|_| ())
    }

    fn accepted(&mut self, _: &mut Desk<'_>, _: u32, _: Accepted) -> u32 {
        0
    }

    fn readable(&mut self, desk: &mut Desk<'_>, conn: Handle<Id>) {
        let asked = tcp::read_in_place(desk.cpu, conn.id, |[first, second]| {
            let is_whole = first.len() + second.len() >= QUESTION;
            (if is_whole { QUESTION } else { 0 }, is_whole)
        });
        let answered = match asked {
            Ok(Some(true)) => tcp::send(desk.cpu, conn.id, &*self.answer).is_ok(),
            Ok(Some(false)) => return,
            Ok(None) | Err(_) => false,
        };
        if !answered || self.behind == Behind::Close {
            // What has ended meanwhile needs no closing.
            let _ = tcp::close(desk.cpu, conn.id);
        }
    }
}
