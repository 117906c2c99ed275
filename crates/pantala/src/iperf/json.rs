//! The JSON document of a test, with the keys of iperf3.

use core::net::SocketAddr;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::Problem;
use super::course::{Course, Interval, Row, Total};
use super::flow::{Counts, Flow};
use super::protocol::{Params, Results, VERSION};
use super::text::{Side, bits_per_second, label, percent, sides, sum_of_rows, sum_of_sides};

/// Intervals that a document keeps, streams times intervals; further ones are counted.
const ROWS_MAX: usize = 100_000;

#[derive(Default)]
pub(super) struct Document {
    start: Map<String, Value>,
    intervals: Vec<Value>,
    rows: usize,
    left_out: u64,
    end: Option<Value>,
    /// Round-trip times before the test and during it.
    pub(super) round_trips: Option<Value>,
}

impl Document {
    pub(super) fn begin(&mut self, key: &str, peer: SocketAddr, cookie: Option<&[u8]>) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = httpdate::fmt_http_date(SystemTime::now());
        let mut put = |key: &str, value: Value| self.start.insert(key.to_owned(), value);
        put("version", json!(VERSION));
        put("timestamp", json!({ "time": time, "timesecs": since.as_secs() }));
        put(key, json!({ "host": peer.ip().to_canonical().to_string(), "port": peer.port() }));
        if let Some(cookie) = cookie {
            put("cookie", json!(String::from_utf8_lossy(cookie).trim_end_matches('\0')));
        }
    }

    pub(super) fn connected(&mut self, flows: &[Flow], params: &Params) {
        let connected = |flow: &Flow| {
            json!({
                "socket": label(flow),
                "local_host": flow.local.ip().to_canonical().to_string(),
                "local_port": flow.local.port(),
                "remote_host": flow.remote.ip().to_canonical().to_string(),
                "remote_port": flow.remote.port(),
            })
        };
        let connected: Vec<Value> = flows.iter().map(connected).collect();
        self.start.insert("connected".to_owned(), json!(connected));
        let test = json!({
            "protocol": params.protocol(),
            "num_streams": params.parallel,
            "blksize": params.block,
            "omit": params.omit_s,
            "duration": params.time_s,
            "bytes": params.bytes,
            "blocks": params.blocks,
            "reverse": u8::from(params.reverse),
            "tos": params.tos,
            "target_bitrate": params.rate,
            "bidir": u8::from(params.bidir),
        });
        self.start.insert("test_start".to_owned(), test);
    }

    pub(super) fn interval(&mut self, flows: &[Flow], params: &Params, interval: &Interval) {
        self.rows += flows.len();
        if self.rows > ROWS_MAX {
            self.left_out += 1;
            return;
        }
        let time = |row: &Row, sends: bool| {
            let mut value = numbers(interval.start_s, interval.end_s, &row.counts);
            put_interval(&mut value, row, params.udp, sends);
            value.insert("omitted".to_owned(), json!(interval.is_omitted));
            value.insert("sender".to_owned(), json!(sends));
            value
        };
        let stream = |(flow, row): (&Flow, &Row)| {
            let mut value = time(row, flow.sends);
            value.insert("socket".to_owned(), json!(label(flow)));
            value
        };
        let mut value = Map::new();
        let streams: Vec<_> = flows.iter().zip(&interval.rows).map(stream).collect();
        value.insert("streams".to_owned(), json!(streams));
        for (key, sends) in keys(params, flows) {
            let of = |(flow, _): &(&Flow, &Row)| flow.sends == sends;
            let sum = sum_of_rows(flows.iter().zip(&interval.rows).filter(of).map(|(_, row)| *row));
            value.insert(key.to_owned(), json!(time(&sum, sends)));
        }
        self.intervals.push(Value::Object(value));
    }

    pub(super) fn end(&mut self, course: &Course<'_>, totals: &[Total], peer: Option<&Results>) {
        let (flows, params, seconds) = (&course.flows, course.params, course.seconds);
        let each: Vec<_> = flows.iter().zip(totals).collect();
        let streams: Vec<Value> =
            each.iter().map(|(flow, total)| stream(flow, total, params, seconds)).collect();
        let mut end = Map::new();
        end.insert("streams".to_owned(), json!(streams));
        let first = flows.first().is_some_and(|flow| flow.sends);
        for (suffix, sends) in [("", first), ("_bidir_reverse", !first)] {
            let mut received = None;
            for (at, name) in ["sum_sent", "sum_received"].into_iter().enumerate() {
                let of = |(flow, total): &(&Flow, &Total)| {
                    sides(flow, total, seconds).get(at).copied().flatten().filter(|_| flow.sends == sends)
                };
                if let Some(sum) = sum_of_sides(each.iter().filter_map(of)) {
                    let value = side(&sum, params.udp, sends);
                    received = Some(value.clone());
                    end.insert(format!("{name}{suffix}"), json!(value));
                }
            }
            if let Some(value) = received.filter(|_| params.udp) {
                end.insert(format!("sum{suffix}"), json!(value));
            }
        }
        let cpu = |prefix: &str, [total, user, system]: [f64; 3]| {
            [("total", total), ("user", user), ("system", system)]
                .map(|(key, share)| (format!("{prefix}_{key}"), json!(share)))
        };
        let remote = cpu("remote", peer.map_or([0.0; 3], |peer| peer.cpu));
        let cpu: Map<String, Value> = cpu("host", course.cpu).into_iter().chain(remote).collect();
        end.insert("cpu_utilization_percent".to_owned(), json!(cpu));
        let (own, other) = (course.congestion(), peer.and_then(|peer| peer.congestion.clone()));
        let (sender, receiver) = if first { (own, other) } else { (other, own) };
        for (key, name) in [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)] {
            if let Some(name) = name.filter(|_| !params.udp) {
                end.insert(key.to_owned(), json!(name));
            }
        }
        self.end = Some(Value::Object(end));
    }

    /// Writes the document, and why the test has failed if it has.
    pub(super) fn text(self, why: Option<&Problem>) -> String {
        let mut all = json!({ "start": self.start, "intervals": self.intervals });
        if let Some(map) = all.as_object_mut() {
            map.insert("end".to_owned(), self.end.unwrap_or_else(|| json!({})));
            if let (Some(times), Some(end)) =
                (self.round_trips, map.get_mut("end").and_then(Value::as_object_mut))
            {
                end.insert("rrul".to_owned(), times);
            }
            if self.left_out > 0 {
                map.insert("intervals_left_out".to_owned(), json!(self.left_out));
            }
            if let Some(why) = why {
                map.insert("error".to_owned(), json!(why.to_string()));
            }
        }
        format!("{all:#}\n")
    }
}

