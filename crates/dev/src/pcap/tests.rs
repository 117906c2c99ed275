use super::*;
use pkt::Arena;

fn pool() -> Pool {
    Arena::carve(1, 64, false).unwrap().remove(0)
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("pantala-pcap-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn frames(ring: &mut PcapRing, pool: &mut Pool) -> Vec<Vec<u8>> {
    let mut vec = PktVec::new();
    ring.rx(pool, &mut vec, 256);
    let frames = vec.iter().map(|pkt| pkt.fragments().flatten().copied().collect()).collect();
    vec.drain().for_each(|pkt| pool.give(pkt));
    frames
}

#[test]
fn what_was_captured_is_replayed_byte_for_byte() {
    let (file, mut pool) = (folder("round").join("x.pcap"), pool());
    let sent = [vec![1; 60], vec![2; DATA_LEN], vec![3; DATA_LEN + 1], vec![4; 9014]];
    let mut capture = PcapRing::open(None, Some(&file)).unwrap();
    let mut vec = PktVec::new();
    for frame in &sent {
        vec.push(packet(frame, &mut pool).unwrap()).unwrap();
    }
    capture.tx(&mut pool, &mut vec);
    capture.close(&mut pool);
    let mut replay = PcapRing::open(Some(&file), None).unwrap();
    assert_eq!(frames(&mut replay, &mut pool), sent);
    assert!(frames(&mut replay, &mut pool).is_empty() && replay.link() == Link::Down);
    assert_eq!(pool.free(), 64);
}

#[test]
fn both_byte_orders_are_read() {
    let (file, mut pool) = (folder("order").join("x.pcap"), pool());
    let words = [0xa1b2_c3d4_u32, 2 << 16 | 4, 0, 0, 262_144, 1, 7, 8, 4, 4];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.extend(b"abcd");
    std::fs::write(&file, bytes).unwrap();
    let mut replay = PcapRing::open(Some(&file), None).unwrap();
    assert_eq!(frames(&mut replay, &mut pool), [b"abcd"]);
}

#[test]
fn what_is_no_pcap_file_of_ethernet_frames_is_refused_with_a_reason() {
    let file = folder("bad").join("x.pcap");
    let header = |magic: u32, link: u32| [magic, 2 | 4 << 16, 0, 0, 1, link].map(u32::to_le_bytes).concat();
    for (bytes, reason) in [
        (header(0x0a0d_0d0a, 1), "not a pcap file"),
        (header(0xa1b2_c3d4, 113), "link type 113"),
        (vec![1, 2, 3], "failed to fill whole buffer"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = PcapRing::open(Some(&file), None).err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_file_that_lies_about_a_length_ends_there_and_is_counted() {
    let (file, mut pool) = (folder("long").join("x.pcap"), pool());
    let words = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 262_144, 1, 0, 0, u32::MAX, u32::MAX];
    std::fs::write(&file, words.map(u32::to_le_bytes).concat()).unwrap();
    let mut replay = PcapRing::open(Some(&file), None).unwrap();
    assert!(frames(&mut replay, &mut pool).is_empty());
    assert_eq!(replay.stats().rx_errors, 1);
}
