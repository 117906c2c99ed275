//! Reports of a test: lines as iperf3 writes them, or one JSON document.

use core::fmt::Write as _;
use core::net::SocketAddr;
use std::io;

use super::Problem;
use super::course::{Course, Interval, Row, Tcp, Total};
use super::flow::{Counts, Flow};
use super::json::Document;
use super::protocol::{Params, Results, StreamResult};
use super::rrul::Rrul;
use crate::term::Term;

const LINE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
const THICK: &str = "-----------------------------------------------------------\n";

/// Where a test is reported.
pub(super) struct Report<'t> {
    term: &'t mut Term,
    json: Option<Document>,
    is_server: bool,
    is_first: bool,
    has_ended: bool,
    broken: Option<io::Error>,
}

/// A stream's share of the summary, as one of its ends has counted it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Side {
    pub(super) seconds: f64,
    pub(super) counts: Counts,
    pub(super) retransmits: Option<u64>,
}

impl<'t> Report<'t> {
    pub(super) fn new(term: &'t mut Term, json: bool) -> Self {
        let json = json.then(Document::default);
        Self { term, json, is_server: false, is_first: true, has_ended: false, broken: None }
    }

    pub(super) fn begin(&mut self, server: SocketAddr, cookie: &[u8], params: &Params) {
        self.show(&format!("Connecting to host {}, port {}\n", server.ip(), server.port()));
        if params.reverse {
            self.show(&format!("Reverse mode, remote host {} is sending\n", server.ip()));
        }
        if let Some(json) = &mut self.json {
            json.begin("connecting_to", server, Some(cookie));
        }
    }

    pub(super) fn listens(&mut self, port: u16, number: u64) {
        self.is_server = true;
        self.is_first = true;
        self.show(&format!("{THICK}Server listening on {port} (test #{number})\n{THICK}"));
    }

    pub(super) fn accepted(&mut self, peer: SocketAddr) {
        self.show(&format!("Accepted connection from {}, port {}\n", peer.ip().to_canonical(), peer.port()));
        if let Some(json) = &mut self.json {
            json.begin("accepted_connection", peer, None);
        }
    }

    pub(super) fn connected(&mut self, flows: &[Flow], params: &Params) {
        for flow in flows {
            let [local, remote] = [flow.local, flow.remote].map(|at| (at.ip().to_canonical(), at.port()));
            self.show(&format!(
                "[{:3}] local {} port {} connected to {} port {}\n",
                label(flow),
                local.0,
                local.1,
                remote.0,
                remote.1
            ));
        }
        if let Some(json) = &mut self.json {
            json.connected(flows, params);
        }
    }

    pub(super) fn interval(&mut self, flows: &[Flow], params: &Params, interval: &Interval) {
        if let Some(json) = &mut self.json {
            return json.interval(flows, params, interval);
        }
        let head = match core::mem::take(&mut self.is_first) {
            true => header(flows, params),
            false if params.parallel > 1 => LINE.to_owned(),
            false => String::new(),
        };
        let rows = interval_lines(flows, params, interval, self.is_server);
        self.show(&(head + &rows));
    }

    /// Shows the summary, with what the other end has counted if that is known.
    pub(super) fn end(&mut self, course: &Course<'_>, peer: Option<&Results>) {
        self.has_ended = true;
        let totals = course.totals(peer);
        if let Some(json) = &mut self.json {
            return json.end(course, &totals, peer);
        }
        let text = summary(&course.flows, course.params, &totals, course.seconds, self.is_server);
        self.show(&text);
    }

    /// Shows round-trip times, behind the summary.
    pub(super) fn round_trips(&mut self, times: &Rrul) {
        match &mut self.json {
            Some(json) => json.round_trips = Some(times.to_json()),
            None => self.show(&times.text()),
        }
    }

    /// Ends the report of one test of a server.
    pub(super) fn ended(&mut self, why: Option<&Problem>) -> Result<(), Problem> {
        if let Some(json) = self.json.take() {
            self.json = Some(Document::default());
            self.write(&json.text(why));
        } else if let Some(why) = why {
            self.term.complain(&format!("pantala: iperf: {why}"));
        }
        self.broken.take().map_or(Ok(()), |why| Err(Problem::Io("write the report".to_owned(), why)))
    }

