use std::path::Path;

use super::*;

/// Peers of each role that a run of the tests makes up, unless `PANTALA_PEERS` says how many.
const PEERS: u64 = 1500;
const BYTES_OF_PEER: usize = 900;

/// Bytes that follow from a seed.
fn made_up(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[1]
    };
    core::iter::repeat_with(byte).take(BYTES_OF_PEER).collect()
}

/// Peers of this role (the first byte: 0 slaves, 1 masters) that are kept with the fuzz target.
fn corpus(role: u8) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/memif_peer");
    let files = std::fs::read_dir(folder).unwrap();
    let all = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    all.filter(|bytes| bytes[0] == role).map(|bytes| bytes[1..].to_vec()).collect()
}

/// Lets all of them come; answers how many got as far as frames, and how many frames there were.
fn all(role: u8, peer: fn(&[u8]) -> Option<usize>) -> [usize; 2] {
    let corpus = corpus(role);
    assert!(corpus.len() >= 10);
    let count = std::env::var("PANTALA_PEERS").ok().and_then(|text| text.parse().ok());
    let made_up = (0..count.unwrap_or(PEERS)).map(made_up);
    let frames: Vec<usize> = made_up.chain(corpus).filter_map(|bytes| peer(&bytes)).collect();
    [frames.len(), frames.iter().sum()]
}

#[test]
fn whatever_a_slave_offers_and_writes_the_master_gets_frames_or_a_fault() {
    let [up, frames] = all(0, any_slave);
    assert!(up > 100 && frames > 20, "{up} connections, {frames} frames");
}

#[test]
fn whatever_a_master_says_and_writes_the_slave_gets_frames_or_a_fault() {
    let [up, frames] = all(1, any_master);
    assert!(up > 100 && frames > 20, "{up} connections, {frames} frames");
}
