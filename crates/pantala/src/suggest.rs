//! "Did you mean": the known word nearest to one that is not known.

/// The candidate nearest to `word`, if it is near enough to be a slip of the finger: one change in three letters.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= allowed && distance < candidate.len())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?" when something is near, else "known are a, b, c".
pub(crate) fn did_you_mean(word: &str, candidates: &[&str]) -> String {
    match nearest(word, candidates.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &["interface", "route", "mtu"];

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        assert_eq!(nearest("interfaces", WORDS.iter().copied()), Some("interface"));
        assert_eq!(nearest("mut", WORDS.iter().copied()), Some("mtu"));
        assert_eq!(nearest("Route", WORDS.iter().copied()), Some("route"));
    }

    #[test]
    fn a_different_word_gets_the_list() {
        assert_eq!(did_you_mean("gateway", WORDS), "known are interface, route, mtu");
    }
}
