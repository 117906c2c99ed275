//! `ping` from the running stack.
//!
//! The netisr to which the replies come sends the requests and passes replies on. The end of a ping is not announced:
//! its receiver is gone then, which is looked for when the next request is sent.

mod icmp_text;

use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use net::cpu::CpuId;
use net::ping::{self, Event, Request};
use tokio::sync::mpsc;

use super::super::control::Control;
use crate::api::stack::{Echo, EchoAnswer, EchoAnswerKind};
use crate::api::{Error, ErrorKind};

/// Default TTL, or hop limit.
const TTL: u8 = 64;

/// A ping that a netisr listens for.
pub(in super::super) struct Running {
    cpu: CpuId,
    ident: u16,
    to: IpAddr,
    answers: mpsc::Sender<EchoAnswer>,
    /// The request that was sent last; 16 bits of it are on the wire.
    last: Arc<AtomicU32>,
}

impl Control {
    pub(super) fn send_echo(&mut self, echo: &Echo, answers: mpsc::Sender<EchoAnswer>) -> Result<(), Error> {
        self.forget_ended_pings()?;
        let (to, source, fib) = (echo.to, echo.source, echo.fib);
        self.check_fib(fib)?;
        let source = self.cpus.call(0, move |netisr| ping::source(&netisr.cpu, to, source, None, fib))?;
        let source = source.map_err(|why| explained(&why))?;
        self.listen(source.cpu, echo, answers)?.store(echo.seq, Ordering::Relaxed);
        let request = Request {
            dst: to,
            src: source.src,
            outif: None,
            ident: echo.ident,
            seq: low_bits(echo.seq),
            payload_len: echo.bytes,
            ttl: echo.ttl.unwrap_or(TTL),
            dont_fragment: echo.dont_fragment,
            fib,
        };
        let sent = self.cpus.call(source.cpu.index(), move |netisr| ping::send(&mut netisr.cpu, &request))?;
        sent.map_err(|why| explained(&why))
    }

    /// Lets CPU `cpu` pass answers on, if it does not yet; the result is where to say which request is the last.
    fn listen(
        &mut self,
        cpu: CpuId,
        echo: &Echo,
        answers: mpsc::Sender<EchoAnswer>,
    ) -> Result<Arc<AtomicU32>, Error> {
        let (ident, to) = (echo.ident, echo.to);
        let same = |ping: &&Running| (ping.cpu, ping.ident, ping.to) == (cpu, ident, to);
        if let Some(running) = self.pings.iter().find(same) {
            return Ok(Arc::clone(&running.last));
        }
        let last = Arc::new(AtomicU32::new(echo.seq));
        let sink = sink(answers.clone(), Arc::clone(&last));
        let registered =
            self.cpus.call(cpu.index(), move |netisr| ping::register(&mut netisr.cpu, ident, to, sink))?;
        registered.map_err(|why| explained(&why))?;
        self.pings.push(Running { cpu, ident, to, answers, last: Arc::clone(&last) });
        Ok(last)
    }

    fn forget_ended_pings(&mut self) -> Result<(), Error> {
        let ended: Vec<Running> = self.pings.extract_if(.., |ping| ping.answers.is_closed()).collect();
        for Running { cpu, ident, to, .. } in ended {
            self.cpus.call(cpu.index(), move |netisr| ping::unregister(&mut netisr.cpu, ident, to))?;
        }
        Ok(())
    }
}

/// Runs on the netisr. A reader that is too slow loses replies.
fn sink(answers: mpsc::Sender<EchoAnswer>, last: Arc<AtomicU32>) -> ping::Sink {
    Box::new(move |event| {
        if let Some(answer) = answer(&event, last.load(Ordering::Relaxed)) {
            let _ = answers.try_send(answer);
        }
    })
}

fn answer(event: &Event, last: u32) -> Option<EchoAnswer> {
    match *event {
        Event::Reply { from, seq, ttl, len, rtt, .. } => {
            let bytes = u32::try_from(len).unwrap_or(u32::MAX);
            let kind = EchoAnswerKind::Reply { bytes, ttl, rtt: rtt.unwrap_or_default() };
            Some(EchoAnswer { seq: whole(seq, last), from, kind })
        }
        Event::Error { from, seq, message } => {
            let kind = EchoAnswerKind::Unreachable(icmp_text::of(message));
            Some(EchoAnswer { seq: whole(seq, last), from, kind })
        }
        _ => None,
    }
}

fn low_bits(seq: u32) -> u16 {
    u16::try_from(seq & 0xffff).unwrap_or(0)
}

/// The whole sequence number: of those with these low bits, the latest that has been sent.
fn whole(seq: u16, last: u32) -> u32 {
    last.wrapping_sub(u32::from(low_bits(last).wrapping_sub(seq)))
}

fn explained(why: &ping::Error) -> Error {
    let kind = match why {
        ping::Error::Unreachable => ErrorKind::NotFound,
        ping::Error::NoBuffer | ping::Error::TooMany => ErrorKind::Busy,
        ping::Error::BadSource | ping::Error::TooLong | ping::Error::TooBig { .. } => ErrorKind::Invalid,
        _ => ErrorKind::Failed,
    };
    Error::new(kind, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_go_on_beyond_the_16_bits_of_the_wire() {
        for (last, seq, is) in [(5, 5, 5), (5, 3, 3), (0x1_0002, 2, 0x1_0002), (0x1_0002, 0xffff, 0xffff)] {
            assert_eq!(whole(seq, last), is);
        }
    }
}
