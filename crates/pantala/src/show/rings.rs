//! `intrctl list`.

use super::table::Table;
use crate::api::Ring;

const HEAD: &[&str] = &[
    "Name",
    "Ring",
    "Device",
    "Queue",
    "CPU",
    "Steering",
    "Ipkts",
    "Opkts",
    "Doorbells",
    "Idrop",
    "Polls",
    "Busy",
    "Burst",
    "UsedUp",
];

/// A line for each ring.
pub(crate) fn rings(rings: &[Ring]) -> String {
    let mut table = Table::new(HEAD, &[1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13]);
    for ring in rings {
        table.row([
            ring.interface.clone(),
            ring.ring.to_string(),
            ring.device.clone(),
            ring.queue.to_string(),
            ring.cpu.to_string(),
            ring.steering.to_string(),
            ring.rx_packets.to_string(),
            ring.tx_packets.to_string(),
            ring.doorbells.to_string(),
            ring.rx_drops.to_string(),
            ring.polls.to_string(),
            ring.busy_polls.to_string(),
            ring.burst.to_string(),
            ring.bursts_used_up.to_string(),
        ]);
    }
    table.text()
}
