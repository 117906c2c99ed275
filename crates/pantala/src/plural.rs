//! Numbers with their nouns.

/// Returns `count` and `noun` in the singular or the plural: "1 CPU", "2 CPUs".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "CPU")), ["0 CPUs", "1 CPU", "2 CPUs"]);
    }
}
