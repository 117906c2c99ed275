//! The table of what hosts saw.

use core::fmt::Write;
use core::net::IpAddr;
use core::time::Duration;

/// A host in a phase.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) phase: &'static str,
    /// Its DHCP client.
    pub(crate) host: &'static str,
    /// The addresses that it uses at the end of the phase: IPv4 and IPv6.
    pub(crate) addresses: [Option<IpAddr>; 2],
    /// Whether a connection to the provider's server carried data, by each.
    pub(crate) reached: [bool; 2],
    /// The longest time without an answer, by each.
    pub(crate) pauses: [Duration; 2],
}

/// The table as Markdown.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut text = String::from(
        "| phase | client | IPv4 | IPv6 | reached | s without IPv4 | s without IPv6 |\n|---|---|---|---|---|---|---|\n",
    );
    for Row { phase, host, addresses, reached, pauses } in rows {
        let [v4, v6] = addresses.map(|own| own.map_or_else(|| "none".to_owned(), |own| own.to_string()));
        let reached = match reached {
            [true, true] => "both",
            [true, false] => "IPv4",
            [false, true] => "IPv6",
            [false, false] => "neither",
        };
        let [a, b] = pauses.map(|pause| pause.as_secs_f64());
        let _ = writeln!(text, "| {phase} | {host} | {v4} | {v6} | {reached} | {a:.1} | {b:.1} |");
    }
    text
}

/// Keeps the table in the folder that `PANTALA_OFFICE` names, if it does.
pub(crate) fn keep(name: &str, rows: &[Row]) {
    if let Some(folder) = std::env::var_os("PANTALA_OFFICE") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.md")), text(rows)).unwrap();
    }
}
