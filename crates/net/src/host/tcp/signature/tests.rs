use core::time::Duration;

use wire::tcp::{Flags, Options};

use super::super::settings::Settings;
use super::super::tcb::State;
use super::super::tests::bytes;
use super::super::{
    Connect, Id, IpTxParams, Listen, ListenerId, accept, close, connect, connection, listen, read, send,
};
use super::*;
use crate::base::count::Count;
use crate::link::driver::Caps;
use crate::testkit::build::{frame, tcp};
use crate::testkit::{Bench, addr4, addr6};

const KEY: &[u8] = b"secret";

/// The other end, and us.
fn families() -> [[IpAddr; 2]; 2] {
    [[addr4(1, 9).into(), addr4(1, 1).into()], [addr6(1, 9).into(), addr6(1, 1).into()]]
}

fn signing() -> Settings {
    Settings { signs: true, ..Settings::default() }
}

fn listener(bench: &mut Bench, us: IpAddr) -> ListenerId {
    let (settings, tx_params) = (signing(), IpTxParams::default());
    let wanted = Listen {
        addr: (us, 80).into(),
        zone: 0,
        only_v6: false,
        backlog: 8,
        is_shared: false,
        settings,
        tx_params,
    };
    listen(bench.cpu(), &wanted).unwrap()
}

fn client(bench: &mut Bench, them: IpAddr) -> Id {
    let (settings, tx_params) = (signing(), IpTxParams::default());
    let wanted = Connect { remote: (them, 80).into(), local: None, port: None, zone: 0, settings, tx_params };
    connect(bench.cpu(), &wanted).unwrap()
}

fn segment(flags: Flags, seq: u32, ack: u32) -> Header {
    let options = Options { mss: flags.syn().then_some(1400), ..Options::NONE };
    Header { src_port: 4000, dst_port: 80, seq, ack, flags, window: 60_000, urgent: 0, options }
}

/// Signs the segment with `key`.
fn signed(header: Header, [src, dst]: [IpAddr; 2], payload: &[u8], key: &[u8]) -> Header {
    let mut header = header;
    header.options.signature = Some(UNSIGNED);
    let mut bytes = [0; 60];
    let len = header.emit(&mut bytes).unwrap() + payload.len();
    let fixed = bytes.first_chunk().unwrap();
    header.options.signature = Some(digest(key, (src, dst, len), fixed, [payload]));
    header
}

/// Gives a segment to the host, and answers what it sends.
fn give(bench: &mut Bench, way: [IpAddr; 2], header: &Header, payload: &[u8]) -> Vec<Header> {
    bench.inject(1, frame(1, &tcp(way[0], way[1], header, payload)));
    bench.run();
    sent(bench, way)
}

/// The segments that the host has sent back, each of which is signed as it should be.
fn sent(bench: &mut Bench, [them, us]: [IpAddr; 2]) -> Vec<Header> {
    let behind = 14 + if us.is_ipv4() { 20 } else { 40 };
    let parse = |frame: Vec<u8>| {
        let header = Header::parse(&frame[behind..]).unwrap();
        let payload = &frame[behind + header.header_len()..];
        assert_eq!(signed(header, [us, them], payload, KEY), header, "it is signed");
        header
    };
    bench.sent(1).into_iter().map(parse).collect()
}

#[test]
fn a_segment_is_signed_as_rfc_2385_says() {
    let header = Header {
        src_port: 0x1f90,
        dst_port: 0x9c40,
        ..segment(Flags::ACK | Flags::PSH, 0x0102_0304, 0x0506_0708)
    };
    let header = Header { window: u16::MAX, ..header };
    let mut bytes = [0; 60];
    header.emit(&mut bytes).unwrap();
    bytes[12] = 10 << 4;
    // Computed with another implementation of MD5.
    for (src, dst, expected) in [
        ("192.0.2.1", "198.51.100.2", 0x2f2e_71a1_e558_7b39_6d0d_c89f_4bd2_5c17_u128),
        ("2001:db8::1", "2001:db8::2", 0xf1c1_4cbf_9b22_87e0_8978_5eec_885b_268b),
    ] {
        let between = (src.parse().unwrap(), dst.parse().unwrap(), 50);
        let came = digest(KEY, between, bytes.first_chunk().unwrap(), [&b"some "[..], b"bytes"]);
        assert_eq!(u128::from_be_bytes(came), expected, "{src}");
    }
}

