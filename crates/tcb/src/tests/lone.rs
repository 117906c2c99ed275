//! One end alone, and what a script says that comes from the other, in the words of packetdrill.

use core::time::Duration;

use super::super::*;
use wire::tcp::{Cookie, Options};

/// Our initial sequence number, and the other end's.
pub(super) const OURS: u32 = 1000;
pub(super) const THEIRS: u32 = u32::MAX - 10;

/// One end, and what it has sent.
pub(super) struct Lone {
    pub(super) tcb: Tcb,
    pub(super) now: Instant,
}

impl Lone {
    /// An end whose SYN has just gone out.
    pub(super) fn connects(settings: Settings) -> Self {
        let mut end = Self::begins(settings);
        assert_eq!(end.sends().len(), 1);
        end
    }

    /// An end whose SYN goes out next.
    pub(super) fn begins(settings: Settings) -> Self {
        let now = Instant::from_ns(1_000_000);
        Self { tcb: Tcb::connect(settings, (4000, 80), OURS, Stamps::from(0), now), now }
    }

    /// A listener's end, whose answer has just gone out.
    pub(super) fn answers(settings: Settings) -> Self {
        let now = Instant::from_ns(1_000_000);
        let (header, payload) = read("S 0:0(0)", Options { mss: Some(1460), ..Options::NONE });
        let segment = Segment { header: &header, payload: &payload, is_marked: false };
        let tcb = Tcb::answer(settings, (4000, 80), OURS, Stamps::from(0), &segment, now);
        let mut end = Self { tcb, now };
        assert_eq!(end.sends(), ["S. 0:0(0) ack 1 win 65535"]);
        end
    }

    /// A listener's end that takes data with the SYN, and gives a cookie; what it answers.
    pub(super) fn answers_early(payload: &[u8], cookie: Cookie) -> (Self, Vec<String>, Options) {
        let now = Instant::from_ns(1_000_000);
        let (header, _) = read("S 0:0(0)", Options { mss: Some(1460), ..Options::NONE });
        let segment = Segment { header: &header, payload, is_marked: false };
        let mut tcb = Tcb::answer(Settings::default(), (4000, 80), OURS, Stamps::from(0), &segment, now);
        tcb.take_early(payload);
        tcb.give_cookie(cookie);
        tcb.send(b"early");
        let (mut sent, mut options) = (Vec::new(), Options::NONE);
        tcb.output(now, &mut |out| {
            sent.push(shown(&out.header, out.payload.concat().len()));
            options.fast_open = options.fast_open.or(out.header.options.fast_open);
        });
        (Self { tcb, now }, sent, options)
    }

    /// An end in this state, without window scaling, timestamps and SACK.
    pub(super) fn in_state(state: State, settings: Settings) -> Self {
        let mut end = Self::connects(settings);
        if state == State::SynSent {
            return end;
        }
        if state == State::SynReceived {
            assert_eq!(end.gets("S 0:0(0)"), ["S. 0:0(0) ack 1 win 65535"]);
            return end;
        }
        assert_eq!(end.gets("S. 0:0(0) ack 1"), [". 1:1(0) ack 1 win 65535"]);
        match state {
            State::CloseWait | State::LastAck => {
                assert_eq!(end.gets("F. 1:1(0) ack 1"), [". 1:1(0) ack 2 win 65535"])
            }
            State::Established => return end,
            _ => {}
        }
        if state == State::CloseWait {
            return end;
        }
        end.tcb.close();
        assert_eq!(end.sends().len(), 1, "the FIN");
        match state {
            State::FinWait2 => assert!(end.gets(". 1:1(0) ack 2").is_empty()),
            State::Closing => assert_eq!(end.gets("F. 1:1(0) ack 1"), ["F. 1:1(0) ack 2 win 65535"]),
            State::TimeWait => assert_eq!(end.gets("F. 1:1(0) ack 2"), [". 2:2(0) ack 2 win 65535"]),
            _ => {}
        }
        assert_eq!(end.tcb.state(), state);
        end
    }

