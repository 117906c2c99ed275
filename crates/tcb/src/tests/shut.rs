//! Segments that are not in the receive window: where it is shut, and where they are old.

use super::lone::{Lone, OURS, THEIRS};
use super::*;

/// An end that has sent five bytes, whose program reads nothing, and that has as much as it takes.
fn shut() -> Lone {
    let mut end = Lone::in_state(
        State::Established,
        Settings { nodelay: true, tunes_receive: false, ..Settings::default() },
    );
    end.gets("P. 1:65536(65535) ack 1");
    end.tcb.send(b"12345");
    assert_eq!(end.sends(), ["P. 1:6(5) ack 65536 win 0"]);
    end
}

#[test]
fn at_a_zero_window_the_acknowledgment_of_a_segment_with_data_counts_and_its_data_does_not() {
    let mut end = shut();
    assert_eq!(end.gets("P. 65536:66536(1000) ack 6"), [". 6:6(0) ack 65536 win 0"]);
    assert_eq!((end.tcb.queued(), end.tcb.readable()), (0, 65_535));
    // Nor does what would be acknowledged in vain, or ends the stream.
    assert!(end.gets("P. 65536:66536(1000) ack 9000").len() <= 1);
    assert_eq!(end.gets("F. 65536:65536(0) ack 6"), [". 6:6(0) ack 65536 win 0"]);
    assert_eq!(end.tcb.state(), State::Established);
    // What comes when there is room again is taken.
    end.tcb.read(&mut vec![0; 65_535]);
    end.sends();
    end.gets("P. 65536:66536(1000) ack 6");
    assert_eq!(end.tcb.readable(), 1000);
}

#[test]
fn probes_of_a_zero_window_are_no_duplicate_acknowledgments() {
    let mut end = shut();
    for _ in 0..5 {
        assert_eq!(end.gets("P. 65536:65537(1) ack 1"), [". 6:6(0) ack 65536 win 0"]);
    }
}

#[test]
fn at_a_zero_window_a_reset_with_data_ends_the_connection_where_it_is_exact() {
    for (seq, ended) in [(65_535, None), (65_536, Some(Ended::Reset)), (65_537, None)] {
        let mut end = shut();
        end.gets(&format!("R {seq}:{}(1)", seq + 1));
        assert_eq!(end.tcb.ended(), ended, "{seq}");
    }
}

#[test]
fn at_a_zero_window_an_urgent_pointer_is_told_to_the_program() {
    let mut end = shut();
    assert_eq!(end.tcb.urgent(), None);
    let (seq, ack, flags) = (THEIRS.wrapping_add(65_536), OURS + 6, Flags::ACK | Flags::URG);
    let header = Header { seq, ack, flags, urgent: 10, ..end.answer() };
    let segment = Segment { header: &header, payload: &[1; 20], is_marked: false };
    assert_eq!(end.tcb.arrive(&segment, end.now), Reply::Nothing);
    assert_eq!(end.tcb.urgent(), Some(65_535 + 10));
}

#[test]
fn an_acknowledgment_in_a_segment_counts_up_to_one_window_before_what_is_expected() {
    // Rounded up to whole segments.
    let widest = shut().tcb.receive_buffer;
    for (back, counts) in
        [(1, true), (widest, true), (widest + 1, false), (1 << 24, false), ((1 << 31) - 1, false)]
    {
        let mut end = Lone::in_state(
            State::Established,
            Settings { nodelay: true, tunes_receive: false, ..Settings::default() },
        );
        end.tcb.send(b"12345");
        end.sends();
        let seq = 1_u32.wrapping_sub(back);
        assert_eq!(end.gets(&format!(". {seq}:{seq}(0) ack 6")).len(), 1, "it is told where we are");
        assert_eq!(end.tcb.queued() == 0, counts, "{back} bytes before");
    }
}
