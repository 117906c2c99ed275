//! The table at the end.

use core::time::Duration;

use serde_json::{Value, json};

use super::measure::{Measured, WANTED, gigabits};
use super::traffic::Transfer;
use crate::show::table::Table;

/// All that was measured, and whether it was right.
pub(crate) struct Report {
    rows: Vec<Measured>,
    missing: Vec<String>,
    pub(crate) stopped: bool,
    pub(crate) router_ended_well: bool,
    pub(crate) took: Duration,
}

impl Report {
    pub(crate) fn new(missing: &[String]) -> Self {
        Self {
            rows: Vec::new(),
            missing: missing.to_vec(),
            stopped: false,
            router_ended_well: false,
            took: Duration::ZERO,
        }
    }

    pub(crate) fn add(&mut self, row: Measured) {
        self.rows.push(row);
    }

    /// Whether everything that could be shown was shown, and was right.
    pub(crate) fn is_right(&self) -> bool {
        !self.rows.is_empty()
            && !self.stopped
            && self.router_ended_well
            && self.rows.iter().all(|row| row.faults().is_empty())
    }

    pub(crate) fn text(&self) -> String {
        let head = [
            "Path",
            "Family",
            "RTT min",
            "median",
            "max",
            "UDP",
            "TCP there",
            "back",
            "Packets/CPU",
            "Hand-offs",
            "Drops",
        ];
        let mut table = Table::new(&head, &[2, 3, 4, 5, 6, 7, 9]);
        self.rows.iter().for_each(|row| table.row(row.cells()));
        let mut text = format!("\n{}\n", table.text());
        let faults = self.rows.iter().flat_map(Measured::faults);
        let missing = self.missing.iter().map(|missing| format!("not shown: {missing}"));
        let ends = [(self.stopped, "interrupted"), (!self.router_ended_well, "pantala did not end well")];
        let ends = ends.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what.to_owned());
        for line in faults.chain(missing).chain(ends) {
            text += &format!("{line}\n");
        }
        let verdict =
            if self.is_right() { "all bytes arrived as they were sent" } else { "NOT all was right" };
        text += &format!("{verdict}; {:.1} s\n", self.took.as_secs_f64());
        text
    }

    pub(crate) fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(Measured::json).collect();
        let report = json!({
            "paths": rows,
            "not_shown": self.missing,
            "interrupted": self.stopped,
            "seconds": self.took.as_secs_f64(),
            "right": self.is_right(),
        });
        format!("{report:#}\n")
    }
}

impl Measured {
    fn cells(&self) -> [String; 11] {
        let [min, median, max] =
            self.rtt().map_or_else(|| [(); 3].map(|()| "-".to_owned()), |rtt| rtt.map(micros));
        let udp =
            self.datagrams.as_ref().map_or_else(|_| "-".to_owned(), |back| format!("{back}/{}", WANTED.1));
        let [there, back] = self.transfers.each_ref().map(rate);
        let packets: Vec<String> = self.work.packets.iter().map(u64::to_string).collect();
        let drops: Vec<String> =
            self.work.drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let drops = if drops.is_empty() { "none".to_owned() } else { drops.join(", ") };
        let (path, family) = (self.path.clone(), self.family.to_string());
        [
            path,
            family,
            min,
            median,
            max,
            udp,
            there,
            back,
            packets.join(" + "),
            self.work.handoffs.to_string(),
            drops,
        ]
    }

    /// Shortest, median and longest round-trip time.
    fn rtt(&self) -> Option<[Duration; 3]> {
        let times = self.pings.as_ref().ok()?;
        Some([*times.first()?, *times.get(times.len() / 2)?, *times.last()?])
    }

    /// Returns the failures, a sentence each.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.pings {
            Ok(times) if times.len() == WANTED.0 => {}
            Ok(times) => faults.push(format!("{} of {} pings came back", times.len(), WANTED.0)),
            Err(why) => faults.push(format!("no ping: {why}")),
        }
        match &self.datagrams {
            Ok(back) if *back == WANTED.1 => {}
            Ok(back) => faults.push(format!("{back} of {} datagrams came back", WANTED.1)),
            Err(why) => faults.push(format!("no datagrams: {why}")),
        }
        for transfer in &self.transfers {
            match transfer {
                Ok(Transfer { intact: true, .. }) => {}
                Ok(transfer) => faults
                    .push(format!("a transfer arrived changed, or not whole ({} bytes)", transfer.bytes)),
                Err(why) => faults.push(format!("a transfer failed: {why}")),
            }
        }
        faults.iter().map(|fault| format!("{} {}: {fault}", self.path, self.family)).collect()
    }

    fn json(&self) -> Value {
        let rtt = self.rtt().map(|[min, median, max]| {
            json!({ "min_us": micros_of(min), "median_us": micros_of(median), "max_us": micros_of(max) })
        });
        let transfers: Vec<Value> = self.transfers.iter().map(transfer_json).collect();
        let drops: Value =
            self.work.drops.iter().map(|(reason, count)| (reason.clone(), Value::from(*count))).collect();
        json!({
            "path": self.path,
            "family": self.family.to_string(),
            "rtt": rtt,
            "udp_returned": self.datagrams.as_ref().ok(),
            "udp_sent": WANTED.1,
            "tcp": transfers,
            "packets_per_cpu": self.work.packets,
            "handoffs": self.work.handoffs,
            "drops": drops,
            "faults": self.faults(),
        })
    }
}

fn transfer_json(transfer: &Result<Transfer, String>) -> Value {
    match transfer {
        Ok(t) => {
            json!({ "bytes": t.bytes, "seconds": t.took.as_secs_f64(), "gbit_per_s": gigabits(t.bytes, t.took), "intact": t.intact })
        }
        Err(why) => json!({ "error": why }),
    }
}

fn rate(transfer: &Result<Transfer, String>) -> String {
    match transfer {
        Ok(transfer) => format!("{:.2} Gbit/s", gigabits(transfer.bytes, transfer.took)),
        Err(_) => "-".to_owned(),
    }
}

fn micros(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn micros_of(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
