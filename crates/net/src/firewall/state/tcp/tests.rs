use super::*;

#[test]
fn a_header_is_read_with_its_length_in_sequence_space_and_its_scale() {
    let mut header = [0; WINDOW];
    header[4..12].copy_from_slice(&[0, 0, 1, 0, 0, 0, 2, 0]);
    header[12..16].copy_from_slice(&[0x60, Flags::SYN.0 | Flags::FIN.0, 0x12, 0x34]);
    header[20..24].copy_from_slice(&[1, 3, 3, 15]);
    let segment = Segment::parse(&header, 24 + 100);
    let expected = Segment {
        flags: Flags(Flags::SYN.0 | Flags::FIN.0),
        seq: 0x100,
        ack: 0x200,
        window: 0x1234,
        len: 102,
        scale: Some(SCALE_MAX),
    };
    assert_eq!(segment, expected);
    header[13] = Flags::ACK.0;
    assert_eq!((Segment::parse(&header, 24).scale, Segment::parse(&header, 3).len), (None, 0));
    header[12..14].copy_from_slice(&[0xf0, Flags::SYN.0]);
    header[20..].fill(1);
    assert_eq!(Segment::parse(&header, 200).scale, None, "options without end");
}
