//! States, parameters and results, as iperf3 sends them over the control connection.

use core::time::Duration;

use serde_json::{Map, Value, json};

use super::Problem;

/// Bytes of the cookie that begins each connection of a test: 36 characters and a NUL.
pub(super) const COOKIE_LEN: usize = 37;
pub(super) const PORT: u16 = 5201;

/// A greeting of a stream of UDP and its reply, in the byte order of the hosts as iperf3 has it, and those of old ones.
pub(super) const GREETING: u32 = 0x3637_3839;
pub(super) const REPLY: u32 = 0x3938_3736;
pub(super) const OLD_GREETING: u32 = 123_456_789;
pub(super) const OLD_REPLY: u32 = 987_654_321;

/// Streams in one direction.
pub(super) const STREAMS_MAX: u32 = 128;
/// Bytes that are written at once.
pub(super) const BLOCK_MAX: u32 = 1 << 20;
/// Header of a datagram: seconds, microseconds, number of 32 or 64 bits.
pub(super) const DATAGRAM_MIN: u32 = 16;
pub(super) const DATAGRAM_MAX: u32 = 65_507;
/// A day.
pub(super) const SECONDS_MAX: u64 = 86_400;
pub(super) const OMIT_MAX: u64 = 600;

/// Sizes of control messages that are read: parameters are short, results may bring the peer's report.
pub(super) const PARAMS_MAX: u32 = 1 << 16;
pub(super) const RESULTS_MAX: u32 = 1 << 22;

/// The state that one end tells the other, a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    TestStart,
    TestRunning,
    TestEnd,
    ParamExchange,
    CreateStreams,
    ServerTerminate,
    ClientTerminate,
    ExchangeResults,
    DisplayResults,
    Start,
    Done,
    AccessDenied,
    ServerError,
}

const STATES: &[(i8, State)] = &[
    (1, State::TestStart),
    (2, State::TestRunning),
    (4, State::TestEnd),
    (9, State::ParamExchange),
    (10, State::CreateStreams),
    (11, State::ServerTerminate),
    (12, State::ClientTerminate),
    (13, State::ExchangeResults),
    (14, State::DisplayResults),
    (15, State::Start),
    (16, State::Done),
    (-1, State::AccessDenied),
    (-2, State::ServerError),
];

impl State {
    pub(super) fn byte(self) -> u8 {
        STATES.iter().find(|(_, state)| *state == self).map_or(0, |(byte, _)| byte.cast_unsigned())
    }

    pub(super) fn of(byte: u8) -> Result<Self, Problem> {
        let byte = byte.cast_signed();
        let found = STATES.iter().find(|(known, _)| *known == byte);
        found.map(|(_, state)| *state).ok_or(Problem::UnknownState(byte))
    }
}

/// Numbers of iperf3's errors, which a server sends behind [`State::ServerError`].
pub(super) mod code {
    pub(in super::super) const NUMBER_OF_STREAMS: i32 = 6;
    pub(in super::super) const BLOCK_SIZE: i32 = 7;
    pub(in super::super) const DURATION: i32 = 5;
    pub(in super::super) const RECEIVE_PARAMS: i32 = 114;
    pub(in super::super) const PROTOCOL: i32 = 131;
    pub(in super::super) const CREATE_STREAM: i32 = 200;
}

/// Parameters of a test: what the client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) udp: bool,
    /// Seconds at the beginning that are not counted.
    pub(super) omit_s: u64,
    pub(super) time_s: u64,
    /// Bytes or blocks after which the test ends, if not 0.
    pub(super) bytes: u64,
    pub(super) blocks: u64,
    pub(super) parallel: u32,
    /// The server sends.
    pub(super) reverse: bool,
    /// Both send.
    pub(super) bidir: bool,
    pub(super) block: u32,
    /// Bits per second of each stream; 0: as fast as it goes.
    pub(super) rate: u64,
    pub(super) wide_numbers: bool,
    pub(super) nodelay: bool,
    pub(super) mss: u32,
    pub(super) window: u32,
    pub(super) tos: u8,
    pub(super) congestion: Option<String>,
}

