//! The ledger of the router: what has begun in it and what has ended, by its counters.
//!
//! The sums are those that each world of the simulator ends with, and their list is read from there.

use anyhow::{Context, Result};

/// The list of counters of packets that begin and that end.
const LISTS: &str = include_str!("../../../crates/sim/src/world/ledger.rs");

/// How many more packets have begun than ended, of which none is under way when the router is at rest.
pub fn missing(page: &str) -> Result<i64> {
    let begun = sum(page, "BEGUN")?;
    let ended = sum(page, "ENDED")? + super::sample::sum(page, "pantala_drop_total");
    Ok(begun.cast_signed() - ended.cast_signed())
}

/// The sum of the counters of one list.
fn sum(page: &str, list: &str) -> Result<u64> {
    let names = names(list)?;
    Ok(names.iter().map(|name| super::sample::sum(page, &format!("pantala_{name}_total"))).sum())
}

/// The counters of one list, as metrics name them.
fn names(list: &str) -> Result<Vec<String>> {
    let begin = format!("const {list}: &[Count] = &[");
    let (_, rest) = LISTS.split_once(&begin).with_context(|| format!("no list {list} of counters"))?;
    let (entries, _) = rest.split_once("];").context("a list without an end")?;
    let entries = entries.lines().filter_map(|line| line.trim().strip_prefix("Count::")?.strip_suffix(','));
    Ok(entries.map(snake_case).collect())
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_of_the_lists_is_a_documented_one() {
        let documented = include_str!("../../../docs/reference/COUNTERS.md");
        for list in ["BEGUN", "ENDED"] {
            let names = names(list).unwrap();
            assert!(names.len() > 10, "{names:?}");
            for name in names {
                assert!(documented.contains(&format!("| `{name}` |")), "{name}");
            }
        }
    }

    #[test]
    fn what_ended_is_taken_from_what_has_begun() {
        let page = "pantala_rx_packets_total{cpu=\"0\"} 7\npantala_rx_packets_total{cpu=\"1\"} 3\n\
                    pantala_tx_packets_total{cpu=\"0\"} 4\npantala_arp_consumed_total{cpu=\"0\"} 1\n\
                    pantala_drop_total{reason=\"no_port\",node=\"udp\",cpu=\"0\"} 3\n";
        assert_eq!(missing(page).unwrap(), 2);
    }
}
