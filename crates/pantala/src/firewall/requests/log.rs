//! `ipfw log`.

use ipfw::rule::Hook;
use net::firewall::log::Record;
use net::tables::IfIndex;

use super::super::log::packet;
use crate::api::{Error, ErrorKind, FirewallLog, FirewallLogRecord};
use crate::daemon::control::Control;

impl Control {
    /// Returns the log since the place that an earlier reply named: a number for each CPU.
    pub(super) fn what_was_logged(&self, after: Option<&str>) -> Result<FirewallLog, Error> {
        let cpus = self.cpus.iter().count();
        let from = after.map_or_else(|| Ok(vec![0; cpus]), |after| places(after, cpus))?;
        let is_first = after.is_none();
        let asked = from.clone();
        let per_cpu = self.cpus.call_all(move |netisr| {
            let from = asked.get(netisr.cpu.id.index()).copied().unwrap_or_default();
            netisr.cpu.firewall.as_deref().map(|it| (it.log().since(from), it.log().suppressed()))
        })?;
        let start = self.started_at();
        let mut log = FirewallLog::default();
        let mut next = Vec::new();
        for ((cpu, from), answer) in self.cpus.iter().zip(from).zip(per_cpu) {
            let Some(((records, next_here), suppressed)) = answer else {
                next.push(from);
                continue;
            };
            let first = records.first().map_or(next_here, |record| record.seq);
            // The first request has missed nothing that its reader knows of.
            log.lost += if is_first { 0 } else { first.saturating_sub(from) };
            log.suppressed += suppressed;
            next.push(next_here);
            let processor = u32::try_from(cpu.processor).unwrap_or(u32::MAX);
            log.records.extend(records.iter().map(|record| self.describe(record, processor, start)));
        }
        log.records.sort_by_key(|record| record.at_ns);
        log.next = next.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
        Ok(log)
    }

    fn describe(&self, record: &Record, cpu: u32, start_ns: u64) -> FirewallLogRecord {
        let is_out = matches!(record.hook, Hook::Forward | Hook::Egress | Hook::LocalOut);
        let via = if is_out && record.xmit != 0 { record.xmit } else { record.recv };
        let interface = self.name_of(via);
        let what = if record.hook == Hook::Frame { "MAC".to_owned() } else { packet(&record.snap) };
        let mut text = format!("ipfw: {} {} {what}", record.rule, record.done);
        text += if is_out { " out" } else { " in" };
        if let Some(name) = &interface {
            text += &format!(" via {name}");
        }
        FirewallLogRecord {
            at_ns: start_ns + record.at.ns(),
            cpu,
            rule: record.rule,
            action: record.done.to_owned(),
            out: is_out,
            interface,
            length: record.len,
            text,
            snap: record.snap.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// The name of an interface, if there is one of this number.
    pub(crate) fn name_of(&self, index: IfIndex) -> Option<String> {
        self.interface_by_index(index).map(|interface| interface.config.name.clone())
    }
}

fn places(after: &str, cpus: usize) -> Result<Vec<u64>, Error> {
    let places: Option<Vec<u64>> = after.split('.').map(|place| place.parse().ok()).collect();
    places.filter(|places| places.len() == cpus).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, format!("`{after}` is not the `next` of an earlier answer"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_number_for_each_cpu() {
        assert_eq!(places("3.0", 2), Ok(vec![3, 0]));
        for wrong in ["3", "3.x", "", "1.2.3"] {
            assert_eq!(places(wrong, 2).unwrap_err().kind, ErrorKind::Invalid);
        }
    }
}