impl Params {
    /// Whether the client sends, and whether the server does.
    pub(super) const fn directions(&self) -> (bool, bool) {
        (self.bidir || !self.reverse, self.bidir || self.reverse)
    }

    /// Time from the first byte to the last, if the test is limited by time.
    pub(super) const fn duration(&self) -> Option<Duration> {
        if self.bytes > 0 || self.blocks > 0 || self.time_s == 0 {
            return None;
        }
        Some(Duration::from_secs(self.omit_s + self.time_s))
    }

    pub(super) fn protocol(&self) -> &'static str {
        if self.udp { "UDP" } else { "TCP" }
    }

    /// Writes them as iperf3 does.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        put(if self.udp { "udp" } else { "tcp" }, json!(true));
        put("omit", json!(self.omit_s));
        put("time", json!(self.time_s));
        put("num", json!(self.bytes));
        put("blockcount", json!(self.blocks));
        put("parallel", json!(self.parallel));
        put("len", json!(self.block));
        put("pacing_timer", json!(1000));
        let numbers = [("bandwidth", self.rate), ("MSS", self.mss.into()), ("window", self.window.into())];
        for (key, value) in numbers.into_iter().chain([("TOS", self.tos.into())]) {
            if value > 0 {
                put(key, json!(value));
            }
        }
        for (key, is_set) in
            [("reverse", self.reverse), ("bidirectional", self.bidir), ("nodelay", self.nodelay)]
        {
            if is_set {
                put(key, json!(true));
            }
        }
        if self.wide_numbers {
            put("udp_counters_64bit", json!(1));
        }
        if let Some(name) = &self.congestion {
            put("congestion", json!(name));
        }
        put("client_version", json!(VERSION));
        Value::Object(map)
    }

    /// Reads and checks them.
    ///
    /// # Errors
    /// iperf3's number of the error, and a sentence.
    pub(super) fn of_json(value: &Value) -> Result<Self, (i32, String)> {
        let wrong = |code, text: &str| Err((code, text.to_owned()));
        let number = |key: &str| number(value, key).map_err(|text| (code::RECEIVE_PARAMS, text));
        let is_set = |key: &str| is_set(value, key);
        if !value.is_object() {
            return wrong(code::RECEIVE_PARAMS, "parameters are not an object");
        }
        let udp = is_set("udp");
        if is_set("sctp") || udp == is_set("tcp") {
            return wrong(code::PROTOCOL, "parameters name neither TCP nor UDP alone");
        }
        let parallel = match number("parallel")? {
            0 => 1,
            count if count <= u64::from(STREAMS_MAX) => u32::try_from(count).unwrap_or(STREAMS_MAX),
            _ => return wrong(code::NUMBER_OF_STREAMS, "more than 128 streams"),
        };
        let range = if udp { DATAGRAM_MIN..=DATAGRAM_MAX } else { 1..=BLOCK_MAX };
        let block = u32::try_from(number("len")?).unwrap_or(u32::MAX);
        if !range.contains(&block) {
            return wrong(code::BLOCK_SIZE, "`len` is out of range");
        }
        let (omit_s, time_s) = (number("omit")?, number("time")?);
        if omit_s > OMIT_MAX || time_s > SECONDS_MAX {
            return wrong(code::DURATION, "the test is longer than a day, or omits more than ten minutes");
        }
        let small = |key: &str| number(key).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Ok(Self {
            udp,
            omit_s,
            time_s,
            bytes: number("num")?,
            blocks: number("blockcount")?,
            parallel,
            reverse: is_set("reverse"),
            bidir: is_set("bidirectional"),
            block,
            rate: number("bandwidth")?,
            wide_numbers: is_set("udp_counters_64bit"),
            nodelay: is_set("nodelay"),
            mss: small("MSS")?,
            window: small("window")?,
            tos: u8::try_from(number("TOS")?).unwrap_or(0),
            congestion: value.get("congestion").and_then(Value::as_str).map(str::to_owned),
        })
    }
}

