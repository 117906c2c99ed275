//! Datagrams of sFlow version 5: a header, and samples in the words of XDR (RFC 4506).
//!
//! The format is that of "sFlow Version 5" (sflow.org, July 2004); sections below are of it.

use core::net::IpAddr;

/// Bytes of a datagram that fit any path of Ethernet, behind the headers of IPv6 and UDP.
const DATAGRAM_MAX: usize = 1400;
const VERSION: u32 = 5;
/// Kinds of samples: enterprise 0, formats 1 and 2.
const FLOW_SAMPLE: u32 = 1;
const COUNTERS_SAMPLE: u32 = 2;
/// Records of samples: the first bytes of a frame, and counters of any interface.
const RAW_HEADER: u32 = 1;
const GENERIC_COUNTERS: u32 = 1;
/// Header protocols of sampled bytes.
const ETHERNET: u32 = 1;
const IPV4: u32 = 11;
const IPV6: u32 = 12;
/// Bytes of the frame check sequence, which a frame had on the wire and a sample has not.
const FCS_LEN: u32 = 4;
/// `ethernetCsmacd` of IANA's interface types, and `other`.
const IF_TYPE_ETHERNET: u32 = 6;
const IF_TYPE_OTHER: u32 = 1;

/// The first bytes of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowSample {
    /// The interface that received it.
    pub(crate) ifindex: u32,
    /// Number of frames of which one is sampled.
    pub(crate) rate: u32,
    /// Frames that the interface has received, of which samples are taken.
    pub(crate) pool: u64,
    /// Samples for which there was no room.
    pub(crate) drops: u64,
    /// Whether the bytes begin with an Ethernet header.
    pub(crate) is_ethernet: bool,
    /// Bytes of the frame, without frame check sequence.
    pub(crate) len: u32,
    pub(crate) bytes: Vec<u8>,
}

/// Counters of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CountersSample {
    pub(crate) ifindex: u32,
    pub(crate) is_ethernet: bool,
    pub(crate) is_up: bool,
    pub(crate) has_carrier: bool,
    pub(crate) is_promiscuous: bool,
    pub(crate) rx_bytes: u64,
    pub(crate) rx_packets: u64,
    pub(crate) rx_drops: u64,
    pub(crate) rx_errors: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_drops: u64,
    pub(crate) tx_errors: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sample {
    Flow(FlowSample),
    Counters(CountersSample),
}

/// An agent's datagrams, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) agent: IpAddr,
    sequence: u32,
    /// Samples so far: flows and counters, each of all interfaces.
    flows: u32,
    counters: u32,
}

impl Stream {
    pub(crate) const fn new(agent: IpAddr) -> Self {
        Self { agent, sequence: 0, flows: 0, counters: 0 }
    }

    /// Takes as many samples from the front as one datagram has room for, at least one if there are any, and returns it.
    pub(crate) fn datagram(&mut self, uptime_ms: u64, samples: &mut &[Sample]) -> Vec<u8> {
        let mut body = Vec::new();
        let mut count = 0;
        while let Some((sample, rest)) = samples.split_first() {
            let (flows, counters) = (self.flows, self.counters);
            let bytes = self.sample(sample);
            if count > 0 && body.len() + bytes.len() > DATAGRAM_MAX {
                (self.flows, self.counters) = (flows, counters);
                break;
            }
            body.extend(bytes);
            (count, *samples) = (count + 1, rest);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let mut words = Words::default();
        words.word(VERSION);
        match self.agent {
            IpAddr::V4(address) => words.word(1).bytes(&address.octets()),
            IpAddr::V6(address) => words.word(2).bytes(&address.octets()),
        };
        // One agent on the machine: sub-agent 0.
        words.word(0).word(self.sequence).word(low(uptime_ms)).word(count).bytes(&body);
        words.0
    }

    fn sample(&mut self, sample: &Sample) -> Vec<u8> {
        let mut words = Words::default();
        match sample {
            Sample::Flow(flow) => {
                self.flows = self.flows.wrapping_add(1);
                // Source 0: an interface by its number.
                words.word(self.flows).word(flow.ifindex).word(flow.rate).word(low(flow.pool));
                // Where it will go is not known where it comes.
                words.word(low(flow.drops)).word(flow.ifindex).word(0).word(1);
                words.record(RAW_HEADER, raw_header(flow));
                tagged(FLOW_SAMPLE, words)
            }
            Sample::Counters(counters) => {
                self.counters = self.counters.wrapping_add(1);
                words.word(self.counters).word(counters.ifindex).word(1);
                words.record(GENERIC_COUNTERS, generic_counters(counters));
                tagged(COUNTERS_SAMPLE, words)
            }
        }
    }
}

fn raw_header(flow: &FlowSample) -> Words {
    let (protocol, stripped) = match (flow.is_ethernet, flow.bytes.first().map(|byte| byte >> 4)) {
        (true, _) => (ETHERNET, FCS_LEN),
        (false, Some(6)) => (IPV6, 0),
        (false, _) => (IPV4, 0),
    };
    let mut words = Words::default();
    words.word(protocol).word(flow.len.saturating_add(stripped)).word(stripped);
    words.word(u32::try_from(flow.bytes.len()).unwrap_or(u32::MAX)).bytes(&flow.bytes);
    words
}

fn generic_counters(counters: &CountersSample) -> Words {
    let mut words = Words::default();
    let kind = if counters.is_ethernet { IF_TYPE_ETHERNET } else { IF_TYPE_OTHER };
    let status = u32::from(counters.is_up) | u32::from(counters.has_carrier) << 1;
    // No speed is known; the direction is full duplex.
    words.word(counters.ifindex).word(kind).long(0).word(1).word(status);
    words.long(counters.rx_bytes).word(low(counters.rx_packets));
    // Multicast and broadcast are among the unicast ones: they are not counted apart.
    words.word(0).word(0).word(low(counters.rx_drops)).word(low(counters.rx_errors)).word(0);
    words.long(counters.tx_bytes).word(low(counters.tx_packets)).word(0).word(0);
    words.word(low(counters.tx_drops)).word(low(counters.tx_errors));
    words.word(u32::from(counters.is_promiscuous));
    words
}

fn tagged(kind: u32, body: Words) -> Vec<u8> {
    let mut words = Words::default();
    words.record(kind, body);
    words.0
}

/// A counter of 32 bits: it wraps.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn low(count: u64) -> u32 {
    (count & u32::MAX as u64) as u32
}

