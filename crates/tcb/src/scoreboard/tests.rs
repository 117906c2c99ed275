use proptest::prelude::*;

use super::*;

const START: Seq = Seq(u32::MAX - 2500);
const MSS: u32 = 1000;
const RTT: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

/// Makes a scoreboard of segments, one each millisecond.
fn sent(segments: u32) -> Sent {
    let mut sent = Sent::new(START);
    for n in 0..segments {
        sent.send(START + n * MSS, START + (n + 1) * MSS, at(n.into()));
    }
    sent
}

/// A block of whole segments.
fn block(first: u32, behind: u32) -> SackBlock {
    SackBlock { left: (START + first * MSS).0, right: (START + behind * MSS).0 }
}

fn acknowledge(sent: &mut Sent, segments: u32, blocks: &[SackBlock], now: Instant) -> AckEffect {
    sent.acknowledge(START + segments * MSS, blocks, now)
}

/// The first segment that is to be sent again.
fn lost(sent: &Sent) -> Option<(u32, u32)> {
    sent.first_lost().map(|(start, end)| (start.since(START) / MSS, end.since(START) / MSS))
}

#[test]
fn acknowledgments_free_bytes_and_measure_the_last_of_them() {
    let mut sent = sent(10);
    assert_eq!((sent.unacknowledged(), sent.pipe()), (10 * MSS, 10 * MSS));
    let heard = acknowledge(&mut sent, 4, &[], at(103));
    assert_eq!((heard.acknowledged, heard.delivered, heard.rtt), (4 * MSS, 4 * MSS, Some(RTT)));
    // Half a segment.
    let heard = sent.acknowledge(START + 4500, &[], at(104));
    assert_eq!((heard.acknowledged, heard.rtt, sent.pipe()), (500, Some(RTT), 5500));
    acknowledge(&mut sent, 10, &[], at(110));
    assert_eq!((sent.unacknowledged(), sent.first(), sent.since()), (0, START + 10 * MSS, None));
}

#[test]
fn what_the_receiver_has_is_not_under_way_and_counts_as_delivered_once() {
    let mut sent = sent(10);
    let heard = acknowledge(&mut sent, 2, &[block(4, 6)], at(105));
    assert_eq!((heard.acknowledged, heard.delivered), (2 * MSS, 4 * MSS));
    assert_eq!((sent.pipe(), sent.sacked()), (6 * MSS, 2 * MSS));
    let heard = acknowledge(&mut sent, 2, &[block(3, 7)], at(106));
    assert_eq!((heard.delivered, sent.pipe()), (2 * MSS, 4 * MSS));
    let heard = acknowledge(&mut sent, 10, &[], at(110));
    assert_eq!((heard.acknowledged, heard.delivered, sent.pipe(), sent.sacked()), (8 * MSS, 4 * MSS, 0, 0));
}

#[test]
fn what_was_sent_before_something_that_arrived_is_lost_a_quarter_of_a_round_trip_later() {
    let mut sent = sent(4);
    acknowledge(&mut sent, 0, &[block(1, 2)], at(101));
    let (found, again) = sent.detect(at(101), RTT, false);
    assert_eq!((found, again), (0, Some(at(125))), "sent at 0, and 100 + 25 ms may pass");
    assert_eq!(lost(&sent), None);
    assert_eq!(sent.detect(at(125), RTT, false), (MSS, None), "those behind are not looked at");
    assert_eq!((lost(&sent), sent.pipe()), (Some((0, 1)), 2 * MSS));
    sent.send(START, START + MSS, at(126));
    assert_eq!((lost(&sent), sent.pipe()), (None, 3 * MSS));
    // Sent again it is the last that was sent: what arrives now was sent before.
    acknowledge(&mut sent, 0, &[block(1, 4)], at(130));
    assert_eq!(sent.detect(at(230), RTT, false), (0, None));
    // It was lost again: something sent later arrives.
    sent.send(START + 4 * MSS, START + 5 * MSS, at(230));
    acknowledge(&mut sent, 0, &[block(1, 5)], at(330));
    assert_eq!(sent.detect(at(330), RTT, true).0, MSS);
}

