//! A receiver that looks only at raised flags finds everything published, in all interleavings.
use loom::thread;
use pkt::{
    notify_bits::{Board, board},
    ring::{Consumer, ring},
};

#[test]
fn nothing_published_is_overlooked() {
    loom::model(|| {
        let (mut board, mut flags) = board(1);
        let flag = flags.remove(0);
        let (mut tx, rx) = ring(2);
        let sender = thread::spawn(move || {
            for item in 1..=2 {
                tx.push(item).unwrap();
                tx.publish();
                flag.raise();
            }
        });
        let mut rings = [rx];
        let mut sum = 0;
        while sum != 3 {
            sum += look(&mut board, &mut rings);
            thread::yield_now();
        }
        sender.join().unwrap();
    });
}

/// The second sender writes the word between the first one's raising and the receiver's look.
#[test]
fn a_flag_shows_what_its_sender_published_though_others_raised_theirs_since() {
    loom::model(|| {
        let (mut board, flags) = board(2);
        let (senders, mut rings): (Vec<_>, Vec<_>) = flags
            .into_iter()
            .map(|flag| {
                let (mut tx, rx) = ring(1);
                let sender = thread::spawn(move || {
                    tx.push(1).unwrap();
                    tx.publish();
                    flag.raise();
                });
                (sender, rx)
            })
            .unzip();
        let found = look(&mut board, &mut rings);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(found + look(&mut board, &mut rings), 2);
    });
}

/// Takes what is in the rings of those whose flags are up: at least one item in each.
fn look(board: &mut Board, rings: &mut [Consumer<u32>]) -> u32 {
    let mut sum = 0;
    board.take_down(|sender| {
        rings[sender].drain(usize::MAX, |item| sum += item);
    });
    sum
}