/// Keys of sums of an interval, and whether they are of streams that we send.
fn keys(params: &Params, flows: &[Flow]) -> Vec<(&'static str, bool)> {
    let first = flows.first().is_some_and(|flow| flow.sends);
    let both = [("sum", first), ("sum_bidir_reverse", !first)];
    both.into_iter().take(if params.bidir { 2 } else { 1 }).collect()
}

fn numbers(start_s: f64, end_s: f64, counts: &Counts) -> Map<String, Value> {
    let seconds = end_s - start_s;
    let pairs = [
        ("start", json!(start_s)),
        ("end", json!(end_s)),
        ("seconds", json!(seconds)),
        ("bytes", json!(counts.bytes)),
        ("bits_per_second", json!(bits_per_second(counts.bytes, seconds))),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn put_interval(value: &mut Map<String, Value>, row: &Row, udp: bool, sends: bool) {
    if udp && sends {
        value.insert("packets".to_owned(), json!(row.counts.packets));
    } else if udp {
        put_datagrams(value, &row.counts);
    }
    if let Some(tcp) = row.tcp {
        value.insert("retransmits".to_owned(), json!(tcp.retransmits));
        // A sum has no window.
        if tcp.cwnd > 0 {
            for (key, number) in [
                ("snd_cwnd", tcp.cwnd.into()),
                ("snd_wnd", tcp.snd_wnd.into()),
                ("rtt", tcp.rtt_us),
                ("rttvar", tcp.rttvar_us),
                ("pmtu", tcp.pmtu.into()),
            ] {
                value.insert(key.to_owned(), json!(number));
            }
        }
    }
}

fn put_datagrams(value: &mut Map<String, Value>, counts: &Counts) {
    for (key, number) in [
        ("jitter_ms", json!(counts.jitter_ns as f64 / 1e6)),
        ("lost_packets", json!(counts.lost)),
        ("packets", json!(counts.packets)),
        ("lost_percent", json!(percent(counts.lost, counts.packets))),
        ("out_of_order", json!(counts.out_of_order)),
    ] {
        value.insert(key.to_owned(), number);
    }
}

/// One end's counts. `sender` says whether this end sends, as iperf3 has it.
fn side(side: &Side, udp: bool, sends: bool) -> Map<String, Value> {
    let mut value = numbers(0.0, side.seconds, &side.counts);
    if udp {
        put_datagrams(&mut value, &side.counts);
    }
    if let Some(count) = side.retransmits {
        value.insert("retransmits".to_owned(), json!(count));
    }
    value.insert("sender".to_owned(), json!(sends));
    value
}

fn stream(flow: &Flow, total: &Total, params: &Params, seconds: f64) -> Value {
    let [sender, receiver] = sides(flow, total, seconds);
    let with_socket = |mut value: Map<String, Value>| {
        value.insert("socket".to_owned(), json!(label(flow)));
        value
    };
    if params.udp {
        // The receiver knows what was lost.
        let shown = receiver.or(sender).unwrap_or_default();
        return json!({ "udp": with_socket(side(&shown, true, flow.sends)) });
    }
    let mut all = Map::new();
    if let Some(sender) = sender {
        let mut value = with_socket(side(&sender, false, flow.sends));
        if let Some([least, mean, most]) = total.rtt_us {
            for (key, number) in [
                ("max_snd_cwnd", total.max_cwnd.into()),
                ("max_snd_wnd", total.max_snd_wnd.into()),
                ("max_rtt", most),
                ("min_rtt", least),
                ("mean_rtt", mean),
            ] {
                value.insert(key.to_owned(), json!(number));
            }
        }
        all.insert("sender".to_owned(), json!(value));
    }
    if let Some(receiver) = receiver {
        let mut value = with_socket(side(&receiver, false, flow.sends));
        value.remove("retransmits");
        all.insert("receiver".to_owned(), json!(value));
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_a_bounded_number_of_intervals() {
        let mut document = Document { rows: ROWS_MAX - 1, ..Document::default() };
        let params =
            Params::of_json(&json!({ "tcp": true, "len": 1 })).unwrap_or_else(|why| panic!("{why:?}"));
        let interval = Interval { start_s: 0.0, end_s: 1.0, is_omitted: false, rows: Vec::new() };
        let at = SocketAddr::from(([192, 0, 2, 1], 1));
        let flow = Flow::between(0, true, (at, at));
        for _ in 0..3 {
            document.interval(core::slice::from_ref(&flow), &params, &interval);
        }
        assert_eq!((document.intervals.len(), document.left_out), (1, 2));
        assert!(document.text(None).contains("\"intervals_left_out\": 2"));
    }
}