#[test]
fn reordering_is_waited_for_once_it_was_seen() {
    let mut sent = sent(4);
    acknowledge(&mut sent, 0, &[block(2, 3)], at(102));
    assert_eq!(sent.detect(at(102), RTT, true), (2 * MSS, None), "enough duplicates");
    // The second comes after the third, though sent once: nothing was lost, only late.
    acknowledge(&mut sent, 0, &[block(1, 3)], at(103));
    sent.find_all();
    let (found, again) = sent.detect(at(103), RTT, true);
    assert_eq!((found, again.is_some()), (0, true));
}

#[test]
fn without_blocks_the_first_segment_is_the_lost_one() {
    let mut sent = Sent::new(START);
    sent.send(START, START + 5 * MSS, at(0));
    sent.lose_first(MSS);
    assert_eq!((lost(&sent), sent.pipe()), (Some((0, 1)), 4 * MSS));
    sent.lose_all();
    assert_eq!((sent.lost(), sent.pipe()), (5 * MSS, 0));
    assert_eq!(lost(&sent), Some((0, 1)));
    sent.send(START, START + MSS, at(300));
    assert_eq!(lost(&sent), Some((1, 5)));
    sent.find_all();
    assert_eq!((lost(&sent), sent.pipe()), (None, 5 * MSS));
}

#[test]
fn what_was_sent_twice_measures_nothing() {
    let mut sent = sent(2);
    sent.lose_all();
    sent.send(START, START + 2 * MSS, at(300));
    let heard = acknowledge(&mut sent, 2, &[], at(301));
    assert_eq!((heard.rtt, heard.delivered), (None, 2 * MSS));
}

#[test]
fn the_first_block_may_say_what_came_twice() {
    let mut sent = sent(10);
    let twice = SackBlock { left: START.0, right: (START + 10).0 };
    assert_eq!(acknowledge(&mut sent, 2, &[twice], at(105)).duplicate, Some(twice));
    let heard = acknowledge(&mut sent, 2, &[block(4, 5), block(3, 6)], at(105));
    assert_eq!((heard.duplicate, sent.sacked()), (Some(block(4, 5)), 3 * MSS));
    let heard = acknowledge(&mut sent, 2, &[block(7, 8), block(3, 6)], at(105));
    assert_eq!((heard.duplicate, sent.sacked()), (None, 4 * MSS));
}

#[test]
fn blocks_that_cannot_be_count_for_nothing() {
    let mut sent = sent(4);
    for nonsense in [block(3, 5), block(2, 1), SackBlock { left: (START - 5).0, right: (START + MSS).0 }] {
        let heard = acknowledge(&mut sent, 0, &[nonsense], at(105));
        assert!(heard.is_nonsense, "{nonsense:?}");
        assert_eq!((heard.delivered, sent.pipe()), (0, 4 * MSS));
    }
}

#[test]
fn a_receiver_that_threw_away_what_it_had_is_not_believed() {
    let mut sent = sent(4);
    acknowledge(&mut sent, 0, &[block(1, 3)], at(105));
    // It moves to where it said it had more, and not beyond.
    acknowledge(&mut sent, 1, &[], at(106));
    assert_eq!((sent.sacked(), sent.pipe()), (0, 3 * MSS));
}

#[test]
fn a_receiver_cannot_cut_more_pieces_than_there_may_be() {
    let mut sent = Sent::new(START);
    let bytes = u32::try_from(PIECES_MAX).unwrap() * 4;
    sent.send(START, START + bytes, at(0));
    for byte in (1..bytes).step_by(2) {
        let block = SackBlock { left: (START + byte).0, right: (START + byte + 1).0 };
        sent.acknowledge(START, &[block], at(10));
        assert!(sent.pieces.len() <= PIECES_MAX);
    }
    assert_eq!(sent.pipe() + sent.sacked(), bytes);
    sent.acknowledge(START + bytes, &[], at(20));
    assert_eq!((sent.pipe(), sent.sacked(), sent.pieces.len()), (0, 0, 0));
}

