//! Ranges of bytes (RFC 9110 §14).

use core::ops::Range;

/// The part of a file that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// From the first byte to the last.
    From(u64, Option<u64>),
    /// A number of bytes at the end.
    Last(u64),
}

impl Wanted {
    /// The one range that a header field asks for. What is not understood, or several, is ignored: all is sent.
    //= https://www.rfc-editor.org/rfc/rfc9110#section-14.2
    //# A server MAY ignore the Range header field.
    pub(super) fn read(field: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(field).ok()?.trim();
        let (unit, spec) = text.split_once('=')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = spec.trim().split_once('-')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().unwrap_or(u64::MAX))
        };
        match (first, last) {
            ("", count) => number(count).map(Self::Last),
            (first, "") => number(first).map(|first| Self::From(first, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// Which bytes of `len` these are; `None` if there are none of them (416).
    pub(super) fn of(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(first, last) => first..last.map_or(len, |last| last.saturating_add(1)).min(len),
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (range.start < range.end).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_the_rfc_gives_as_examples() {
        for (field, range) in [
            ("bytes=0-499", Some(0..500)),
            ("bytes=500-999", Some(500..1000)),
            ("bytes=-500", Some(9500..10_000)),
            ("bytes=9500-", Some(9500..10_000)),
            ("BYTES=0-0", Some(0..1)),
            ("bytes=9999-99999999999999999999999", Some(9999..10_000)),
            ("bytes=-99999999", Some(0..10_000)),
            ("bytes=10000-", None),
            ("bytes=-0", None),
        ] {
            let wanted = Wanted::read(field.as_bytes()).unwrap();
            assert_eq!(wanted.of(10_000), range, "{field}");
        }
        for field in [
            "bytes=0-1,5-6",
            "bytes=5-4",
            "bytes=-",
            "bytes=a-b",
            "lines=1-2",
            "bytes 1-2",
            "bytes=+1-2",
            "\u{fe}",
        ] {
            assert_eq!(Wanted::read(field.as_bytes()), None, "{field} is ignored");
        }
        assert_eq!(Wanted::From(0, None).of(0), None, "of nothing there is no part");
    }
}