    /// Returns the segments it sends now.
    pub(super) fn sends(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        self.tcb.output(self.now, &mut |out| sent.push(shown(&out.header, out.payload.concat().len())));
        sent
    }

    /// Returns its output after `text`, which comes with a window of 32767 and, if it is a SYN, an MSS of 1460.
    pub(super) fn gets(&mut self, text: &str) -> Vec<String> {
        let mss = text.starts_with('S').then_some(1460);
        self.gets_with(text, Options { mss, ..Options::NONE })
    }

    /// Returns its output after a segment with options.
    pub(super) fn gets_with(&mut self, text: &str, options: Options) -> Vec<String> {
        let (header, payload) = read(text, options);
        let segment = Segment { header: &header, payload: &payload, is_marked: false };
        match self.tcb.arrive(&segment, self.now) {
            Reply::Nothing | Reply::Withheld => {}
            Reply::Challenge => _ = self.tcb.challenge(self.now),
            Reply::Reset => return vec![format!("R {}", header.ack.wrapping_sub(OURS))],
        }
        self.sends()
    }

    /// The header of an acknowledgment that comes.
    pub(super) fn answer(&self) -> Header {
        read(". 1:1(0) ack 1", Options::NONE).0
    }

    /// Returns its output after `text`, which comes with this window.
    pub(super) fn gets_saying(&mut self, text: &str, window: u16) -> Vec<String> {
        let (header, payload) = read(text, Options::NONE);
        let header = Header { window, ..header };
        let segment = Segment { header: &header, payload: &payload, is_marked: false };
        assert_eq!(self.tcb.arrive(&segment, self.now), Reply::Nothing);
        self.sends()
    }

    /// Lets time go by, and answers what it sends at which millisecond of it.
    pub(super) fn waits(&mut self, time: Duration) -> Vec<(u128, String)> {
        let (from, mut sent) = (self.now, Vec::new());
        let until = from + time;
        while self.tcb.deadline() <= until {
            self.now = self.tcb.deadline();
            self.tcb.expire(self.now);
            let at = self.now.since(from).as_millis();
            sent.extend(self.sends().into_iter().map(|segment| (at, segment)));
        }
        self.now = until;
        sent
    }
}

/// A segment of the other end: flags, first and last sequence number with the length, and `ack` if there is any.
fn read(text: &str, options: Options) -> (Header, Vec<u8>) {
    let words: Vec<_> = text.split(' ').collect();
    let letters =
        [('F', Flags::FIN), ('S', Flags::SYN), ('R', Flags::RST), ('P', Flags::PSH), ('.', Flags::ACK)];
    let letters = letters.into_iter().chain([('E', Flags::ECE)]);
    let is_set = |(letter, _): &(char, Flags)| words[0].contains(*letter);
    let flags = letters.filter(is_set).fold(Flags::NONE, |all, (_, flag)| all | flag);
    let (seq, rest) = words[1].split_once(':').unwrap();
    let len = rest[rest.find('(').unwrap() + 1..].trim_end_matches(')').parse().unwrap();
    let ack = if words.len() > 2 { OURS.wrapping_add(words[3].parse().unwrap()) } else { 0 };
    let seq = THEIRS.wrapping_add(seq.parse().unwrap());
    let header = Header { src_port: 80, dst_port: 4000, seq, ack, flags, window: 32_767, urgent: 0, options };
    (header, vec![7; len])
}

/// A segment of ours in the same words, with its window.
fn shown(header: &Header, len: usize) -> String {
    let seq = header.seq.wrapping_sub(OURS);
    let ack = match header.flags.ack() {
        true => format!(" ack {}", header.ack.wrapping_sub(THEIRS)),
        false => String::new(),
    };
    let end = seq + u32::try_from(len).unwrap();
    format!("{} {seq}:{end}({len}){ack} win {}", header.flags, header.window)
}
