//! Errors of sent datagrams that were not reported yet, with the bytes of the datagram that an ICMP error quotes.

use std::collections::VecDeque;

use super::socket::Failure;

/// Failures that wait to be asked for; the oldest give way.
pub const FAILURES_MAX: usize = 16;
/// Bytes of a datagram that are kept with its error at the most.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# Every ICMPv6 error message (type < 128) MUST include as much of
//# the IPv6 offending (invoking) packet (the packet that caused the
//# error) as possible without making the error message packet exceed
//# the minimum IPv6 MTU
pub const QUOTE_MAX: usize = 1280 - 40 - 8 - 40 - 8;

/// Failures, the oldest first. A socket without any has no memory for them.
#[derive(Default)]
pub(crate) struct Failures(Option<Box<Lists>>);

#[derive(Default)]
struct Lists {
    /// Each with the number of bytes that are quoted.
    list: VecDeque<(Failure, usize)>,
    /// Quoted bytes of all of them, in their order.
    quotes: VecDeque<u8>,
}

impl Failures {
    /// Notes a failure. Of too many the oldest that is none of the first `kept` is forgotten.
    pub(crate) fn push(&mut self, failure: Failure, quote: &[u8], kept: usize) {
        let Lists { list, quotes } = &mut **self.0.get_or_insert_default();
        if list.len() >= FAILURES_MAX {
            let before = list.iter().take(kept).map(|(_, len)| len).sum::<usize>();
            let forgotten = list.remove(kept).map_or(0, |(_, len)| len);
            quotes.drain(before..before + forgotten);
        }
        let quote = quote.get(..QUOTE_MAX).unwrap_or(quote);
        list.push_back((failure, quote.len()));
        quotes.extend(quote);
    }

    /// Takes the oldest, and adds what is quoted of its datagram to `quote`.
    pub(crate) fn pop(&mut self, quote: &mut Vec<u8>) -> Option<Failure> {
        let Lists { list, quotes } = &mut **self.0.as_mut()?;
        let (failure, len) = list.pop_front()?;
        quote.extend(quotes.drain(..len));
        Some(failure)
    }

    /// Returns the oldest.
    pub(crate) fn first(&self) -> Option<Failure> {
        self.0.as_ref()?.list.front().map(|(failure, _)| *failure)
    }

    /// Copies what is quoted of the oldest's datagram, from byte `at` on, and returns the number of bytes.
    pub(crate) fn copy_quote(&self, at: usize, into: &mut [u8]) -> usize {
        let Some(lists) = &self.0 else { return 0 };
        let len = lists.list.front().map_or(0, |(_, len)| len.saturating_sub(at)).min(into.len());
        let bytes = lists.quotes.iter().skip(at).take(len);
        into.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        len
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |lists| lists.list.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::sock::Error;

    fn failure(port: u16) -> Failure {
        Failure { to: ([192, 0, 2, 1], port).into(), error: Error::Refused, icmp: None }
    }

    #[test]
    fn a_bounded_number_of_failures_is_kept_each_with_a_bounded_quote_of_its_own() {
        let mut all = Failures::default();
        for port in 0..40_u8 {
            // Some quote nothing.
            let len = if port % 3 == 0 { 0 } else { 2 * QUOTE_MAX };
            all.push(failure(port.into()), &vec![port; len], 1);
            assert!(
                all.len() <= FAILURES_MAX && all.0.as_ref().unwrap().quotes.len() <= FAILURES_MAX * QUOTE_MAX
            );
        }
        let ports = core::iter::once(0).chain(25..40_u8);
        for port in ports {
            let (mut quote, mut part) = (Vec::new(), [0; 9]);
            assert_eq!(all.copy_quote(QUOTE_MAX - 5, &mut part), if port % 3 == 0 { 0 } else { 5 });
            assert_eq!(all.first(), Some(failure(port.into())));
            assert_eq!(all.pop(&mut quote), Some(failure(port.into())));
            assert_eq!(quote, vec![port; if port % 3 == 0 { 0 } else { QUOTE_MAX }]);
        }
        assert!(all.pop(&mut Vec::new()).is_none() && all.0.unwrap().quotes.is_empty());
    }
}