#[test]
fn segments_without_the_right_signature_get_no_answer_and_no_connection() {
    for way in families() {
        let mut bench = Bench::new(1);
        let listener = listener(&mut bench, way[1]);
        let syn = segment(Flags::SYN, 100, 0);
        assert_eq!(give(&mut bench, way, &signed(syn, way, &[], KEY), &[]), [], "no key is known");
        set_key(bench.cpu(), way[0], KEY).unwrap();
        assert_eq!(give(&mut bench, way, &syn, &[]), []);
        assert_eq!(give(&mut bench, way, &signed(syn, way, &[], b"other"), &[]), []);
        assert_eq!(bench.drops(), [(DropReason::TcpUnsigned, 1), (DropReason::TcpBadSignature, 2)]);

        let answers = give(&mut bench, way, &signed(syn, way, &[], KEY), &[]);
        let [Header { flags, seq: iss, .. }] = answers[..] else { panic!("{answers:?}") };
        assert_eq!(flags, Flags::SYN | Flags::ACK);
        let ack = segment(Flags::ACK, 101, iss.wrapping_add(1));
        assert_eq!(give(&mut bench, way, &ack, &[]), []);
        assert_eq!(accept(bench.cpu(), listener), Err(Error::WouldBlock), "the handshake is not over");
        give(&mut bench, way, &signed(ack, way, &[], KEY), &[]);
        let id = accept(bench.cpu(), listener).unwrap().id;

        let data = Header { flags: Flags::ACK | Flags::PSH, ..ack };
        let right = signed(data, way, b"right", KEY);
        give(&mut bench, way, &right, b"wrong");
        give(&mut bench, way, &segment(Flags::RST, 101, 0), &[]);
        assert_eq!(read(bench.cpu(), id, &mut [0; 9]), Err(Error::WouldBlock), "nothing of it counts");
        give(&mut bench, way, &right, b"right");
        assert_eq!(read(bench.cpu(), id, &mut [0; 9]), Ok(5));
        assert_eq!(bench.drops(), [(DropReason::TcpUnsigned, 3), (DropReason::TcpBadSignature, 3)]);
    }
}

#[test]
fn ends_that_sign_carry_bytes_to_each_other_through_time_wait() {
    for [_, us] in families() {
        let mut bench = Bench::new(1);
        set_key(bench.cpu(), us, KEY).unwrap();
        let listener = listener(&mut bench, us);
        let client = client(&mut bench, us);
        bench.run();
        let server = accept(bench.cpu(), listener).unwrap().id;
        let (mut read_so_far, mut written) = (Vec::new(), 0);
        while read_so_far.len() < 100_000 {
            written += send(bench.cpu(), client, &bytes(100_000)[written..]).unwrap_or(0);
            bench.advance(Duration::from_millis(50));
            let mut some = [0; 50_000];
            let count = read(bench.cpu(), server, &mut some).unwrap();
            read_so_far.extend_from_slice(&some[..count]);
        }
        assert!(read_so_far == bytes(100_000));
        for id in [client, server] {
            close(bench.cpu(), id).unwrap();
            bench.run();
        }
        bench.advance(Duration::from_secs(61));
        assert!(bench.cpu().tcp.as_ref().unwrap().is_empty());
        assert_eq!(bench.drops(), []);
    }
}

#[test]
fn in_time_wait_only_a_signed_fin_is_acknowledged_and_so_with_a_signature() {
    for way in families() {
        let mut bench = Bench::new(1);
        set_key(bench.cpu(), way[0], KEY).unwrap();
        let listener = listener(&mut bench, way[1]);
        let say = |bench: &mut Bench, flags, seq, ack| {
            give(bench, way, &signed(segment(flags, seq, ack), way, &[], KEY), &[])
        };
        let iss = say(&mut bench, Flags::SYN, 100, 0)[0].seq;
        say(&mut bench, Flags::ACK, 101, iss.wrapping_add(1));
        let id = accept(bench.cpu(), listener).unwrap().id;
        close(bench.cpu(), id).unwrap();
        bench.run();
        let (fin, ack) = (Flags::ACK | Flags::FIN, iss.wrapping_add(2));
        say(&mut bench, fin, 101, ack);
        assert_eq!(connection(bench.cpu(), id).map(|(_, tcb)| tcb.state()), None::<State>);
        assert_eq!(give(&mut bench, way, &segment(fin, 101, ack), &[]), []);
        assert_eq!(say(&mut bench, fin, 101, ack).len(), 1);
    }
}

