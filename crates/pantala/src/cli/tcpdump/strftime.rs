//! Names of files with a time in them.

use crate::show::utc;

/// Replaces `%Y %m %d %H %M %S %s %F %T %%` by seconds since 1970, in UTC; other letters stay.
pub(super) fn strftime(name: &str, seconds: u64) -> String {
    let time = utc(seconds);
    let part = |from: usize, len: usize| time.get(from..from + len).unwrap_or_default();
    let mut out = String::new();
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('Y') => out += part(0, 4),
            Some('m') => out += part(5, 2),
            Some('d') => out += part(8, 2),
            Some('H') => out += part(11, 2),
            Some('M') => out += part(14, 2),
            Some('S') => out += part(17, 2),
            Some('F') => out += part(0, 10),
            Some('T') => out += part(11, 8),
            Some('s') => out += &seconds.to_string(),
            Some('%') => out.push('%'),
            other => {
                out.push('%');
                out.extend(other);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_become_the_time_and_others_stay() {
        assert_eq!(strftime("a-%F_%H%M%S.%s%%%q%", 1_795_310_507), "a-2026-11-22_012147.1795310507%%q%");
    }
}
