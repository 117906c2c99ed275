//! Urgent data: marks that are told and read, and what others do with them (ATTACKS: URGENT/11).

use wire::tcp::Flags;

use super::lone::{Lone, OURS, THEIRS};
use super::*;

/// An end whose connection stands, and that reads the last urgent byte with all else or not.
fn standing(urgent_inline: bool) -> Lone {
    Lone::in_state(
        State::Established,
        Settings { urgent_inline, nodelay: true, tunes_receive: false, ..Settings::default() },
    )
}

/// Receives `bytes` at this position of the stream, with an urgent pointer.
fn gets(end: &mut Lone, at: u32, bytes: &[u8], urgent: u16) {
    let flags = Flags::ACK | Flags::URG;
    let (seq, ack) = (THEIRS.wrapping_add(1 + at), OURS + 1);
    let options = Options::NONE;
    let header = Header { src_port: 80, dst_port: 4000, seq, ack, flags, window: 32_767, urgent, options };
    let _ = end.tcb.arrive(&Segment { header: &header, payload: bytes, is_marked: false }, end.now);
}

fn reads(end: &mut Lone) -> Vec<u8> {
    let mut into = [0; 100];
    let count = end.tcb.read(&mut into);
    into[..count].to_vec()
}

/// Flags, urgent pointer and length of what is sent now.
fn sends(end: &mut Lone) -> Vec<(bool, u16, usize)> {
    let mut sent = Vec::new();
    let now = end.now;
    end.tcb.output(now, &mut |out| {
        let has_flag = out.header.flags.contains(Flags::URG);
        sent.push((has_flag, out.header.urgent, out.payload.concat().len()));
    });
    sent
}

#[test]
fn the_urgent_pointer_is_sent_until_it_is_acknowledged() {
    let mut end = standing(true);
    end.tcb.send(b"plain");
    assert_eq!(sends(&mut end), [(false, 0, 5)]);
    assert_eq!(end.tcb.send_urgent(b"urgent"), 6);
    assert_eq!(sends(&mut end), [(true, 6, 6)]);
    end.tcb.send(b"plain again");
    assert_eq!(sends(&mut end), [(false, 0, 11)], "behind the mark");
    // All is sent again, and what stands before the mark says so.
    end.now = end.tcb.deadline();
    end.tcb.expire(end.now);
    assert!(sends(&mut end)[0].0);
    assert!(end.gets(". 1:1(0) ack 23").is_empty());
    end.tcb.send(b"more");
    assert_eq!(sends(&mut end), [(false, 0, 4)]);
}

#[test]
fn the_other_end_is_told_at_once_though_its_window_is_closed_or_the_mark_is_far() {
    let mut end = standing(true);
    end.tcb.change(settings::Change::SendBuffer(1 << 20), end.now);
    assert_eq!(end.tcb.send_urgent(&bytes(100_000)), 100_000);
    let sent = sends(&mut end);
    assert_eq!(sent.len(), 10, "no super-packets, and the congestion window");
    assert!(sent.iter().all(|(flag, pointer, _)| *flag && *pointer == u16::MAX), "as far as can be said");
    let mut end = standing(true);
    end.tcb.change(settings::Change::SendBuffer(1 << 20), end.now);
    end.tcb.send(&bytes(40_000));
    while !sends(&mut end).is_empty() {}
    assert_eq!(end.tcb.send_urgent(b"!"), 1);
    assert_eq!(sends(&mut end), [(true, 25_401, 0)], "nothing fits, but it is said");
    assert!(sends(&mut end).is_empty(), "once");
}

#[test]
fn a_device_that_cuts_gets_no_super_packet_with_a_mark() {
    let settings = Settings { super_bytes: 60_000, nodelay: true, ..Settings::default() };
    let mut end = Lone::in_state(State::Established, settings);
    end.tcb.send_urgent(&bytes(4000));
    assert_eq!(sends(&mut end), [(true, 4000, 1460), (true, 2540, 1460), (true, 1080, 1080)]);
    end.tcb.send(&bytes(4000));
    assert_eq!(sends(&mut end)[0], (false, 0, 2920));
}

#[test]
fn urgent_bytes_are_read_in_their_place_and_reading_stops_at_the_last_once() {
    let mut end = standing(true);
    gets(&mut end, 0, b"abcde", 4);
    assert_eq!((end.tcb.urgent(), end.tcb.is_at_mark(), end.tcb.readable()), (Some(4), false, 5));
    let shown = end.tcb.read_in_place(|pieces| (1, pieces.concat()));
    assert_eq!(shown, b"abc");
    assert_eq!(reads(&mut end), b"bc");
    assert_eq!((end.tcb.urgent(), end.tcb.is_at_mark()), (Some(1), true));
    assert_eq!(end.tcb.read_urgent(), None, "it is in its place");
    assert_eq!(reads(&mut end), b"de");
    assert_eq!((end.tcb.urgent(), end.tcb.is_at_mark()), (None, false));
}

