use super::*;
use proptest::prelude::*;
use std::string::ToString as _;
use std::vec;
use std::vec::Vec;

fn blocks(list: &[(u32, u32)]) -> SackBlocks {
    let mut blocks = SackBlocks::NONE;
    list.iter().for_each(|&(left, right)| assert!(blocks.push(SackBlock { left, right })));
    blocks
}

prop_compose! {
    /// Options that fit into one header together.
    fn options()(
        mss: Option<u16>, window_scale: Option<u8>, sack_permitted: bool, timestamps: Option<(u32, u32)>,
        list in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
    ) -> Options {
        let mut options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::NONE };
        let room = (OPTIONS_MAX - options.len()).saturating_sub(4) / 8;
        options.sack = blocks(&list[..list.len().min(room)]);
        options
    }

}

prop_compose! {
    /// Generates options including those that etherparse does not know.
    fn all_options()(
        known in options(), signature in any::<Option<[u8; 16]>>(),
        cookie in prop::option::of(prop::collection::vec(any::<u8>(), 0..=16)), field: u16,
    ) -> Options {
        let signed = Options { signature, sack: SackBlocks::NONE, ..known };
        let fast_open = cookie.and_then(|bytes| Cookie::new(&bytes));
        let opening = Options { fast_open, ..signed };
        // One that finds no room takes none.
        let options = if opening.len() > signed.len() { opening } else { signed };
        let user_timeout = UserTimeout::of_field(field).filter(|_| options.has_room_for_user_timeout());
        Options { user_timeout, ..options }
    }
}

prop_compose! {
    fn headers()(
        (src_port, dst_port, seq, ack) in any::<(u16, u16, u32, u32)>(), (flags, window, urgent) in any::<(u8, u16, u16)>(),
        options in options(),
    ) -> Header {
        Header { src_port, dst_port, seq, ack, flags: Flags(flags), window, urgent, options }
    }
}