/// Words of XDR.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn word(&mut self, word: u32) -> &mut Self {
        self.0.extend(word.to_be_bytes());
        self
    }

    fn long(&mut self, long: u64) -> &mut Self {
        self.0.extend(long.to_be_bytes());
        self
    }

    /// Bytes, and zeros up to a whole word.
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Something with its kind and its length before it.
    fn record(&mut self, kind: u32, body: Self) {
        let len = u32::try_from(body.0.len()).unwrap_or(u32::MAX);
        self.word(kind).word(len).bytes(&body.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(len: usize) -> Sample {
        Sample::Flow(FlowSample {
            ifindex: 3,
            rate: 100,
            pool: (1 << 32) + 5,
            drops: 2,
            is_ethernet: true,
            len: 1000,
            bytes: vec![0xab; len],
        })
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    /// Kinds of the samples of a datagram behind a header with an IPv4 agent, walked by their lengths.
    fn kinds(datagram: &[u8]) -> Vec<u32> {
        let (mut at, mut kinds) = (28, Vec::new());
        while at < datagram.len() {
            kinds.push(word(datagram, at));
            at += 8 + word(datagram, at + 4) as usize;
        }
        assert_eq!((at, kinds.len()), (datagram.len(), word(datagram, 24) as usize));
        kinds
    }

    #[test]
    fn a_sample_has_its_frame_its_pool_and_the_losses() {
        let mut stream = Stream::new([192, 0, 2, 1].into());
        let datagram = stream.datagram(7000, &mut &[flow(61)][..]);
        let head = [5, 1, 0xc000_0201, 0, 1, 7000, 1];
        assert_eq!(core::array::from_fn::<u32, 7, _>(|at| word(&datagram, 4 * at)), head);
        let sample: Vec<u32> = (0..16).map(|at| word(&datagram, 28 + 4 * at)).collect();
        assert_eq!(sample[0], FLOW_SAMPLE);
        // Number, source, rate, pool, drops, input, output, records; then the record's kind and length.
        assert_eq!(sample[2..12], [1, 3, 100, 5, 2, 3, 0, 1, RAW_HEADER, 16 + 64]);
        assert_eq!(sample[12..16], [ETHERNET, 1004, 4, 61]);
        assert_eq!(datagram[92..92 + 61], [0xab; 61]);
        assert_eq!(datagram[92 + 61..], [0; 3]);
    }

    #[test]
    fn datagrams_are_short_and_hold_every_sample_once() {
        let mut all = vec![flow(128); 30];
        all.push(Sample::Counters(CountersSample { ifindex: 3, rx_packets: 9, ..CountersSample::default() }));
        let (mut stream, mut rest, mut seen) = (Stream::new([192, 0, 2, 1].into()), &all[..], Vec::new());
        while !rest.is_empty() {
            let datagram = stream.datagram(0, &mut rest);
            assert!(datagram.len() <= DATAGRAM_MAX + 28);
            seen.extend(kinds(&datagram));
            assert_eq!(word(&datagram, 16), stream.sequence);
        }
        assert_eq!((seen.len(), stream.flows, stream.counters), (31, 30, 1));
        assert!(stream.sequence > 3 && seen.last() == Some(&COUNTERS_SAMPLE));
    }

    #[test]
    fn an_agent_of_ipv6_and_packets_without_frames_say_so() {
        let mut stream = Stream::new("2001:db8::1".parse().unwrap());
        let Sample::Flow(mut raw) = flow(40) else { panic!() };
        (raw.is_ethernet, raw.bytes[0]) = (false, 0x60);
        let datagram = stream.datagram(0, &mut &[Sample::Flow(raw)][..]);
        assert_eq!((word(&datagram, 4), datagram[8]), (2, 0x20));
        assert_eq!((word(&datagram, 88), word(&datagram, 92), word(&datagram, 96)), (IPV6, 1000, 0));
    }
}
