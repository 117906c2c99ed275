use crate::{Arena, BUF_LEN, DATA_LEN, HEADROOM, Pool, WINDOW};

fn pool() -> Pool {
    Arena::carve(1, 8, false).unwrap().remove(0)
}

#[test]
fn bytes_prepended_and_appended_stand_around_those_that_were_there() {
    let mut pool = pool();
    let mut pkt = pool.take().unwrap();
    pkt.append(3).unwrap().copy_from_slice(b"mid");
    pkt.prepend(2).unwrap().copy_from_slice(b"a-");
    pkt.append(2).unwrap().copy_from_slice(b"-z");
    assert_eq!((pkt.head(), pkt.len()), (&b"a-mid-z"[..], 7));
    pkt.trim_front(2);
    assert_eq!(pkt.head(), b"mid-z");
    pool.give(pkt);
}

#[test]
fn a_buffer_refuses_what_it_has_no_room_for_and_stays_as_it_was() {
    let mut pool = pool();
    let mut pkt = pool.take().unwrap();
    assert!(pkt.append(DATA_LEN + 1).is_err() && pkt.prepend(HEADROOM + 1).is_err());
    assert!(pkt.place(BUF_LEN, 1).is_err() && pkt.place(1, BUF_LEN).is_err());
    assert!(pkt.is_empty());
    assert!(pkt.append(DATA_LEN).is_ok() && pkt.prepend(HEADROOM).is_ok());
    assert_eq!((pkt.len(), pkt.headroom(), pkt.tailroom()), (BUF_LEN, 0, 0));
    pool.give(pkt);
}

#[test]
fn a_window_never_leaves_the_buffer() {
    let mut pool = pool();
    let mut pkt = pool.take().unwrap();
    pkt.buffer_mut()[BUF_LEN - WINDOW..].fill(7);
    for at in [0, DATA_LEN, BUF_LEN, usize::from(u16::MAX)] {
        assert_eq!(pkt.window(at).len(), WINDOW);
        assert_eq!(pkt.window_mut(at).len(), WINDOW);
    }
    assert_eq!(pkt.window(BUF_LEN), &[7; WINDOW]);
    pool.give(pkt);
}

#[test]
fn offsets_into_the_packet_move_with_its_start() {
    let mut pool = pool();
    let mut pkt = pool.take().unwrap();
    pkt.append(40).unwrap();
    (pkt.l4, pkt.csum_start) = (20, 20);
    pkt.prepend(14).unwrap();
    assert_eq!((pkt.l4, pkt.csum_start), (34, 34));
    pkt.trim_front(14);
    assert_eq!((pkt.l4, pkt.csum_start), (20, 20));
    pool.give(pkt);
}

#[test]
fn a_chain_is_one_packet_across_its_buffers() {
    let mut pool = pool();
    let mut pkt = pool.take().unwrap();
    pkt.append(5).unwrap().copy_from_slice(b"alpha");
    for part in [b"beta_", b"gamma"] {
        let mut tail = pool.take().unwrap();
        tail.append(5).unwrap().copy_from_slice(part);
        pkt.chain(tail);
    }
    let mut out = [0; 9];
    assert_eq!((pkt.len(), pkt.buffers(), pkt.copy_out(3, &mut out)), (15, 3, 9));
    assert_eq!(&out, b"habeta_ga");
    assert_eq!((pkt.copy_out(5, &mut out), &out), (9, b"beta_gamm"), "starts with the second buffer");
    assert_eq!(pkt.copy_out(15, &mut out), 0);
    assert!(pkt.append(1).is_err(), "its end is in another buffer");
    let cut = pkt.truncate(7).unwrap();
    assert_eq!((pkt.len(), pkt.buffers(), cut.len()), (7, 2, 5));
    pool.give(cut);
    let rest = pkt.unchain().unwrap();
    assert_eq!(pkt.len(), 5);
    pool.give(rest);
    pool.give(pkt);
    assert_eq!(pool.free(), 8);
}

#[test]
fn the_address_of_a_frame_is_where_its_bytes_lie_in_the_arena() {
    let mut pool = pool();
    let arena = std::sync::Arc::clone(pool.arena());
    let mut pkt = pool.take().unwrap();
    assert_eq!(pkt.data_addr(), Arena::data_offset(pkt.index()));
    pkt.append(1).unwrap();
    pkt.prepend(14).unwrap();
    assert_eq!(pkt.data_addr() + 14, Arena::data_offset(pkt.index()));
    assert_eq!(
        pkt.head().as_ptr().addr() - arena.base().as_ptr().addr(),
        usize::try_from(pkt.data_addr()).unwrap()
    );
    pool.give(pkt);
}

#[test]
fn narrowing_keeps_what_is_asked_for_or_everything() {
    let mut pool = pool();
    let mut pkt = pool.take().unwrap();
    pkt.append(60).unwrap().iter_mut().zip(0..).for_each(|(byte, n)| *byte = n);
    for (from, len) in [(14, 47), (61, 0), (u16::MAX, u16::MAX)] {
        assert!(!pkt.narrow(from, len));
        assert_eq!((pkt.len(), pkt.head_len()), (60, 60));
    }
    assert!(pkt.narrow(14, 28));
    assert_eq!(pkt.head(), (14..42).collect::<Vec<u8>>());
    assert_eq!(pkt.len(), 28);
    pkt.chain(pool.take().unwrap());
    assert!(!pkt.narrow(0, 1), "a chain is not for it");
    assert!(pkt.unchain().map(|tail| pool.give(tail)).is_some() && pkt.narrow(0, 28));
    pool.give(pkt);
}

#[test]
fn the_last_bytes_of_a_buffer_have_a_window_too() {
    let mut pool = pool();
    for left in [0, 1, WINDOW - 1, WINDOW, WINDOW + 1] {
        let mut pkt = pool.take().unwrap();
        pkt.append(DATA_LEN)
            .unwrap()
            .iter_mut()
            .zip(0_u16..)
            .for_each(|(byte, n)| *byte = n.to_le_bytes()[0]);
        let end = pkt.head()[DATA_LEN - left..].to_vec();
        let from = u16::try_from(DATA_LEN - left).unwrap();
        assert_eq!(
            pkt.narrow(from, u16::try_from(left).unwrap()),
            left >= WINDOW,
            "{left} bytes are narrowed to"
        );
        pkt.trim_front(pkt.len() - left);
        assert_eq!((pkt.len(), pkt.head()), (left, &*end));
        let shown = left.min(WINDOW);
        assert_eq!(pkt.window(0)[..shown], end[..shown]);
        assert_eq!(pkt.window_mut(0)[..shown], end[..shown]);
        pkt.prepend_array(&[0xee; 14]).unwrap();
        assert_eq!((&pkt.head()[..14], &pkt.head()[14..]), (&[0xee; 14][..], &*end));
        pool.give(pkt);

        let mut pkt = pool.take().unwrap();
        pkt.buffer_mut()[BUF_LEN - left..].fill(7);
        pkt.place(BUF_LEN - left, left).unwrap();
        assert_eq!((pkt.head(), pkt.window(0)[..shown].to_vec()), (&*vec![7; left], vec![7; shown]));
        pool.give(pkt);
    }
    assert_eq!(pool.free(), 8);
}
