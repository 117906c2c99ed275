//! Ends of streams, as the number behind the last byte.

use crate::host::sock::Error;
use crate::turn::cpu::CpuId;

/// The other end has said all; no error.
pub const END: u32 = 1;
/// Errors with a number of their own.
const ELSEWHERE: u32 = 2;
const TOO_BIG: u32 = 3;
/// The others, from here on.
const FIRST: u32 = 4;
const OTHERS: [Error; 24] = [
    Error::NotFound,
    Error::WouldBlock,
    Error::AddrInUse,
    Error::AddrNotAvailable,
    Error::BadAddress,
    Error::HostUnreachable,
    Error::NotPermitted,
    Error::TooLong,
    Error::NoBuffer,
    Error::NotConnected,
    Error::Closed,
    Error::Refused,
    Error::Reset,
    Error::TimedOut,
    Error::Aborted,
    Error::NothingUrgent,
    Error::BadKey,
    Error::TooMany,
    Error::BadMessage,
    Error::NetworkUnreachable,
    Error::BadFrame,
    Error::NoInterface,
    Error::InterfaceDown,
    Error::NoTable,
];

/// Errors that have a number: all of them.
pub const ERRORS: usize = OTHERS.len() + 2;

/// The number of an error: what it is, and what belongs to it above.
pub(super) fn code(error: Error) -> u32 {
    match error {
        Error::Elsewhere(cpu) => ELSEWHERE | u32::from(cpu.0) << 8,
        Error::TooBig { mtu } => TOO_BIG | mtu.min(u32::MAX >> 8) << 8,
        other => {
            let at = OTHERS.iter().position(|error| *error == other).unwrap_or(0);
            FIRST + u32::try_from(at).unwrap_or(0)
        }
    }
}

/// The error of a number, if it is one's.
#[must_use]
pub fn error(code: u32) -> Option<Error> {
    let more = code >> 8;
    match code & 0xff {
        ELSEWHERE => u16::try_from(more).ok().map(|cpu| Error::Elsewhere(CpuId(cpu))),
        TOO_BIG => Some(Error::TooBig { mtu: more }),
        other => OTHERS.get(other.checked_sub(FIRST)? as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_a_number_of_its_own() {
        let with_more = [Error::Elsewhere(CpuId(511)), Error::TooBig { mtu: 1280 }];
        for is in OTHERS.into_iter().chain(with_more) {
            assert_eq!(error(code(is)), Some(is));
            assert_ne!(code(is), END);
        }
        let behind = FIRST + u32::try_from(OTHERS.len()).unwrap();
        assert_eq!([0, END, behind].map(error), [None; 3]);
    }
}
