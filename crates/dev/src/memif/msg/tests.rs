use super::*;

fn hello() -> Hello {
    Hello {
        name: Name::new("them"),
        min_version: VERSION,
        max_version: 0x0201,
        max_region: 3,
        max_m2s_ring: 4,
        max_s2m_ring: 5,
        max_log2_ring_size: 14,
    }
}

#[test]
fn fields_stand_where_other_programs_write_them() {
    let bytes = Msg::Hello(hello()).encode();
    assert_eq!((&bytes[..2], &bytes[2..7]), (&2_u16.to_ne_bytes()[..], &b"them\0"[..]));
    assert_eq!(bytes[34..36], VERSION.to_ne_bytes());
    assert_eq!(bytes[38..40], 3_u16.to_ne_bytes());
    assert_eq!((&bytes[42..44], bytes[44]), (&5_u16.to_ne_bytes()[..], 14));

    let ring = AddRing {
        direction: Direction::ToMaster,
        index: 1,
        region: 2,
        offset: 0x0102_0304,
        log2_size: 10,
        private_header: 6,
    };
    let bytes = Msg::AddRing(ring).encode();
    assert_eq!(bytes[2..4], 1_u16.to_ne_bytes());
    assert_eq!((&bytes[8..12], bytes[12]), (&0x0102_0304_u32.to_ne_bytes()[..], 10));

    let secret = Text::new("s");
    let init = Init { version: VERSION, id: 7, mode: 0, secret, name: Name::new("us") };
    let bytes = Msg::Init(init).encode();
    assert_eq!((&bytes[4..8], bytes[8], bytes[9]), (&7_u32.to_ne_bytes()[..], 0, b's'));
    assert_eq!(&bytes[33..36], b"us\0");
}

#[test]
fn what_is_written_is_read_the_same() {
    for kind in 0..12_u16 {
        for fill in 0..=255 {
            let mut bytes = [fill; LEN];
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            any_bytes(&bytes);
        }
    }
}

#[test]
fn what_is_no_message_says_why() {
    assert_eq!(Msg::decode(&[1; 127]), Err(NoMessage::Length(127)));
    assert_eq!(Msg::decode(&[1; 129]), Err(NoMessage::Length(129)));
    assert_eq!(Msg::decode(&[]), Err(NoMessage::Length(0)));
    assert_eq!(Msg::decode(&[0; LEN]), Err(NoMessage::Type(0)));
    assert_eq!(Msg::decode(&[0xff; LEN]), Err(NoMessage::Type(0xffff)));
}

#[test]
fn a_long_name_is_cut_and_a_strange_one_does_not_reach_the_terminal() {
    assert_eq!(Name::new(&"x".repeat(40)).to_string(), "x".repeat(31));
    let mut bytes = Msg::Connect(Name::new("")).encode();
    bytes[2..34].fill(0xff);
    bytes[2..7].copy_from_slice(b"a\x1b[2J");
    let Ok(Msg::Connect(name)) = Msg::decode(&bytes) else { panic!() };
    assert!(name.to_string().starts_with("a?[2J?") && name.to_string().len() == 32, "{name}");
}
