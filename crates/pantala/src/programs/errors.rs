//! Errors of datagrams, as Linux tells them: the error of the socket, which the next call reports, and a queue with all of them for
//! programs that ask for it (`IP_RECVERR`, `MSG_ERRQUEUE`).

use std::collections::VecDeque;

use net::sock::Error;
use net::udp::Failure;
use rustix::io::Errno;
use wire::program::{Icmp, QUOTE_MAX, Report};

// What the stack keeps has room in a reply.
const _: () = assert!(net::udp::QUOTE_MAX <= QUOTE_MAX);

/// Errors that wait in the queue of a socket.
pub(super) const QUEUE_MAX: usize = 16;

/// Types of ICMP messages.
const UNREACHABLE: u8 = 3;
const PROBLEM: u8 = 12;
const UNREACHABLE_V6: u8 = 1;
const PROBLEM_V6: u8 = 4;

/// The errors of a socket that were not told yet.
#[derive(Default)]
pub(super) struct Errors {
    /// The error of the socket; 0: none.
    pending: i32,
    /// Each with the bytes of its datagram, as far as an ICMP error quotes them.
    queue: VecDeque<(Report, Vec<u8>)>,
}

impl Errors {
    /// Notes an error; false: the queue is full, and its details are lost.
    pub(super) fn note(&mut self, report: Report, quote: &[u8], is_queued: bool) -> bool {
        self.pending = report.error;
        !is_queued || self.queue(report, quote)
    }

    /// Puts a report into the queue alone; false: it is full.
    pub(super) fn queue(&mut self, report: Report, quote: &[u8]) -> bool {
        let has_room = self.queue.len() < QUEUE_MAX;
        if has_room {
            self.queue.push_back((report, quote.get(..QUOTE_MAX).unwrap_or(quote).to_vec()));
        }
        has_room
    }

    /// Notes the error of a call.
    pub(super) const fn fail(&mut self, error: i32) {
        self.pending = error;
    }

    /// Takes the error of the socket; 0: there is none.
    pub(super) const fn take(&mut self) -> i32 {
        core::mem::replace(&mut self.pending, 0)
    }

    /// Takes the first of the queue. The error of the socket is that of the next one.
    pub(super) fn next(&mut self) -> Option<(Report, Vec<u8>)> {
        let first = self.queue.pop_front()?;
        self.pending = self.queue.front().map_or(0, |(report, _)| report.error);
        Some(first)
    }

    /// The error that the program is to be told of; 0: there is none.
    pub(super) fn first(&self) -> i32 {
        self.queue.front().map_or(self.pending, |(report, _)| report.error)
    }
}

/// The report of a datagram that did not arrive, and whether it is one that ends what a socket with a peer does. Those that do not
/// are for programs that ask for all.
pub(super) fn report(failure: &Failure) -> (Report, bool) {
    let Failure { to, error, icmp } = *failure;
    let (why, is_hard) = match icmp {
        Some(icmp) => of_icmp(icmp),
        None => (Errno::from_io_error(&crate::sockets::io_error(error)).unwrap_or(Errno::IO), true),
    };
    let mtu = if let Error::TooBig { mtu } = error { mtu } else { 0 };
    let info = icmp.map_or(mtu, |icmp| icmp.info.max(mtu));
    let icmp = icmp.map(|net::udp::Icmp { from, kind, code, .. }| Icmp { from, kind, code });
    (Report { to, error: why.raw_os_error(), info, icmp }, is_hard)
}

