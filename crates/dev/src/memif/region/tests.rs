use super::*;
use std::fs::File;

fn memfd(flags: MemfdFlags, len: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("t", flags | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    if !seals.is_empty() {
        fcntl_add_seals(&file, seals).unwrap();
    }
    file
}

#[test]
fn what_one_end_writes_the_other_reads() {
    let (ours, file) = Region::create(4096).unwrap();
    let theirs = Region::accept(&file, 4096).unwrap();
    for len in [0, 1, 31, 32, 33, 60, 63, 64, 65, 66, 127, 128, 129, 1514] {
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from((at * 7 + len) & 0xff).unwrap()).collect();
        let mut around = vec![0xaa; len + 2];
        assert!(ours.write(100, &around) && theirs.write(101, &bytes));
        assert!(ours.read(100, &mut around));
        assert_eq!((&around[1..=len], around[0], around[len + 1]), (&bytes[..], 0xaa, 0xaa), "{len}");
    }
}

#[test]
fn nothing_outside_is_read_or_written() {
    let (region, _file) = Region::create(4096).unwrap();
    for (offset, len) in
        [(4096, 1), (4095, 2), (4033, 64), (usize::MAX, 64), (usize::MAX - 63, 64), (5000, 64)]
    {
        let mut buffer = vec![7; len];
        assert!(!region.read(offset, &mut buffer) && !region.write(offset, &buffer), "{offset}+{len}");
        assert!(buffer.iter().all(|&byte| byte == 7));
    }
    assert!(region.read(4096, &mut []) && region.read(4032, &mut [0; 64]));
}

#[test]
fn a_file_that_could_shrink_is_refused() {
    let sealing = MemfdFlags::ALLOW_SEALING;
    let accept = |file: &dyn AsFd, len| Region::accept(file.as_fd(), len).map(|region| region.len());
    assert_eq!(accept(&memfd(sealing, 4096, SealFlags::SHRINK), 4096), Ok(4096));
    assert_eq!(accept(&memfd(sealing, 4096, SealFlags::empty()), 4096), Err(Fault::Unsealed));
    assert_eq!(accept(&memfd(sealing, 4096, SealFlags::GROW), 4096), Err(Fault::Unsealed));
    assert_eq!(accept(&memfd(MemfdFlags::empty(), 4096, SealFlags::empty()), 4096), Err(Fault::Unsealed));
    assert_eq!(accept(&File::open("/dev/zero").unwrap(), 4096), Err(Fault::Unsealed));
    assert_eq!(accept(&File::open("/proc/self/exe").unwrap(), 4096), Err(Fault::Unsealed));
}

#[test]
fn a_file_shorter_than_was_said_is_refused() {
    let file = memfd(MemfdFlags::ALLOW_SEALING, 4096, SealFlags::SHRINK);
    let accept = |len| Region::accept(&file, len).map(|region| region.len());
    assert_eq!(accept(4097), Err(Fault::RegionShort { claimed: 4097, file: 4096 }));
    assert_eq!(accept(0), Err(Fault::RegionSize(0)));
    assert_eq!(accept(BYTES_MAX + 1), Err(Fault::RegionSize(BYTES_MAX + 1)));
    assert_eq!(accept(u64::MAX), Err(Fault::RegionSize(u64::MAX)));
    assert_eq!(accept(100), Ok(100));
}

#[test]
fn our_own_file_cannot_be_cut_off_by_the_peer() {
    let (_region, file) = Region::create(4096).unwrap();
    assert!(ftruncate(&file, 100).is_err() && ftruncate(&file, 8192).is_err());
    assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
}
