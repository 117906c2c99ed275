use super::*;
use crate::out::ifq::ecn::mark_frame;

#[test]
fn only_what_understands_marks_is_marked_and_nothing_else_changes() {
    for family in [Family::V4, Family::V6] {
        for (ecn, marked) in [(0, false), (1, true), (2, true), (3, true)] {
            let mut lab = Lab::new();
            let mut pkt = lab.packet(Of { family, ecn, ..Of::flow(7) });
            let before = pkt.head().to_vec();
            assert_eq!(mark_frame(&mut pkt), marked);
            let wanted = lab.packet(Of { family, ecn: if marked { 3 } else { ecn }, ..Of::flow(7) });
            assert_eq!(pkt.head(), wanted.head(), "checksum included; it was {before:02x?}");
            lab.end(pkt);
            lab.end(wanted);
        }
    }
}

#[test]
fn a_frame_that_is_no_ip_packet_or_too_short_is_not_marked() {
    let mut lab = Lab::new();
    for (ethertype, len) in [([8, 6], 100), ([8, 0], 33), ([0x86, 0xdd], 30), ([0x81, 0], 37)] {
        let mut pkt = lab.packet(Of { ecn: 2, ..Of::flow(1) });
        pkt.head_mut()[12..14].copy_from_slice(&ethertype);
        assert!(pkt.truncate(len).is_none());
        let before = pkt.head().to_vec();
        assert!(!mark_frame(&mut pkt));
        assert_eq!(pkt.head(), before);
        lab.pool.give(pkt);
    }
}

#[test]
fn a_tag_is_looked_behind() {
    let mut lab = Lab::new();
    let mut pkt = lab.packet(Of { ecn: 2, ..Of::flow(1) });
    let frame = pkt.head().to_vec();
    pkt.prepend(4).unwrap();
    pkt.head_mut()[..12].copy_from_slice(&frame[..12]);
    pkt.head_mut()[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    assert!(mark_frame(&mut pkt));
    assert_eq!(pkt.head()[19] & 3, 3);
    lab.pool.give(pkt);
}

#[test]
fn the_header_of_a_session_is_looked_behind() {
    for (family, protocol) in [(Family::V4, [0x00, 0x21]), (Family::V6, [0x00, 0x57])] {
        let mut lab = Lab::new();
        let mut pkt = lab.packet(Of { family, ecn: 2, ..Of::flow(1) });
        let frame = pkt.head().to_vec();
        pkt.prepend(8).unwrap();
        let head = pkt.head_mut();
        head[..12].copy_from_slice(&frame[..12]);
        head[12..20].copy_from_slice(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 42]);
        head[20..22].copy_from_slice(&protocol);
        assert!(mark_frame(&mut pkt));
        let wanted = lab.packet(Of { family, ecn: 3, ..Of::flow(1) });
        assert_eq!(pkt.head()[22..], wanted.head()[14..]);
        pkt.head_mut()[20] = 0xc0;
        assert!(!mark_frame(&mut pkt), "a control frame");
        lab.end(wanted);
        lab.pool.give(pkt);
    }
}
