//! Commands on lanes of datagrams.

use core::net::{IpAddr, SocketAddr};

use super::conn::Stage;
use super::record::{Bind, Event, Question};
use super::server::{Channel, Wrong};
use super::socket::Socket;
use crate::host::app::AppContext;
use crate::host::sock::Error;
use crate::host::udp;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

impl Channel {
    /// Waits for datagrams.
    pub(super) fn bind(
        &mut self,
        cx: &mut AppContext<'_>,
        question: Question,
        place: Bind,
    ) -> Result<(), Wrong> {
        let conn = self.lane(cx, question.lane)?;
        if !matches!(conn.stage, Stage::Prepared(_)) {
            return Err(Wrong);
        }
        let bound = Socket::bind(cx.cpu, place).map(|socket| {
            let (at, id) = (socket.place(), socket.id);
            conn.stage = Stage::Socket(Box::new(socket));
            id.into_iter().for_each(|id| cx.hold(id, question.lane));
            at
        });
        self.answer(Event::Answer(question, bound));
        if bound.is_err() {
            return Ok(());
        }
        // From now on it waits for what the program writes.
        self.look_at_socket(cx, question.lane)
    }

    /// Speaks with one other end, if that is on this CPU.
    pub(super) fn speak(
        &mut self,
        cx: &mut AppContext<'_>,
        question: Question,
        remote: SocketAddr,
        zone: IfIndex,
    ) -> Result<(), Wrong> {
        // What has come before is not lost.
        self.exchange(cx, question.lane)?;
        let socket = self.socket(question.lane)?;
        let spoken = socket.speak(cx.cpu, remote, zone).and_then(|before| {
            before.into_iter().for_each(|id| close(cx, id));
            let id = socket.id.ok_or(Error::NotFound)?;
            cx.hold(id, question.lane);
            udp::local(cx.cpu, id).ok_or(Error::NotFound)
        });
        self.answer(Event::Answer(question, spoken));
        self.look_at_socket(cx, question.lane)
    }

    /// The lane moves to another CPU.
    pub(super) fn vacate(&mut self, cx: &mut AppContext<'_>, question: Question) -> Result<(), Wrong> {
        self.exchange(cx, question.lane)?;
        let socket = self.socket(question.lane)?;
        socket.id.take().into_iter().for_each(|id| close(cx, id));
        let at = socket.place();
        self.answer(Event::Answer(question, Ok(at)));
        self.has_news(question.lane);
        Ok(())
    }

    /// Keeps a sender for the source filter that is set next.
    pub(super) fn name_sender(&mut self, lane: u32, sender: IpAddr) -> Result<(), Wrong> {
        self.socket(lane)?.name(sender);
        Ok(())
    }

    /// Does something to the socket of a lane, and says what became of it. What was written before goes first.
    pub(super) fn change_socket(
        &mut self,
        cx: &mut AppContext<'_>,
        question: Question,
        what: impl FnOnce(&mut Socket, &mut Cpu) -> Result<(), Error>,
    ) -> Result<(), Wrong> {
        self.exchange(cx, question.lane)?;
        let socket = self.socket(question.lane)?;
        let (done, at) = (what(socket, cx.cpu), socket.place());
        self.answer(Event::Answer(question, done.map(|()| at)));
        self.look_at_socket(cx, question.lane)
    }

    /// Moves what can be moved on a lane of datagrams.
    pub(super) fn look_at_socket(&mut self, cx: &mut AppContext<'_>, lane: u32) -> Result<(), Wrong> {
        let more = self.exchange(cx, lane)?;
        let id = self.socket(lane)?.id;
        let is_closing = self.conn(lane).is_some_and(|conn| conn.is_closing);
        match id {
            // Others on this CPU wait.
            Some(id) if more => cx.again_at(id),
            _ if is_closing => {
                id.into_iter().for_each(|id| close(cx, id));
                self.leave(lane);
                return Ok(());
            }
            _ => {}
        }
        self.has_news(lane);
        Ok(())
    }

    /// The socket of a lane, which has one.
    fn socket(&mut self, lane: u32) -> Result<&mut Socket, Wrong> {
        match self.conn(lane).map(|conn| &mut conn.stage) {
            Some(Stage::Socket(socket)) => Ok(socket),
            _ => Err(Wrong),
        }
    }
}

fn close(cx: &mut AppContext<'_>, id: udp::Id) {
    // It was there a moment ago.
    let _ = udp::close(cx.cpu, id);
}