proptest! {
    #[test]
    fn the_window_scale_alone_is_the_one_that_is_found_by_reading_all(
        parts in proptest::collection::vec((0_u8..10, proptest::collection::vec(any::<u8>(), 0..6)), 0..6),
    ) {
        let option = |(kind, data): &(u8, Vec<u8>)| match kind {
            0 | 1 => vec![*kind],
            _ => [&[*kind, u8::try_from(data.len()).unwrap() + 2][..], data].concat(),
        };
        let bytes: Vec<u8> = parts.iter().flat_map(option).collect();
        let all: Result<Vec<_>, _> = OptionIter::new(&bytes).collect();
        if let Ok(all) = all {
            let scale = |option: &Opt<'_>| if let Opt::WindowScale(scale) = option { Some(*scale) } else { None };
            prop_assert_eq!(window_scale(&bytes), all.iter().find_map(scale));
        }
    }

    #[test]
    fn signatures_cookies_and_timeouts_survive_the_wire(header in headers(), options in all_options()) {
        let header = Header { options, ..header };
        let mut out = [0; HEADER_MAX];
        prop_assert_eq!(header.emit(&mut out), Ok(header.header_len()));
        prop_assert_eq!(Header::parse(&out), Ok(header));
    }

    #[test]
    fn a_header_survives_the_wire(header in headers()) {
        let mut out = [0; HEADER_MAX];
        prop_assert_eq!(header.emit(&mut out), Ok(header.header_len()));
        let view = View::new(&out).unwrap();
        prop_assert_eq!(view.header_len(), header.header_len());
        prop_assert_eq!(Header::parse(&out), Ok(header));
    }

    #[test]
    fn however_many_blocks_there_are_the_header_is_never_too_long(header in headers(), left: u32) {
        let mut sack = header.options.sack;
        while sack.push(SackBlock { left, right: left }) {}
        let header = Header { options: Options { sack, ..header.options }, ..header };
        let mut out = [0; HEADER_MAX];
        prop_assert_eq!(header.emit(&mut out), Ok(header.header_len()));
        let again = Header::parse(&out).unwrap();
        prop_assert!(sack.as_slice().starts_with(again.options.sack.as_slice()));
        prop_assert_eq!(again.options.timestamps, header.options.timestamps);
    }

    #[test]
    fn etherparse_reads_what_we_write(header in headers()) {
        let mut out = [0; HEADER_MAX];
        let len = header.emit(&mut out).unwrap();
        let theirs = etherparse::TcpHeaderSlice::from_slice(&out[..len]).unwrap();
        prop_assert_eq!((theirs.source_port(), theirs.destination_port()), (header.src_port, header.dst_port));
        prop_assert_eq!((theirs.sequence_number(), theirs.acknowledgment_number()), (header.seq, header.ack));
        prop_assert_eq!((theirs.window_size(), theirs.urgent_pointer()), (header.window, header.urgent));
        let flags = [theirs.fin(), theirs.syn(), theirs.rst(), theirs.psh(), theirs.ack(), theirs.urg(), theirs.ece(), theirs.cwr()];
        let ours: Vec<bool> = (0..8).map(|bit| header.flags.0 >> bit & 1 != 0).collect();
        prop_assert_eq!(&flags[..], &ours[..]);
        prop_assert_eq!(etherparse_options(&theirs), header.options);
    }

    #[test]
    fn a_segment_verifies_in_both_families_until_a_bit_flips(
        header in headers(), a: [u8; 16], b: [u8; 16], payload in prop::collection::vec(any::<u8>(), 0..500),
        at: prop::sample::Index, bit in 0_u8..8,
    ) {
        let (a4, b4) = (Ipv4Addr::from_octets(*a.first_chunk().unwrap()), Ipv4Addr::from_octets(*b.first_chunk().unwrap()));
        let (a6, b6) = (Ipv6Addr::from(a), Ipv6Addr::from(b));
        let mut v4 = std::vec![0; header.header_len()];
        let mut v6 = v4.clone();
        header.emit_v4(a4, b4, &payload, &mut v4).unwrap();
        header.emit_v6(a6, b6, &payload, &mut v6).unwrap();
        let theirs = etherparse::TcpHeaderSlice::from_slice(&v4).unwrap();
        prop_assert_eq!(theirs.calc_checksum_ipv4_raw(a4.octets(), b4.octets(), &payload), Ok(theirs.checksum()));
        let theirs = etherparse::TcpHeaderSlice::from_slice(&v6).unwrap();
        prop_assert_eq!(theirs.calc_checksum_ipv6_raw(a, b, &payload).unwrap(), theirs.checksum());
        v4.extend(&payload);
        v6.extend(&payload);
        prop_assert!(View::new(&v4).unwrap().verify_v4(a4, b4) && View::new(&v6).unwrap().verify_v6(a6, b6));
        let at = at.index(v4.len());
        // the data offset decides what is read at all
        prop_assume!(at != 12);
        v4[at] ^= 1 << bit;
        v6[at] ^= 1 << bit;
        prop_assert!(!View::new(&v4).unwrap().verify_v4(a4, b4) && !View::new(&v6).unwrap().verify_v6(a6, b6));
    }
}

fn etherparse_options(theirs: &etherparse::TcpHeaderSlice<'_>) -> Options {
    use etherparse::TcpOptionElement as Theirs;
    let mut options = Options::NONE;
    for option in theirs.options_iterator() {
        match option.unwrap() {
            Theirs::Noop => {}
            Theirs::MaximumSegmentSize(mss) => options.mss = Some(mss),
            Theirs::WindowScale(shift) => options.window_scale = Some(shift),
            Theirs::SelectiveAcknowledgementPermitted => options.sack_permitted = true,
            Theirs::Timestamp(value, echo) => options.timestamps = Some((value, echo)),
            Theirs::SelectiveAcknowledgement(first, rest) => {
                let all: Vec<_> = [first].into_iter().chain(rest.into_iter().flatten()).collect();
                options.sack = blocks(&all);
            }
        }
    }
    options
}

#[test]
fn header_lengths_are_checked() {
    let view = |words: u8, have: usize| {
        let mut segment = [0; HEADER_MAX];
        segment[12] = words << 4;
        View::new(&segment[..have]).map(|view| view.header_len())
    };
    assert_eq!(view(5, 19), Err(Error::Short { have: 19 }));
    assert_eq!(view(4, 60), Err(Error::HeaderLenShort { header: 16 }));
    assert_eq!(view(0, 60), Err(Error::HeaderLenShort { header: 0 }));
    assert_eq!(view(15, 59), Err(Error::HeaderTruncated { header: 60, have: 59 }));
    assert_eq!(view(15, 60), Ok(60));
}