#[test]
fn segments_leave_room_for_the_signature_and_no_device_cuts_them() {
    for way in families() {
        let caps = Caps { tso: true, tx_csum: true, buffers_max: 40, ..Caps::default() };
        let mut bench = Bench::with(1, 1, |config| config.ifs[0].caps = caps);
        set_key(bench.cpu(), way[0], KEY).unwrap();
        let id = client(&mut bench, way[0]);
        bench.run();
        let behind = 14 + if way[1].is_ipv4() { 20 } else { 40 };
        let syn = Header::parse(&bench.sent(1).pop().unwrap()[behind..]).unwrap();
        assert_eq!(syn.header_len(), 60, "all options have room");
        let answer = Header {
            src_port: 80,
            dst_port: syn.src_port,
            ..segment(Flags::SYN | Flags::ACK, 1000, syn.seq.wrapping_add(1))
        };
        give(&mut bench, way, &signed(answer, way, &[], KEY), &[]);
        send(bench.cpu(), id, &bytes(10_000)).unwrap();
        bench.run();
        let lens: Vec<_> = bench.sent(1).iter().map(|frame| frame.len() - behind - 40).collect();
        assert_eq!(lens[..2], [1380, 1380], "1400, less 20 of the signature");
    }
}

#[test]
fn without_a_key_nothing_is_sent_and_that_is_counted() {
    for [them, _] in families() {
        let mut bench = Bench::new(1);
        client(&mut bench, them);
        bench.run();
        assert_eq!(bench.counted(Count::TcpNoKey), 1);
        set_key(bench.cpu(), them, KEY).unwrap();
        bench.advance(Duration::from_secs(2));
        assert_eq!(bench.counted(Count::TcpNoKey), 1, "it was told in time");
        remove_key(bench.cpu(), them);
        bench.advance(Duration::from_secs(3));
        assert_eq!(bench.counted(Count::TcpNoKey), 2);
    }
}

#[test]
fn a_closed_port_signs_its_reset_for_a_peer_with_a_key() {
    for way in families() {
        let mut bench = Bench::new(1);
        set_key(bench.cpu(), way[0], KEY).unwrap();
        let syn = segment(Flags::SYN, 100, 0);
        let resets = give(&mut bench, way, &signed(syn, way, &[], KEY), &[]);
        assert_eq!(resets.iter().map(|reset| reset.flags).collect::<Vec<_>>(), [Flags::RST | Flags::ACK]);
        assert_eq!(give(&mut bench, way, &signed(syn, way, &[], b"other"), &[]), []);
        assert_eq!(bench.drops(), [(DropReason::NoPort, 1), (DropReason::TcpBadSignature, 1)]);
    }
}

#[test]
fn there_are_not_more_keys_than_may_be_nor_longer_ones() {
    let mut bench = Bench::new(1);
    let addr = |at: usize| IpAddr::from((u128::try_from(at).unwrap() | 0xfd << 120).to_be_bytes());
    for at in 0..KEYS_MAX {
        set_key(bench.cpu(), addr(at), KEY).unwrap();
    }
    assert_eq!(set_key(bench.cpu(), addr(KEYS_MAX), KEY), Err(Error::TooMany));
    assert_eq!(set_key(bench.cpu(), addr(0), &[1; KEY_LEN_MAX]), Ok(()), "another one for who has one");
    for key in [&[][..], &[1; KEY_LEN_MAX + 1]] {
        assert_eq!(set_key(bench.cpu(), addr(0), key), Err(Error::BadKey));
    }
    remove_key(bench.cpu(), addr(0));
    assert_eq!(set_key(bench.cpu(), addr(KEYS_MAX), KEY), Ok(()));
}