pub(super) const VERSION: &str = concat!("pantala ", env!("CARGO_PKG_VERSION"));

/// Results of one stream, as the other end has counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct StreamResult {
    pub(super) id: u32,
    pub(super) bytes: u64,
    /// None if the end does not send, or does not know.
    pub(super) retransmits: Option<u64>,
    pub(super) jitter_s: f64,
    pub(super) lost: u64,
    pub(super) packets: u64,
    pub(super) end_s: f64,
}

/// Results of one end.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Results {
    /// Per cent of a CPU: all, in user mode, in the kernel.
    pub(super) cpu: [f64; 3],
    pub(super) has_retransmits: bool,
    pub(super) congestion: Option<String>,
    pub(super) streams: Vec<StreamResult>,
}

impl Results {
    pub(super) fn to_json(&self) -> Value {
        let stream = |stream: &StreamResult| {
            json!({
                "id": stream.id,
                "bytes": stream.bytes,
                "retransmits": stream.retransmits.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)),
                "jitter": stream.jitter_s,
                "errors": stream.lost,
                "omitted_errors": 0,
                "packets": stream.packets,
                "omitted_packets": 0,
                "start_time": 0,
                "end_time": stream.end_s,
            })
        };
        let [total, user, system] = self.cpu;
        let mut all = json!({
            "cpu_util_total": total,
            "cpu_util_user": user,
            "cpu_util_system": system,
            "sender_has_retransmits": if self.has_retransmits { 1 } else { -1 },
            "streams": self.streams.iter().map(stream).collect::<Vec<_>>(),
        });
        if let (Some(name), Some(map)) = (&self.congestion, all.as_object_mut()) {
            map.insert("congestion_used".to_owned(), json!(name));
        }
        all
    }

    pub(super) fn of_json(value: &Value) -> Result<Self, Problem> {
        let garbled = |text: String| Problem::Garbled(text);
        let real = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let Some(listed) = value.get("streams").and_then(Value::as_array) else {
            return Err(garbled("results have no `streams`".to_owned()));
        };
        if listed.len() > 2 * STREAMS_MAX as usize {
            return Err(garbled(format!("results of {} streams", listed.len())));
        }
        let stream = |value: &Value| {
            Ok(StreamResult {
                id: u32::try_from(number(value, "id").map_err(garbled)?).unwrap_or(u32::MAX),
                bytes: number(value, "bytes").map_err(garbled)?,
                retransmits: number(value, "retransmits").ok(),
                jitter_s: real(value, "jitter"),
                lost: number(value, "errors").unwrap_or(0),
                packets: number(value, "packets").unwrap_or(0),
                end_s: real(value, "end_time"),
            })
        };
        Ok(Self {
            cpu: ["cpu_util_total", "cpu_util_user", "cpu_util_system"].map(|key| real(value, key)),
            has_retransmits: real(value, "sender_has_retransmits") > 0.0,
            congestion: value.get("congestion_used").and_then(Value::as_str).map(str::to_owned),
            streams: listed.iter().map(stream).collect::<Result<_, Problem>>()?,
        })
    }
}

/// A number that is not negative. iperf3's JSON writes large ones in floating point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range has been checked")]
fn number(value: &Value, key: &str) -> Result<u64, String> {
    let Some(value) = value.get(key) else { return Ok(0) };
    let real = value.as_f64().filter(|real| (0.0..1e18).contains(real));
    let whole = value.as_u64().filter(|whole| *whole < 1 << 60);
    whole
        .or_else(|| real.map(|real| real as u64))
        .ok_or_else(|| format!("`{key}` is not a number in its range"))
}

/// A switch: `true`, or a number other than 0.
fn is_set(value: &Value, key: &str) -> bool {
    value
        .get(key)
        .is_some_and(|value| value.as_bool().unwrap_or_else(|| value.as_f64().is_some_and(|n| n != 0.0)))
}