#[test]
fn bad_options_are_refused() {
    use OptionError::*;
    let cases: [(&[u8], OptionError); 13] = [
        (&[19, 4, 0, 0], LenWrong { kind: 19, len: 4 }),
        (&[2], NoLength { kind: 2 }),
        (&[1, 1, 99], NoLength { kind: 99 }),
        (&[2, 0], LenShort { kind: 2, len: 0 }),
        (&[99, 1], LenShort { kind: 99, len: 1 }),
        (&[2, 4, 5], LenOverruns { kind: 2, len: 4 }),
        (&[2, 3, 5], LenWrong { kind: 2, len: 3 }),
        (&[3, 4, 5, 5], LenWrong { kind: 3, len: 4 }),
        (&[4, 3, 5], LenWrong { kind: 4, len: 3 }),
        (&[8, 4, 5, 5], LenWrong { kind: 8, len: 4 }),
        (&[5, 2], LenWrong { kind: 5, len: 2 }),
        (&[5, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0], LenWrong { kind: 5, len: 11 }),
        (&[5, 6, 0, 0, 0, 0], LenWrong { kind: 5, len: 6 }),
    ];
    for (bytes, error) in cases {
        let mut iter = OptionIter::new(bytes);
        assert_eq!(iter.next(), Some(Err(error)), "{bytes:?}");
        assert_eq!(iter.next(), None, "{bytes:?}");
        assert_eq!(Options::parse(bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn unknown_options_are_skipped_and_nothing_is_read_behind_the_end() {
    let bytes = [1, 254, 4, 9, 9, 2, 4, 5, 180, 0, 2, 0];
    let all: Vec<_> = OptionIter::new(&bytes).collect();
    assert_eq!(all, [Ok(Opt::Unknown { kind: 254, data: &[9, 9] }), Ok(Opt::Mss(1460))]);
    assert_eq!(Options::parse(&bytes), Ok(Options { mss: Some(1460), ..Options::NONE }));
    assert_eq!(Options::parse(&[1; 40]), Ok(Options::NONE));
}

#[test]
fn the_options_of_a_syn_are_read_in_the_order_of_bsd_and_of_linux() {
    let bsd = *b"\x02\x04\x05\xb4\x01\x03\x03\x07\x04\x02\x08\x0a\x00\x00\x00\x09\x00\x00\x01\x00";
    let linux = *b"\x02\x04\x05\xb4\x04\x02\x08\x0a\x00\x00\x00\x09\x00\x00\x01\x00\x01\x03\x03\x07";
    let all = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((9, 256)),
        ..Options::NONE
    };
    for list in [bsd, linux] {
        assert_eq!(Options::parse(&list), Ok(all));
        // Any other byte in place of a kind or a length is read for what it is.
        for at in 0..list.len() {
            let mut other = list;
            other[at] ^= 0x40;
            let mut iter = OptionIter::new(&other);
            let each = iter.try_fold((), |(), option| option.map(|_| ()));
            assert_eq!(Options::parse(&other).map(|_| ()), each, "{at}");
            assert_ne!(Options::parse(&other), Ok(all), "{at}");
        }
    }
}

#[test]
fn the_window_scale_is_found_among_all_that_stands_in_lists_of_options() {
    let cases: [(&[u8], Option<u8>); 9] = [
        (&[2, 4, 5, 180, 1, 3, 3, 7, 4, 2], Some(7)),
        (&[3, 3, 15], Some(15)),
        (&[1, 1, 4, 2], None),
        (&[0, 3, 3, 7], None),
        (&[3, 2, 3, 3, 7], None),
        (&[99, 0, 3, 3, 7], None),
        (&[99, 1, 3, 3, 7], None),
        (&[99, 9, 3, 3, 7], None),
        (&[1, 1, 3], None),
    ];
    for (bytes, scale) in cases {
        assert_eq!(window_scale(bytes), scale, "{bytes:?}");
    }
}

/// As packets of FreeBSD look, which scripts that judge a stack compare byte by byte.
#[test]
fn options_stand_in_the_order_and_with_the_padding_of_freebsd() {
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(6),
        sack_permitted: true,
        timestamps: Some((100, 0)),
        ..Options::NONE
    };
    let stamps = [8, 10, 0, 0, 0, 100, 0, 0, 0, 0];
    let front = [&[2, 4, 5, 180, 1, 3, 3, 6, 4, 2][..], &stamps].concat();
    let asks = Options { fast_open: Some(Cookie::REQUEST), ..syn };
    let opens = Options { fast_open: Cookie::new(&[1, 2, 3, 4]), ..syn };
    let mss = Options { mss: Some(1460), ..Options::NONE };
    let digest = [7; 16];
    let signed = Options { signature: Some(digest), ..Options::NONE };
    let waits = Options { user_timeout: UserTimeout::of_secs(120), ..syn };
    let stamped = Options { timestamps: Some((100, 0)), ..Options::NONE };
    let cases = [
        (waits, [&front[..], &[28, 4, 0, 120]].concat()),
        (Options { fast_open: opens.fast_open, ..waits }, {
            [&front[..], &[34, 6, 1, 2, 3, 4, 1, 1, 28, 4, 0, 120]].concat()
        }),
        (
            Options { user_timeout: UserTimeout::of_secs(40_000), ..stamped },
            [&[1, 1][..], &stamps, &[28, 4, 0x82, 0x9b]].concat(),
        ),
        (
            Options {
                sack_permitted: true,
                mss: Some(1460),
                user_timeout: waits.user_timeout,
                ..Options::NONE
            },
            { [2, 4, 5, 180, 4, 2, 1, 1, 28, 4, 0, 120].to_vec() },
        ),
        (syn, front.clone()),
        (Options { sack_permitted: true, ..mss }, [2, 4, 5, 180, 4, 2, 0, 0].to_vec()),
        (Options { timestamps: Some((100, 0)), ..mss }, [&[2, 4, 5, 180, 1, 1][..], &stamps].concat()),
        (
            Options { sack: blocks(&[(1, 2)]), ..Options::NONE },
            [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2].to_vec(),
        ),
        (asks, [&front[..], &[34, 2, 0, 0]].concat()),
        (opens, [&front[..], &[34, 6, 1, 2, 3, 4, 0, 0]].concat()),
        (signed, [&[1, 1, 19, 18][..], &digest].concat()),
        (
            Options { sack_permitted: true, mss: Some(1460), ..signed },
            [&[2, 4, 5, 180, 4, 2, 19, 18][..], &digest].concat(),
        ),
        (Options { signature: Some(digest), ..opens }, [&front[..], &[1, 1, 19, 18], &digest].concat()),
    ];
    for (options, bytes) in cases {
        let mut out = [0; HEADER_MAX];
        let header = Header {
            src_port: 1,
            dst_port: 2,
            seq: 3,
            ack: 4,
            flags: Flags::SYN,
            window: 5,
            urgent: 0,
            options,
        };
        let len = header.emit(&mut out).unwrap();
        assert_eq!(out[HEADER_LEN..len], bytes, "{options:?}");
    }
}

#[test]
fn a_cookie_of_a_wrong_length_is_ignored_and_what_is_behind_it_counts() {
    for len in (0..=38_u8).filter(|len| ![0, 4, 6, 8, 10, 12, 14, 16].contains(len)) {
        let mut bytes = [&[34, 2 + len][..], &[9; 38][..usize::from(len)]].concat();
        bytes.extend(if bytes.len() <= 36 { &[2, 4, 5, 180][..] } else { &[] });
        let mss = (bytes.len() > usize::from(len) + 2).then_some(1460);
        assert_eq!(Options::parse(&bytes), Ok(Options { mss, ..Options::NONE }), "{len}");
    }
    assert!(Cookie::new(&[9; 17]).is_none() && Cookie::new(&[9; 300]).is_none());
    assert!(Cookie::new(&[]).is_some_and(|cookie| cookie.is_request()));
}

#[test]
fn a_user_timeout_of_a_wrong_length_or_of_nothing_is_ignored_and_what_is_behind_it_counts() {
    let mss = Options { mss: Some(1460), ..Options::NONE };
    let read = |option: &[u8]| Options::parse(&[option, &[2, 4, 5, 180]].concat());
    let wrong: [&[u8]; 6] =
        [&[28, 2], &[28, 3, 1], &[28, 5, 0, 1, 2], &[28, 6, 0, 1, 2, 3], &[28, 4, 0, 0], &[28, 4, 0x80, 0]];
    for option in wrong {
        assert_eq!(read(option), Ok(mss), "{option:?}");
    }
    let timeout = |bytes: [u8; 2]| read(&[28, 4, bytes[0], bytes[1]]).unwrap().user_timeout.unwrap().secs();
    assert_eq!(timeout([0, 1]), 1);
    assert_eq!(timeout([0x7f, 0xff]), 32_767);
    assert_eq!(timeout([0x80, 1]), 60);
    assert_eq!(timeout([0xff, 0xff]), 32_767 * 60);
    // Of one that stands there twice the last counts.
    assert_eq!(Options::parse(&[28, 4, 0, 7, 28, 4, 0, 9]).unwrap().user_timeout, UserTimeout::of_secs(9));
}

/// An acknowledgment with these options.
fn acknowledging(options: Options) -> Header {
    Header { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: Flags::ACK, window: 5, urgent: 0, options }
}

#[test]
fn a_user_timeout_gives_way_to_what_else_stands_in_a_header() {
    let user_timeout = UserTimeout::of_secs(300);
    let stamped = Options { timestamps: Some((1, 2)), user_timeout, ..Options::NONE };
    let two = Options { sack: blocks(&[(1, 2), (3, 4)]), ..stamped };
    let three = Options { sack: blocks(&[(1, 2), (3, 4), (5, 6)]), ..stamped };
    for (options, is_there) in [(stamped, true), (two, true), (three, false)] {
        let header = acknowledging(options);
        assert_eq!(options.has_room_for_user_timeout(), is_there);
        let mut out = [0; HEADER_MAX];
        assert_eq!(header.emit(&mut out), Ok(header.header_len()));
        let again = Header::parse(&out).unwrap().options;
        assert_eq!((again.user_timeout, again.sack), (user_timeout.filter(|_| is_there), options.sack));
    }
}

#[test]
fn beside_timestamps_there_is_room_for_three_blocks() {
    let four = blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
    let alone = Options { sack: four, ..Options::NONE };
    let beside = Options { timestamps: Some((1, 2)), ..alone };
    assert_eq!((alone.len(), beside.len()), (36, 40));
    let mut out = [0; HEADER_MAX];
    assert_eq!(acknowledging(beside).emit(&mut out), Ok(60));
    assert_eq!(Header::parse(&out).unwrap().options.sack, blocks(&[(1, 2), (3, 4), (5, 6)]));
    assert!(!{ four }.push(SackBlock::default()), "there is no room for a fifth");
}

#[test]
fn a_buffer_too_short_gets_an_answer_and_no_panic() {
    let options = Options { mss: Some(1460), ..Options::NONE };
    let header =
        Header { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: Flags::SYN, window: 5, urgent: 0, options };
    assert_eq!(header.emit(&mut [0; 19]), Err(NoRoom { need: 20, have: 19 }));
    assert_eq!(header.emit(&mut [0; 23]), Err(NoRoom { need: 24, have: 23 }));
}

#[test]
fn syn_and_fin_take_a_sequence_number_each() {
    let mut segment = [0; 30];
    segment[12] = 5 << 4;
    segment[13] = (Flags::SYN | Flags::FIN).0;
    assert_eq!(View::new(&segment).unwrap().seq_len(), 12);
}

#[test]
fn flags_are_written_as_in_tcpdump() {
    assert_eq!((Flags::SYN | Flags::ACK).to_string(), "S.");
    assert_eq!((Flags::FIN | Flags::PSH | Flags::ACK | Flags::ECE).to_string(), "FP.E");
    assert_eq!(Flags::NONE.to_string(), "none");
}
