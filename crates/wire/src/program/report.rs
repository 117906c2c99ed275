//! A report of a datagram that did not arrive, as the queue of errors of a socket has it.

use core::net::{IpAddr, SocketAddr};

use super::{ADDR_LEN, Put, Take};

/// Bytes of a report.
pub const REPORT_LEN: usize = ADDR_LEN + 4 + 4 + 1 + 1 + 1 + 17;

/// Bytes of a datagram behind its report at the most: what an ICMP error of IPv6 quotes.
pub const QUOTE_MAX: usize = 1184;

/// The error of a datagram: what `struct sock_extended_err` of Linux says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The destination of the datagram.
    pub to: SocketAddr,
    /// The number of the error, as Linux has it.
    pub error: i32,
    /// The MTU of the next hop, or the place of a wrong byte; else 0.
    pub info: u32,
    /// The ICMP message; `None`: this host did not send the datagram.
    pub icmp: Option<Icmp>,
}

/// The header of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Its sender, whose family is that of the message.
    pub from: IpAddr,
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
}

impl Report {
    /// Writes a report.
    #[must_use]
    pub fn emit(&self) -> [u8; REPORT_LEN] {
        let Self { to, error, info, icmp } = *self;
        let put =
            Put::<REPORT_LEN>::default().addr(to).bytes(&error.to_be_bytes()).bytes(&info.to_be_bytes());
        let put = put.byte(icmp.is_some().into());
        icmp.into_iter().fold(put, |put, Icmp { from, kind, code }| put.byte(kind).byte(code).ip(from)).bytes
    }

    /// Reads a report; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8; REPORT_LEN]) -> Option<Self> {
        let mut take = Take(bytes);
        let (to, error) = (take.addr()?, i32::from_be_bytes(take.array()?));
        let info = u32::from_be_bytes(take.array()?);
        let icmp = match take.byte()? {
            0 => None,
            _ => Some(Icmp { kind: take.byte()?, code: take.byte()?, from: take.ip()? }),
        };
        Some(Self { to, error, info, icmp })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_report_is_read_as_it_was_written(
            ip: [u8; 16], four: [u8; 4], port: u16, error: i32, info: u32, kind: u8, code: u8, is_local: bool,
        ) {
            for (to, from) in [(IpAddr::from(ip), IpAddr::from(four)), (four.into(), ip.into())] {
                let icmp = (!is_local).then_some(Icmp { from, kind, code });
                let report = Report { to: SocketAddr::new(to, port), error, info, icmp };
                prop_assert_eq!(Report::parse(&report.emit()), Some(report));
            }
        }

        #[test]
        fn any_bytes_are_a_report_or_none(bytes in prop::collection::vec(any::<u8>(), REPORT_LEN)) {
            if let Some(report) = bytes.first_chunk().and_then(Report::parse) {
                prop_assert_eq!(Report::parse(&report.emit()), Some(report));
            }
        }
    }
}
