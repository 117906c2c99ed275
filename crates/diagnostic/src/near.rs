//! "Did you mean": the known word nearest to one that is not known.

/// Words longer than this are no slips of the finger of any that we know.
const LONGEST: usize = 24;

/// The candidate that `word` is the beginning of, or the nearest one, if it is near enough to be a slip of the finger:
/// one change in three letters.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let begun: Vec<&str> = candidates.clone().into_iter().filter(|known| known.starts_with(word)).collect();
    if let [known] = begun[..]
        && word.len() > 1
    {
        return Some(known);
    }
    let word: Vec<u8> = word.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
    if word.len() > LONGEST {
        return None;
    }
    let allowed = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_ascii_lowercase().into_bytes()), candidate))
        .filter(|&(distance, candidate)| distance <= allowed && distance < candidate.len())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns "did you mean `x`?" when a candidate is near, else "known are a, b, c".
#[must_use]
pub fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", candidates.join(", ")),
    }
}

/// Letters to put in, take out, exchange, or swap with their neighbour, to make one word of the other (optimal string
/// alignment).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == y && b[j - 1] == x {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_another_word_is_not() {
        let words = ["allow", "deny", "keep-state"];
        assert_eq!(nearest("alow", words), Some("allow"));
        assert_eq!(nearest("alolw", words), Some("allow"));
        assert_eq!(nearest("keep", words), Some("keep-state"));
        assert_eq!(nearest("DENY", words), Some("deny"));
        assert_eq!(nearest("keepstate", words), Some("keep-state"));
        assert_eq!(nearest("gateway", words), None);
        assert_eq!(nearest("", words), None);
    }

    #[test]
    fn a_different_word_gets_the_list() {
        let words = ["interface", "route", "mtu"];
        assert_eq!(did_you_mean("interfaces", &words), "did you mean `interface`?");
        assert_eq!(did_you_mean("gateway", &words), "known are interface, route, mtu");
    }

    #[test]
    fn a_swap_of_neighbours_is_one_change() {
        assert_eq!(distance(b"ab", b"ba"), 1);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
    }
}
