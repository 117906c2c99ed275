//! A lane of two threads that sleep when they can do nothing: all interleavings of bytes, room, ends and wake-ups. A lost
//! wake-up shows as a deadlock.
use loom::{
    model::Builder,
    sync::{Arc, Condvar, Mutex},
    thread,
};
use pkt::byte_channel::{Reader, Writer, lanes};

#[test]
fn bytes_arrive_in_order_and_no_wake_up_is_lost() {
    bounded(3, || {
        let (near, far) = lanes(1, 2).unwrap();
        let (tx, _back) = near.take(0).unwrap();
        let (room, bytes) = (Bell::default(), Bell::default());
        let (told_room, tells_bytes) = (room.clone(), bytes.clone());
        let writer = thread::spawn(move || write_all(tx, &[1, 2, 3], &told_room, &tells_bytes));
        let (_back, rx) = far.take(0).unwrap();
        assert_eq!(read_all(rx, &bytes, &room), [1, 2, 3]);
        writer.join().unwrap();
    });
}

/// A writer that needs more than half of the ring announces it again after each part that is given back.
#[test]
fn room_for_a_whole_is_not_waited_for_in_vain() {
    bounded(3, || {
        let (near, far) = lanes(1, 2).unwrap();
        let (mut tx, _back) = near.take(0).unwrap();
        let (room, bytes) = (Bell::default(), Bell::default());
        let (told_room, tells_bytes) = (room.clone(), bytes.clone());
        let writer = thread::spawn(move || {
            for whole in [[1, 2], [3, 4]] {
                while tx.free().unwrap() < 2 {
                    if tx.waits_for(2).unwrap() {
                        told_room.wait();
                    }
                }
                tx.write(&whole).unwrap();
                if tx.publish() {
                    tells_bytes.ring();
                }
            }
            if tx.finish(1) {
                tells_bytes.ring();
            }
        });
        let (_back, mut rx) = far.take(0).unwrap();
        let mut all: Vec<u8> = Vec::new();
        while rx.end().unwrap().is_none() {
            let mut into = [0; 1];
            let count = rx.read(&mut into).unwrap();
            all.extend(&into[..count]);
            if rx.release().unwrap() {
                room.ring();
            }
            if count == 0 && rx.end().unwrap().is_none() && rx.waits().unwrap() {
                bytes.wait();
            }
        }
        assert_eq!(all, [1, 2, 3, 4]);
        writer.join().unwrap();
    });
}

#[test]
fn an_end_that_is_told_of_is_not_overlooked() {
    loom::model(|| {
        let (near, far) = lanes(1, 2).unwrap();
        let (mut tx, _back) = near.take(0).unwrap();
        let bytes = Bell::default();
        let tells = bytes.clone();
        let writer = thread::spawn(move || {
            if tx.finish(5) {
                tells.ring();
            }
            drop(tx);
        });
        let (_back, mut rx) = far.take(0).unwrap();
        let how = loop {
            match rx.end().unwrap() {
                Some(how) => break how,
                None if rx.waits().unwrap() => bytes.wait(),
                None => {}
            }
        };
        assert_eq!(how, 5);
        writer.join().unwrap();
    });
}

/// One end leaves a lane while the other takes it, and it is begun again as soon as it can be: its holder then touches no
/// byte that another thread touches.
#[test]
fn a_reused_byte_channel_belongs_to_its_new_owner() {
    bounded(3, || {
        let (near, far) = lanes(1, 1).unwrap();
        let (mut tx, rx) = near.take(0).unwrap();
        let reader = thread::spawn(move || {
            while let Some((tx, mut rx)) = far.take(0) {
                let _ = rx.read(&mut [0]).unwrap();
                drop((tx, rx));
            }
        });
        assert_eq!(tx.write(&[1]), Ok(1));
        let _ = tx.publish();
        drop((tx, rx));
        if let Some((mut tx, _rx)) = near.take(0) {
            assert_eq!(tx.write(&[2]), Ok(1), "all of it is free");
            let _ = tx.publish();
        }
        near.tidy(0);
        reader.join().unwrap();
    });
}

fn write_all(mut tx: Writer, bytes: &[u8], room: &Bell, tells: &Bell) {
    for byte in bytes {
        while tx.write(&[*byte]).unwrap() == 0 {
            if tx.waits().unwrap() {
                room.wait();
            }
        }
        if tx.publish() {
            tells.ring();
        }
    }
    if tx.finish(1) {
        tells.ring();
    }
}

fn read_all(mut rx: Reader, bytes: &Bell, tells: &Bell) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut into = [0; 2];
        let count = rx.read(&mut into).unwrap();
        all.extend(&into[..count]);
        if rx.release().unwrap() {
            tells.ring();
        }
        if rx.end().unwrap().is_some() {
            return all;
        }
        if count == 0 && rx.waits().unwrap() {
            bytes.wait();
        }
    }
}

/// Keeps a ring that comes before the wait.
#[derive(Clone, Default)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