proptest! {
    /// The sums are those of the pieces, whatever comes.
    #[test]
    fn sums_agree_with_the_pieces(
        acts in proptest::collection::vec((0..7_u8, 0..9000_u32, 1..3000_u32), 1..120),
    ) {
        let mut sent = Sent::new(START);
        let mut now = at(0);
        for (act, from, len) in acts {
            now = now + Duration::from_millis(1);
            let (start, end) = (START + from, START + from + len);
            match act {
                0 | 1 => sent.send(sent.behind(), sent.behind() + len.min(9000 - sent.behind().since(START).min(8999)), now),
                2 => sent.send(start.max(sent.first()), end.min(sent.behind()), now),
                3 => {
                    let ack = start.max(sent.first()).min(sent.behind());
                    sent.acknowledge(ack, &[], now);
                }
                4 => {
                    sent.acknowledge(sent.first(), &[SackBlock { left: start.0, right: end.0 }], now);
                }
                5 => {
                    sent.detect(now, RTT, from % 2 == 0);
                }
                _ => sent.lose_first(len),
            }
            let of = |fate| sent.pieces.iter().filter(|piece| piece.fate == fate).map(Piece::len).sum::<u32>();
            prop_assert_eq!((of(Fate::Sacked), of(Fate::Lost), of(Fate::UnderWay)), (sent.sacked(), sent.lost(), sent.pipe()));
            let mut next = sent.first();
            for piece in sent.pieces.iter() {
                prop_assert_eq!(piece.start, next);
                prop_assert!(piece.len() > 0);
                next = piece.end;
            }
            prop_assert_eq!(next, sent.behind());
        }
    }
}

/// A receiver that reports SACK blocks byte by byte cuts the scoreboard into as many pieces as there may be.
#[test]
fn what_cannot_be_cut_any_more_is_sent_again_and_not_for_ever() {
    let mut sent = Sent::new(Seq(0));
    let (pieces, now) = (u32::try_from(PIECES_MAX).unwrap(), Instant::from_ns(1));
    let end = 100 * pieces;
    sent.send(Seq(0), Seq(end), now);
    for n in 1..pieces {
        sent.acknowledge(Seq(0), &[SackBlock { left: 10 * n, right: 10 * n + 5 }], now);
    }
    sent.lose_all();
    let mut count = 0;
    while let Some((start, end)) = sent.first_lost() {
        sent.send(start, end.min(start + 1), now);
        count += 1;
        assert!(count <= 2 * PIECES_MAX, "it does not end");
    }
    assert_eq!(sent.lost(), 0);
}

#[test]
fn the_reordering_window_grows_with_round_trips_in_which_something_came_twice_and_shrinks_after_16_recoveries()
 {
    let mut sent = sent(40);
    let twice = SackBlock { left: START.0, right: (START + 10).0 };
    // Ten segments each round trip; of the first, blocks tell twice of a duplicate, which counts once.
    acknowledge(&mut sent, 1, &[], at(100));
    let window = |sent: &Sent| sent.rack.reordering_window(RTT * 10, false);
    assert_eq!(window(&sent), RTT / 4);
    acknowledge(&mut sent, 2, &[twice], at(101));
    acknowledge(&mut sent, 3, &[twice], at(102));
    assert_eq!(window(&sent), RTT / 4 * 2, "one more quarter in a round trip");
    sent.send(START + 40 * MSS, START + 41 * MSS, at(110));
    acknowledge(&mut sent, 40, &[twice], at(139));
    assert_eq!(window(&sent), RTT / 4 * 3, "what was sent when the first came is acknowledged");
    assert_eq!(sent.rack.reordering_window(RTT / 2, false), RTT / 2, "no longer than a round trip");
    for _ in 0..15 {
        sent.recovered();
    }
    assert_eq!(window(&sent), RTT / 4 * 3);
    sent.recovered();
    assert_eq!(window(&sent), RTT / 4, "sixteen recoveries without one");
}