    /// Ends the output.
    pub(super) fn finish(&mut self, why: Option<&Problem>) -> io::Result<()> {
        match self.json.take() {
            Some(json) if !self.is_server => self.write(&json.text(why)),
            None if !self.is_server && why.is_none() => self.show("\niperf Done.\n"),
            _ => {}
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    fn show(&mut self, text: &str) {
        if self.json.is_none() {
            self.write(text);
        }
    }

    fn write(&mut self, text: &str) {
        if let Err(why) = self.term.show(text) {
            self.broken = Some(why);
        }
    }
}

/// The number in brackets, for which iperf3 takes that of a file.
pub(super) fn label(flow: &Flow) -> u32 {
    flow.id.saturating_add(4)
}

/// `[TX-C]` and its kind, where streams of both directions are listed.
fn role(flow: &Flow, params: &Params, is_server: bool) -> String {
    if !params.bidir {
        return String::new();
    }
    format!("[{}X-{}]", if flow.sends { 'T' } else { 'R' }, if is_server { 'S' } else { 'C' })
}

fn header(flows: &[Flow], params: &Params) -> String {
    let sends = flows.iter().any(|flow| flow.sends);
    let role = if params.bidir { "[Role]" } else { "" };
    let columns = match (params.udp, sends) {
        (true, true) if params.bidir => "Jitter    Lost/Total Datagrams",
        (true, true) => "Total Datagrams",
        (true, false) => "Jitter    Lost/Total Datagrams",
        (false, true) => "Retr  Cwnd",
        (false, false) => "",
    };
    let head = format!("[ ID]{role} Interval           Transfer     Bitrate");
    if columns.is_empty() { head + "\n" } else { format!("{head}         {columns}\n") }
}

fn interval_lines(flows: &[Flow], params: &Params, interval: &Interval, is_server: bool) -> String {
    let omitted = if interval.is_omitted { "(omitted)" } else { "" };
    let seconds = interval.end_s - interval.start_s;
    let mut text = String::new();
    let mut line = |id: &str, role: &str, sends: bool, row: &Row| {
        let head = head(id, role, interval.start_s, interval.end_s, row.counts.bytes, seconds);
        let tail = interval_tail(params, sends, row);
        // To write to a string never fails.
        let _ = writeln!(text, "{}", format!("{head}{tail}{omitted}").trim_end());
    };
    for (flow, row) in flows.iter().zip(&interval.rows) {
        line(&format!("{:3}", label(flow)), &role(flow, params, is_server), flow.sends, row);
    }
    if params.parallel > 1 {
        for sends in [true, false] {
            let of = |(flow, _): &(&Flow, &Row)| flow.sends == sends;
            let each: Vec<(&Flow, &Row)> = flows.iter().zip(&interval.rows).filter(of).collect();
            if let Some((first, _)) = each.first() {
                let sum = sum_of_rows(each.iter().map(|(_, row)| **row));
                line("SUM", &role(first, params, is_server), sends, &sum);
            }
        }
    }
    text
}

fn interval_tail(params: &Params, sends: bool, row: &Row) -> String {
    match (params.udp, sends) {
        (true, true) => format!("  {}  ", row.counts.packets),
        (true, false) => format!("  {}  ", datagrams(&row.counts)),
        (false, true) => match &row.tcp {
            Some(tcp) if tcp.cwnd > 0 => {
                format!("  {:3}   {}       ", tcp.retransmits, bytes(f64::from(tcp.cwnd)))
            }
            Some(tcp) => format!("  {:3}            ", tcp.retransmits),
            None => "                  ".to_owned(),
        },
        (false, false) => "                  ".to_owned(),
    }
}

/// Adds up streams; a window has no sum.
pub(super) fn sum_of_rows(rows: impl Iterator<Item = Row>) -> Row {
    let (mut count, mut jitter) = (0, 0_u64);
    let mut sum = Row { counts: Counts::default(), tcp: None };
    for row in rows {
        add(&mut sum.counts, &row.counts);
        (count, jitter) = (count + 1, jitter.saturating_add(row.counts.jitter_ns));
        if let Some(tcp) = row.tcp {
            let before = sum.tcp.map_or(0, |tcp| tcp.retransmits);
            sum.tcp = Some(Tcp { retransmits: before + tcp.retransmits, ..Tcp::default() });
        }
    }
    sum.counts.jitter_ns = jitter.checked_div(count).unwrap_or(0);
    sum
}

fn add(sum: &mut Counts, one: &Counts) {
    // What the other end says may be anything.
    sum.bytes = sum.bytes.saturating_add(one.bytes);
    sum.packets = sum.packets.saturating_add(one.packets);
    sum.lost = sum.lost.saturating_add(one.lost);
    sum.out_of_order = sum.out_of_order.saturating_add(one.out_of_order);
}

/// Returns what the sender and the receiver of a stream have counted, as far as it is known.
pub(super) fn sides(flow: &Flow, total: &Total, seconds: f64) -> [Option<Side>; 2] {
    let own = Side { seconds, counts: total.counts, retransmits: total.retransmits };
    let other = total.peer.map(|peer: StreamResult| Side {
        seconds: if peer.end_s > 0.0 { peer.end_s } else { seconds },
        counts: Counts {
            bytes: peer.bytes,
            packets: peer.packets,
            lost: peer.lost,
            out_of_order: 0,
            jitter_ns: nanoseconds(peer.jitter_s),
        },
        retransmits: peer.retransmits,
    });
    if flow.sends { [Some(own), other] } else { [other, Some(own)] }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the conversion saturates")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Adds up the sides of several streams.
pub(super) fn sum_of_sides(sides: impl Iterator<Item = Side>) -> Option<Side> {
    let (mut sum, mut count, mut jitter) = (None::<Side>, 0_u64, 0_u64);
    for side in sides {
        let all = sum.get_or_insert_with(|| Side { seconds: side.seconds, ..Side::default() });
        add(&mut all.counts, &side.counts);
        all.seconds = all.seconds.max(side.seconds);
        all.retransmits = match (all.retransmits, side.retransmits) {
            (Some(sum), Some(count)) => Some(sum.saturating_add(count)),
            (sum, count) => sum.or(count),
        };
        (count, jitter) = (count + 1, jitter.saturating_add(side.counts.jitter_ns));
    }
    if let Some(sum) = &mut sum {
        sum.counts.jitter_ns = jitter.checked_div(count).unwrap_or(0);
    }
    sum
}

fn summary(flows: &[Flow], params: &Params, totals: &[Total], seconds: f64, is_server: bool) -> String {
    let role_column = if params.bidir { "[Role]" } else { "" };
    let columns = if params.udp { "Jitter    Lost/Total Datagrams" } else { "Retr" };
    let mut text =
        format!("{LINE}[ ID]{role_column} Interval           Transfer     Bitrate         {columns}\n");
    let mut line = |id: &str, role: &str, side: &Side, name: &str| {
        let head = head(id, role, 0.0, side.seconds, side.counts.bytes, side.seconds);
        let tail = match (params.udp, side.retransmits) {
            (true, _) => format!("  {}  {name}", datagrams(&side.counts)),
            (false, Some(count)) if name == "sender" => format!("  {count:3}             {name}"),
            _ => format!("                  {name}"),
        };
        // To write to a string never fails.
        let _ = writeln!(text, "{head}{tail}");
    };
    const NAMES: [&str; 2] = ["sender", "receiver"];
    for (flow, total) in flows.iter().zip(totals) {
        for (side, name) in sides(flow, total, seconds).iter().zip(NAMES) {
            if let Some(side) = side {
                line(&format!("{:3}", label(flow)), &role(flow, params, is_server), side, name);
            }
        }
    }
    for sends in [true, false].into_iter().filter(|_| params.parallel > 1) {
        let each: Vec<_> = flows.iter().zip(totals).filter(|(flow, _)| flow.sends == sends).collect();
        for (at, name) in NAMES.into_iter().enumerate() {
            let of = |(flow, total): &(&Flow, &Total)| sides(flow, total, seconds).get(at).copied().flatten();
            if let (Some(sum), Some((first, _))) = (sum_of_sides(each.iter().filter_map(of)), each.first()) {
                line("SUM", &role(first, params, is_server), &sum, name);
            }
        }
    }
    text
}

/// Interval, transfer and rate.
fn head(id: &str, role: &str, start_s: f64, end_s: f64, count: u64, seconds: f64) -> String {
    let rate = bits(bits_per_second(count, seconds));
    format!("[{id}]{role} {start_s:6.2}-{end_s:<6.2} sec  {}  {rate}/sec", bytes(count as f64))
}

pub(super) fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

pub(super) fn percent(lost: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * lost as f64 / all as f64 }
}

fn datagrams(counts: &Counts) -> String {
    let ms = counts.jitter_ns as f64 / 1e6;
    let share = percent(counts.lost, counts.packets);
    let share = if share == 0.0 || share >= 10.0 { format!("{share:.0}") } else { format!("{share:.2}") };
    format!("{ms:5.3} ms  {}/{} ({share}%)", counts.lost, counts.packets)
}

fn bytes(count: f64) -> String {
    scaled(count, 1024.0, ["Bytes", "KBytes", "MBytes", "GBytes", "TBytes"])
}

fn bits(rate: f64) -> String {
    scaled(rate, 1000.0, ["bits", "Kbits", "Mbits", "Gbits", "Tbits"])
}

/// Three digits and a unit.
fn scaled(mut value: f64, unit: f64, names: [&str; 5]) -> String {
    let mut name = names[0];
    for next in &names[1..] {
        if value < unit {
            break;
        }
        (value, name) = (value / unit, next);
    }
    match value {
        _ if value < 9.995 => format!("{value:4.2} {name}"),
        _ if value < 99.95 => format!("{value:4.1} {name}"),
        _ => format!("{value:4.0} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_as_those_of_iperf3() {
        assert_eq!(
            (bytes(1.5 * 1024.0 * 1024.0 * 1024.0), bits(9.42e9)),
            ("1.50 GBytes".into(), "9.42 Gbits".into())
        );
        assert_eq!(
            (bits(941.0e6), bits(94.1e6), bytes(0.0)),
            (" 941 Mbits".into(), "94.1 Mbits".into(), "0.00 Bytes".into())
        );
        let line = head("  5", "", 0.0, 10.0, 1_177_500_000, 10.0);
        assert_eq!(line, "[  5]   0.00-10.00  sec  1.10 GBytes   942 Mbits/sec");
    }

    #[test]
    fn loss_is_of_all_datagrams() {
        let counts = Counts { packets: 893, lost: 4, jitter_ns: 25_000, ..Counts::default() };
        assert_eq!(datagrams(&counts), "0.025 ms  4/893 (0.45%)");
    }
}