#[test]
fn a_program_that_wants_it_by_itself_gets_the_last_urgent_byte_once_before_or_after_its_place() {
    for early in [false, true] {
        let mut end = standing(false);
        gets(&mut end, 0, b"abcde", 4);
        assert_eq!((end.tcb.readable(), end.tcb.urgent()), (4, Some(4)));
        if early {
            assert_eq!([end.tcb.read_urgent(), end.tcb.read_urgent()], [Some(b'd'), None]);
        }
        assert_eq!(reads(&mut end), b"abc");
        assert!(end.tcb.is_at_mark());
        assert_eq!(reads(&mut end), b"e");
        assert_eq!(end.tcb.read_urgent(), (!early).then_some(b'd'));
        assert_eq!((end.tcb.read_urgent(), end.tcb.readable(), end.tcb.urgent()), (None, 0, None));
    }
    // Alone, it is nothing to read.
    let mut end = standing(false);
    gets(&mut end, 0, b"x", 1);
    assert_eq!((end.tcb.readable(), reads(&mut end)), (0, Vec::new()));
    assert_eq!(end.tcb.read_urgent(), Some(b'x'));
    gets(&mut end, 1, b"yz", 0);
    assert_eq!(reads(&mut end), b"yz");
}

#[test]
fn a_mark_without_bytes_or_far_behind_them_takes_and_invents_none() {
    for inline in [false, true] {
        let mut end = standing(inline);
        // It points before the first byte, and to the first.
        gets(&mut end, 0, b"", 0);
        assert_eq!(end.tcb.urgent(), None);
        gets(&mut end, 0, b"a", u16::MAX);
        assert_eq!((end.tcb.urgent(), end.tcb.readable()), (Some(65_535), 1));
        assert_eq!(end.tcb.awaits_urgent(), !inline);
        assert_eq!((end.tcb.read_urgent(), reads(&mut end)), (None, b"a".to_vec()));
        // Another that lies before it does not count.
        gets(&mut end, 1, b"bc", 1);
        assert_eq!(end.tcb.urgent(), Some(65_534));
        assert_eq!(reads(&mut end), b"bc");
        // The stream ends before the mark: nothing is urgent any more.
        end.gets("F. 4:4(0) ack 1");
        assert_eq!((end.tcb.urgent(), end.tcb.is_at_mark(), end.tcb.is_read_to_end()), (None, false, true));
    }
}

#[test]
fn a_mark_with_the_beginning_or_behind_the_end_does_not_count() {
    let mut end = Lone::connects(Settings::default());
    let options = Options { mss: Some(1460), ..Options::NONE };
    let flags = Flags::SYN | Flags::ACK | Flags::URG;
    let (ack, window, urgent) = (OURS + 1, 32_767, 9);
    let header = Header { src_port: 80, dst_port: 4000, seq: 7, ack, flags, window, urgent, options };
    let _ = end.tcb.arrive(&Segment { header: &header, payload: b"early", is_marked: false }, end.now);
    assert_eq!((end.tcb.state(), end.tcb.urgent(), end.tcb.readable()), (State::Established, None, 5));

    let mut end = Lone::in_state(State::CloseWait, Settings { urgent_inline: false, ..Settings::default() });
    gets(&mut end, 1, b"", 5);
    assert_eq!((end.tcb.urgent(), end.tcb.is_read_to_end()), (None, true));
}

#[test]
fn whatever_marks_say_all_bytes_are_read_in_order() {
    let mut luck = Secret::new(11);
    for _ in 0..200 {
        let (all, mut end) = (bytes(300), standing(true));
        let (mut at, mut read) = (0, Vec::new());
        while read.len() < all.len() {
            let len = usize::try_from(luck.below(20)).unwrap().min(all.len() - at);
            let mark = if luck.below(2) == 0 { luck.below(40) } else { luck.below(65_536) };
            gets(&mut end, u32::try_from(at).unwrap(), &all[at..at + len], u16::try_from(mark).unwrap());
            at += len;
            if luck.below(3) == 0 || at == all.len() {
                read.extend(reads(&mut end));
            }
        }
        assert_eq!(read, all);
    }
}

#[test]
fn a_reset_and_an_urgent_pointer_count_though_the_window_is_closed() {
    let mut end = standing(true);
    end.gets("P. 1:40001(40000) ack 1");
    let window = end.tcb.info().rcv_wnd;
    end.gets(&format!("P. 40001:{}({window}) ack 1", 40_001 + window));
    assert_eq!(end.tcb.info().rcv_wnd, 0);
    gets(&mut end, 40_000 + window, b"", 9);
    assert_eq!(end.tcb.urgent(), Some(40_009 + window));
    let next = 40_001 + window;
    end.gets(&format!("R {next}:{next}(0)"));
    assert_eq!(end.tcb.ended(), Some(Ended::Reset));
}
