//! `arp -an` and `ndp -an`.

use super::table::Table;
use crate::api::{Neighbour, NeighbourState};

/// One line for each IPv4 neighbour.
pub(crate) fn arp(neighbours: &[Neighbour]) -> String {
    neighbours.iter().map(arp_line).collect()
}

fn arp_line(neighbour: &Neighbour) -> String {
    let mac = neighbour.mac.map_or_else(|| "(incomplete)".to_owned(), |mac| mac.to_string());
    let life = match (neighbour.permanent, neighbour.expires_s) {
        (true, _) => " permanent".to_owned(),
        (false, Some(0)) => " expired".to_owned(),
        (false, Some(seconds)) => format!(" expires in {seconds} seconds"),
        (false, None) => String::new(),
    };
    let published = if neighbour.published { " published" } else { "" };
    format!("? ({}) at {mac} on {}{life}{published} [ethernet]\n", neighbour.address, neighbour.interface)
}

/// The table of IPv6 neighbours.
pub(crate) fn ndp(neighbours: &[Neighbour]) -> String {
    let mut table = Table::new(&["Neighbor", "Linklayer Address", "Netif", "Expire", "S", "Flags"], &[2]);
    for neighbour in neighbours {
        table.row([
            neighbour.address.to_string(),
            neighbour.mac.map_or_else(|| "(incomplete)".to_owned(), |mac| mac.to_string()),
            neighbour.interface.clone(),
            life(neighbour),
            letter(neighbour.state).to_owned(),
            flags(neighbour),
        ]);
    }
    table.text()
}

/// `R` of a router, `p` of an address that is answered for.
fn flags(neighbour: &Neighbour) -> String {
    let letters = [(neighbour.router, 'R'), (neighbour.published, 'p')];
    letters.into_iter().filter(|(is_so, _)| *is_so).map(|(_, letter)| letter).collect()
}

fn life(neighbour: &Neighbour) -> String {
    match (neighbour.permanent, neighbour.expires_s) {
        (true, _) => "permanent".to_owned(),
        (false, Some(0)) => "expired".to_owned(),
        (false, Some(seconds)) => duration(seconds),
        (false, None) => "-".to_owned(),
    }
}

/// `1d2h3m4s`, from the first part that is not zero.
pub(super) fn duration(seconds: u64) -> String {
    let parts =
        [(seconds / 86400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let first = parts.iter().position(|&(n, _)| n > 0).unwrap_or(3);
    parts.iter().skip(first).map(|(n, unit)| format!("{n}{unit}")).collect()
}

fn letter(state: NeighbourState) -> &'static str {
    match state {
        NeighbourState::Incomplete => "I",
        NeighbourState::Reachable => "R",
        NeighbourState::Stale => "S",
        NeighbourState::Delay => "D",
        NeighbourState::Probe => "P",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_start_with_their_largest_unit() {
        for (seconds, text) in [(9, "9s"), (60, "1m0s"), (3601, "1h0m1s"), (86_400 + 7_384, "1d2h3m4s")] {
            assert_eq!(duration(seconds), text);
        }
    }
}
