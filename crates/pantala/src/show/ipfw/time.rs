//! Times as ipfw shows them.

/// The format of the time of a rule's last match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `-t`: as ctime(3) writes it. In UTC: what a stack on another continent logged is compared with its own log.
    Words,
    /// `-T`: seconds since 1970.
    Seconds,
}

impl Clock {
    /// Formats seconds since 1970; a gap of the same width for never.
    pub(crate) fn show(self, seconds: Option<u64>) -> String {
        match (self, seconds) {
            (Self::Words, Some(seconds)) => ctime(seconds),
            (Self::Words, None) => " ".repeat(24),
            (Self::Seconds, seconds) => format!("{:10}", seconds.unwrap_or(0)),
        }
    }
}

/// `Sun Nov 22 01:41:47 2026`, in UTC.
pub(crate) fn ctime(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let name =
        |names: &[&'static str], n: u64| names.get(usize::try_from(n).unwrap_or(0)).copied().unwrap_or("???");
    let (weekday, month) = (name(&DAYS, days % 7), name(&MONTHS, month - 1));
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// `2026-11-22T01:41:47`, in UTC: RFC 3339 without the zone.
pub(crate) fn utc(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let rest = seconds % 86_400;
    format!("{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day of the Gregorian calendar, so many days after the first of 1970. Years are counted from March, so
/// that the odd day is their last; 400 of them have 146097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    const FROM_MARCH_0000: u64 = 719_468;
    let days = days + FROM_MARCH_0000;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_399, "Mon Feb 28 23:59:59 2000"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (951_868_800, "Wed Mar  1 00:00:00 2000"),
            (1_000_000_000, "Sun Sep  9 01:46:40 2001"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
        ] {
            assert_eq!(ctime(seconds), text);
        }
        assert_eq!(utc(951_782_400 + 3_723), "2000-02-29T01:02:03");
    }

    #[test]
    fn never_is_a_gap_as_wide_as_a_time() {
        assert_eq!(Clock::Words.show(None).len(), Clock::Words.show(Some(1)).len());
        assert_eq!(Clock::Seconds.show(None), "         0");
    }
}
