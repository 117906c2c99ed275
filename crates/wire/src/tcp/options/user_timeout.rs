//! The user timeout option (RFC 5482).

use core::num::NonZeroU16;

/// The value of a user timeout option: seconds, or minutes, up to 32767 of them; never nothing.
//= https://www.rfc-editor.org/rfc/rfc5482#section-3.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserTimeout(NonZeroU16);

/// The granularity bit: the others count minutes (RFC 5482 §3.3: `G`).
const MINUTES: u16 = 0x8000;
/// The most that the other bits can say.
const MOST: u16 = 0x7fff;

impl UserTimeout {
    /// Parses the field behind kind and length; `None` for zero, in seconds or in minutes: that is reserved, and must
    /// be ignored (RFC 5482 §3.4).
    #[must_use]
    pub const fn of_field(field: u16) -> Option<Self> {
        if field & MOST == 0 {
            return None;
        }
        match NonZeroU16::new(field) {
            Some(field) => Some(Self(field)),
            None => None,
        }
    }

    /// Returns the field behind kind and length.
    #[must_use]
    pub const fn field(self) -> u16 {
        self.0.get()
    }

    /// Encodes seconds, rounded up to minutes where they do not fit, and saturated; `None` for
    /// none, which must not be sent.
    #[must_use]
    pub fn of_secs(secs: u64) -> Option<Self> {
        let as_minutes = || u16::try_from(secs.div_ceil(60)).unwrap_or(u16::MAX).min(MOST) | MINUTES;
        Self::of_field(u16::try_from(secs).ok().filter(|secs| *secs <= MOST).unwrap_or_else(as_minutes))
    }

    /// Returns the timeout in seconds.
    #[must_use]
    pub const fn secs(self) -> u32 {
        let (field, unit) = (self.0.get(), if self.0.get() & MINUTES == 0 { 1 } else { 60 });
        (field & MOST) as u32 * unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_no_less_than_what_is_meant_as_far_as_it_can_be_said() {
        let said = |secs| UserTimeout::of_secs(secs).map(UserTimeout::secs);
        assert_eq!(said(0), None);
        for (secs, says) in [
            (1, 1),
            (100, 100),
            (32_767, 32_767),
            (32_768, 32_820),
            (32_820, 32_820),
            (32_767 * 60, 32_767 * 60),
            (32_767 * 60 + 1, 32_767 * 60),
            (u64::MAX, 32_767 * 60),
        ] {
            assert_eq!(said(secs), Some(says), "{secs}");
        }
    }

    #[test]
    fn each_value_of_the_field_but_the_two_that_say_nothing_is_told_as_it_is() {
        for field in 0..=u16::MAX {
            let read = UserTimeout::of_field(field);
            assert_eq!(
                read.map(UserTimeout::field),
                Some(field).filter(|field| ![0, 0x8000].contains(field))
            );
        }
    }
}
