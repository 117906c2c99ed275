//! Numbers with units, and masks of flows.

use crate::command::{FlowMask, QueueLimit};
use crate::error::Fault;
use crate::limit::{BANDWIDTH_MAX, BURST_MAX, DELAY_MAX_MS, QUEUE_BYTES_MAX, QUEUE_MAX};
use crate::words::{Tokens, Word};

/// The digits a word begins with, with what may stand behind a point, and the rest.
fn split(word: Word<'_>) -> (Word<'_>, Word<'_>) {
    let at = word.text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.text.len());
    (word.part(0..at), word.part(at..word.text.len()))
}

/// A decimal number times `scale`, if it is whole.
fn times(word: Word<'_>, scale: u64) -> Option<u64> {
    let (whole, part) = word.text.split_once('.').unwrap_or((word.text, ""));
    let whole: u64 = whole.parse().ok()?;
    let part = part.trim_end_matches('0');
    let one = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let part = part.checked_mul(scale).filter(|part| part % one == 0)? / one;
    whole.checked_mul(scale)?.checked_add(part)
}

/// `10Mbit/s`, `64KByte/s`, `1.5Gbit/s`, `300000`; the unit may be a word of its own.
pub(crate) fn bandwidth(word: Word<'_>, words: &mut Tokens<'_>) -> Result<u64, Fault> {
    const EXPECTED: &str = "bits per second up to 1000Gbit/s, such as 10Mbit/s or 64KByte/s; 0 for no limit";
    let (number, mut unit) = split(word);
    if number.text.is_empty() {
        let fault = word.fault(format!("`{}` is no bandwidth", word.text)).expected(EXPECTED);
        return Err(fault.help("a pipe does not follow the speed of an interface: write how much it is"));
    }
    if unit.text.is_empty()
        && let Some(next) = words.peek().filter(|next| scale(next.text).is_some())
    {
        words.skip();
        unit = next;
    }
    let value = scale(unit.text).and_then(|scale| times(number, scale));
    value.filter(|&value| value <= BANDWIDTH_MAX).ok_or_else(|| {
        let fault = match (scale(unit.text), value) {
            (None, _) => unit.fault(format!("`{}` is no unit of bandwidth", unit.text)),
            (_, Some(_)) => word.fault(format!("`{}` is out of range", word.text)),
            _ => word.fault(format!("`{}` is no bandwidth", word.text)),
        };
        fault.expected(EXPECTED)
    })
}