/// Returns the error of an ICMP message, and whether it is a hard one, as the tables of Linux have it.
fn of_icmp(icmp: net::udp::Icmp) -> (Errno, bool) {
    let net::udp::Icmp { from, kind, code, .. } = icmp;
    match (from.is_ipv4(), kind, code) {
        (true, UNREACHABLE, 0 | 11) => (Errno::NETUNREACH, false),
        (true, UNREACHABLE, 1 | 12) => (Errno::HOSTUNREACH, false),
        (true, UNREACHABLE, 2) => (Errno::NOPROTOOPT, true),
        (true, UNREACHABLE, 3) | (false, UNREACHABLE_V6, 4) => (Errno::CONNREFUSED, true),
        (true, UNREACHABLE, 4) | (false, 2, _) => (Errno::MSGSIZE, true),
        (true, UNREACHABLE, 5) => (Errno::OPNOTSUPP, false),
        (true, UNREACHABLE, 6 | 9) => (Errno::NETUNREACH, true),
        (true, UNREACHABLE, 7) => (Errno::HOSTDOWN, true),
        (true, UNREACHABLE, 8) => (Errno::NONET, true),
        (true, UNREACHABLE, _) => (Errno::HOSTUNREACH, true),
        (false, UNREACHABLE_V6, 0) => (Errno::NETUNREACH, false),
        (false, UNREACHABLE_V6, 1 | 5 | 6) => (Errno::ACCESS, true),
        (true, PROBLEM, _) | (false, PROBLEM_V6, _) => (Errno::PROTO, true),
        _ => (Errno::HOSTUNREACH, false),
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    fn failure(from: &str, kind: u8, code: u8, info: u32) -> Failure {
        let from: IpAddr = from.parse().unwrap();
        let icmp = Some(net::udp::Icmp { from, kind, code, info });
        Failure { to: (from, 7).into(), error: Error::HostUnreachable, icmp }
    }

    #[test]
    fn an_icmp_message_is_the_error_that_linux_has_for_it() {
        for (from, kind, code, error, is_hard) in [
            ("192.0.2.1", 3, 0, Errno::NETUNREACH, false),
            ("192.0.2.1", 3, 3, Errno::CONNREFUSED, true),
            ("192.0.2.1", 3, 4, Errno::MSGSIZE, true),
            ("192.0.2.1", 3, 13, Errno::HOSTUNREACH, true),
            ("192.0.2.1", 11, 0, Errno::HOSTUNREACH, false),
            ("192.0.2.1", 12, 0, Errno::PROTO, true),
            ("2001:db8::1", 1, 0, Errno::NETUNREACH, false),
            ("2001:db8::1", 1, 1, Errno::ACCESS, true),
            ("2001:db8::1", 1, 3, Errno::HOSTUNREACH, false),
            ("2001:db8::1", 1, 4, Errno::CONNREFUSED, true),
            ("2001:db8::1", 2, 0, Errno::MSGSIZE, true),
            ("2001:db8::1", 3, 0, Errno::HOSTUNREACH, false),
            ("2001:db8::1", 4, 1, Errno::PROTO, true),
        ] {
            let (report, hard) = report(&failure(from, kind, code, 5));
            let expected = (error.raw_os_error(), is_hard, 5);
            assert_eq!((report.error, hard, report.info), expected, "{from} {kind} {code}");
        }
        let local =
            Failure { to: ([192, 0, 2, 1], 7).into(), error: Error::TooBig { mtu: 1500 }, icmp: None };
        let (report, is_hard) = report(&local);
        assert_eq!((report.error, report.info, report.icmp), (Errno::MSGSIZE.raw_os_error(), 1500, None));
        assert!(is_hard);
    }

    #[test]
    fn a_queue_of_errors_is_bounded_and_the_error_of_the_socket_is_that_of_its_first() {
        let mut errors = Errors::default();
        assert_eq!((errors.take(), errors.next()), (0, None));
        for n in 0..2 * u32::try_from(QUEUE_MAX).unwrap() {
            let has_room = errors.note(report(&failure("192.0.2.1", 3, 3, n)).0, &[7; 2 * QUOTE_MAX], true);
            assert_eq!(has_room, n < u32::try_from(QUEUE_MAX).unwrap());
        }
        let refused = Errno::CONNREFUSED.raw_os_error();
        assert_eq!((errors.take(), errors.take(), errors.first()), (refused, 0, refused));
        for n in 0..u32::try_from(QUEUE_MAX).unwrap() {
            let (report, quote) = errors.next().unwrap();
            assert_eq!((report.info, quote.len()), (n, QUOTE_MAX), "the first ones are kept");
        }
        assert_eq!((errors.next(), errors.first()), (None, 0));
        assert!(errors.note(report(&failure("192.0.2.1", 3, 3, 0)).0, &[], false), "it is in no queue");
        assert_eq!((errors.next(), errors.take()), (None, refused));
    }
}