/// Returns the bits per second of a unit.
fn scale(unit: &str) -> Option<u64> {
    let (scale, rest) = match unit.as_bytes() {
        [b'k' | b'K', ..] => (1000, &unit[1..]),
        [b'M', ..] => (1_000_000, &unit[1..]),
        [b'G', ..] => (1_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    match rest {
        "" | "bit/s" | "bits/s" | "bps" | "bit" => Some(scale),
        "Byte/s" | "Bytes/s" | "byte/s" | "bytes/s" | "B/s" => Some(scale * 8),
        _ => None,
    }
}

/// `100` or `100ms`.
pub(crate) fn delay_ms(word: Word<'_>) -> Result<u32, Fault> {
    word.strip_suffix("ms").unwrap_or(word).number("milliseconds", 0..=DELAY_MAX_MS)
}

/// `15000`, `64K`, `1M`.
pub(crate) fn bytes(word: Word<'_>) -> Result<u64, Fault> {
    let (number, unit) = split(word);
    let scale = match unit.text.to_ascii_lowercase().trim_end_matches("bytes").trim_end_matches("byte") {
        "" => Some(1),
        "k" => Some(1024),
        "m" => Some(1 << 20),
        _ => None,
    };
    scale.and_then(|scale| times(number, scale)).filter(|&bytes| bytes <= BURST_MAX).ok_or_else(|| {
        word.fault(format!("`{}` is no number of bytes", word.text))
            .expected("bytes, such as 15000, 64K or 1M")
    })
}

/// `50`, `10Kbytes`, `20000bytes`.
pub(crate) fn queue_limit(word: Word<'_>) -> Result<QueueLimit, Fault> {
    let (number, unit) = split(word);
    if unit.text.is_empty() {
        return word.number("packets (or a size, as in 64Kbytes)", 1..=QUEUE_MAX).map(QueueLimit::Packets);
    }
    let bytes = bytes(word).ok().and_then(|bytes| u32::try_from(bytes).ok());
    match bytes.filter(|bytes| (1..=QUEUE_BYTES_MAX).contains(bytes)) {
        Some(bytes) if !number.text.is_empty() => Ok(QueueLimit::Bytes(bytes)),
        _ => Err(word
            .fault(format!("`{}` is no length of a queue", word.text))
            .expected("1 to 100 packets, or up to 1024Kbytes")),
    }
}

/// `5ms`, `100us`, `1s`; milliseconds without a unit.
pub(crate) fn time_us(word: Word<'_>) -> Result<u32, Fault> {
    let (number, unit) = split(word);
    let scale = match unit.text {
        "us" => Some(1),
        "" | "ms" => Some(1000),
        "s" => Some(1_000_000),
        _ => None,
    };
    let time = scale.and_then(|scale| times(number, scale)).and_then(|time| u32::try_from(time).ok());
    time.filter(|time| (1..=10_000_000).contains(time))
        .ok_or_else(|| word.fault(format!("`{}` is no time", word.text)).expected("1us to 10s, such as 5ms"))
}

/// The words behind `mask`: `all`, or parts of flows with bits.
pub(crate) fn mask(words: &mut Tokens<'_>) -> Result<FlowMask, Fault> {
    const EXPECTED: &str = "all, or proto, src-ip, dst-ip, src-port, dst-port, src-ip6, dst-ip6 or flow-id with bits, \
                            such as src-ip 0xffffffff or src-ip6 /64";
    let mut mask = FlowMask::default();
    let first = words.peek();
    while let Some(word) = words.peek() {
        let mut take = |max: u128| {
            words.skip();
            bits(words.take("bits, such as 0xff or /24")?, max)
        };
        match word.text {
            "all" => {
                mask = ALL;
                words.skip();
            }
            "proto" => mask.proto = take(u128::from(u8::MAX))?.try_into().unwrap_or(u8::MAX),
            "src-ip" => mask.src_ip = take(u128::from(u32::MAX))?.try_into().unwrap_or(u32::MAX),
            "dst-ip" => mask.dst_ip = take(u128::from(u32::MAX))?.try_into().unwrap_or(u32::MAX),
            "src-port" => mask.src_port = take(u128::from(u16::MAX))?.try_into().unwrap_or(u16::MAX),
            "dst-port" => mask.dst_port = take(u128::from(u16::MAX))?.try_into().unwrap_or(u16::MAX),
            "src-ip6" => mask.src_ip6 = take(u128::MAX)?,
            "dst-ip6" => mask.dst_ip6 = take(u128::MAX)?,
            "flow-id" => mask.flow_label = take(LABEL)?.try_into().unwrap_or(0xf_ffff),
            _ => break,
        }
    }
    match first {
        Some(_) if mask != FlowMask::default() => Ok(mask),
        Some(word) => Err(word.fault("this mask has no bits").expected(EXPECTED)),
        None => Err(words.too_short(EXPECTED)),
    }
}

/// Bits of a flow label.
const LABEL: u128 = 0xf_ffff;

const ALL: FlowMask = FlowMask {
    proto: u8::MAX,
    src_ip: u32::MAX,
    dst_ip: u32::MAX,
    src_port: u16::MAX,
    dst_port: u16::MAX,
    src_ip6: u128::MAX,
    dst_ip6: u128::MAX,
    flow_label: 0xf_ffff,
};

/// A number, hexadecimal or not, or as many upper bits as stand behind a slash.
fn bits(word: Word<'_>, max: u128) -> Result<u128, Fault> {
    let width = u128::BITS - max.leading_zeros();
    if let Some(len) = word.strip_prefix("/") {
        let len: u32 = len.number("how many bits count", 0..=width)?;
        return Ok(max ^ max.checked_shr(len).unwrap_or(0));
    }
    let value = match word.text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u128::from_str_radix(digits, 16).ok(),
        _ => word.text.parse().ok().filter(|_| !word.text.starts_with('+')),
    };
    value.filter(|&value| value <= max).ok_or_else(|| {
        let fault = word.fault(format!("`{}` is no mask of {width} bits", word.text));
        fault.expected(format!("0x0 to {max:#x}, or /0 to /{width}"))
    })
}
