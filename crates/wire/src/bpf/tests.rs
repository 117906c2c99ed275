use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
    Insn { code, jt, jf, k }
}

const KEEP: Insn = insn(RET, 0, 0, 0x4_0000);
const REJECT: Insn = insn(RET, 0, 0, 0);

/// `tcpdump -d icmp or icmp6` for Ethernet.
const ICMP: [Insn; 9] = [
    insn(0x28, 0, 0, 12),
    insn(0x15, 0, 2, 0x800),
    insn(0x30, 0, 0, 23),
    insn(0x15, 3, 4, 1),
    insn(0x15, 0, 3, 0x86dd),
    insn(0x30, 0, 0, 20),
    insn(0x15, 0, 1, 58),
    KEEP,
    REJECT,
];

fn frame(ethertype: u16, protocol_at: usize, protocol: u8) -> Vec<u8> {
    let mut frame = std::vec![0; 60];
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame[protocol_at] = protocol;
    frame
}

fn run(insns: &[Insn], bytes: &[u8]) -> u32 {
    let len = u32::try_from(bytes.len()).unwrap();
    Program::new(insns).unwrap().run(&Packet { bytes, len, is_outgoing: false })
}

#[test]
fn a_filter_for_icmp_keeps_icmp_of_both_families_and_nothing_else() {
    for (bytes, kept) in [
        (frame(0x800, 23, 1), 0x4_0000),
        (frame(0x86dd, 20, 58), 0x4_0000),
        (frame(0x800, 23, 6), 0),
        (frame(0x86dd, 20, 1), 0),
        (frame(0x806, 23, 1), 0),
        (frame(0x800, 23, 1)[..23].to_vec(), 0),
        (Vec::new(), 0),
    ] {
        assert_eq!(run(&ICMP, &bytes), kept, "{bytes:?}");
    }
}

#[test]
fn operations_give_what_bpf_says() {
    let ret_a = insn(RET | RET_A, 0, 0, 0);
    for (code, a, k, is) in [
        (0x04, 7, 5, 12),
        (0x14, 5, 7, u32::MAX - 1),
        (0x24, 7, 5, 35),
        (0x34, 7, 2, 3),
        (0x44, 5, 2, 7),
        (0x54, 7, 5, 5),
        (0x64, 1, 31, 1 << 31),
        (0x64, 1, 32, 0),
        (0x74, 8, 3, 1),
        (0x84, 1, 0, u32::MAX),
        (0x94, 7, 4, 3),
        (0xa4, 7, 5, 2),
    ] {
        let by_constant = [insn(IMM, 0, 0, a), insn(code, 0, 0, k), ret_a];
        let by_x = [insn(IMM, 0, 0, a), insn(LDX | IMM, 0, 0, k), insn(code | BY_X, 0, 0, 0), ret_a];
        assert_eq!((run(&by_constant, &[]), run(&by_x, &[])), (is, is), "{code:#x}");
    }
    let by_zero = [insn(IMM, 0, 0, 7), insn(LDX | IMM, 0, 0, 0), insn(0x3c, 0, 0, 0), ret_a];
    assert_eq!(run(&by_zero, &[]), 0);
    let memory =
        [insn(IMM, 0, 0, 9), insn(ST, 0, 0, 3), insn(LDX | MEM, 0, 0, 3), insn(0x87, 0, 0, 0), ret_a];
    assert_eq!(run(&memory, &[]), 9);
    assert_eq!(run(&[insn(LD | LEN, 0, 0, 0), ret_a], &[1, 2, 3]), 3);
    assert_eq!(run(&[insn(0xb1, 0, 0, 0), insn(0x50, 0, 0, 0), ret_a], &[0x45; 21]), 0x45);
}

#[test]
fn a_packet_that_is_sent_is_known_by_its_type() {
    let program =
        Program::new([insn(0x28, 0, 0, PACKET_TYPE), insn(0x15, 0, 1, OUTGOING), KEEP, REJECT]).unwrap();
    let run = |is_outgoing| program.run(&Packet { bytes: &[], len: 0, is_outgoing });
    assert_eq!((run(true), run(false)), (0x4_0000, 0));
}

#[test]
fn a_program_that_could_leave_its_bounds_is_refused() {
    for (insns, why) in [
        (&[][..], BadProgram::Length),
        (&[KEEP; INSNS_MAX + 1], BadProgram::Length),
        (&[insn(LD | LEN, 0, 0, 0)], BadProgram::NoReturn),
        (&[insn(0x15, 1, 0, 0), KEEP], BadProgram::Jump(0)),
        (&[insn(0x15, 0, 255, 0), KEEP], BadProgram::Jump(0)),
        (&[insn(0x05, 0, 0, u32::MAX), KEEP], BadProgram::Jump(0)),
        (&[insn(ST, 0, 0, 16), KEEP], BadProgram::Memory(0)),
        (&[insn(LDX | MEM, 0, 0, 16), KEEP], BadProgram::Memory(0)),
        (&[KEEP, insn(0x34, 0, 0, 0), KEEP], BadProgram::Division(1)),
        (&[insn(0x55, 0, 0, 0), KEEP], BadProgram::Operation(0)),
        (&[insn(0x100, 0, 0, 0), KEEP], BadProgram::Operation(0)),
        (&[insn(0xb4, 0, 0, 1), KEEP], BadProgram::Operation(0)),
        (&[insn(0x29, 0, 0, 0), KEEP], BadProgram::Operation(0)),
    ] {
        assert_eq!(Program::new(insns), Err(why));
    }
}

proptest! {
    #[test]
    fn any_program_and_any_packet_end_without_a_panic(data in proptest::collection::vec(any::<u8>(), 0..96)) {
        crate::fuzz_bodies::bpf(&data);
    }

    /// Jumps of a random length over instructions that each add one bit tell the way that was taken.
    #[test]
    fn a_jump_skips_as_many_instructions_as_it_says(jt in 0_u8..8, jf in 0_u8..8, a in any::<u32>(), k in any::<u32>()) {
        let mut insns = std::vec![insn(IMM, 0, 0, a), insn(0x25, jt, jf, k), insn(IMM, 0, 0, 0)];
        insns.extend((0..7).map(|bit| insn(0x44, 0, 0, 1 << bit)));
        insns.push(insn(0x54, 0, 0, 0x7f));
        insns.push(insn(RET | RET_A, 0, 0, 0));
        let skipped = u32::from(if a > k { jt } else { jf });
        let all = 0x7f << skipped.saturating_sub(1) & 0x7f;
        let is = if skipped == 0 { 0x7f } else { (a & 0x7f) | all };
        prop_assert_eq!(run(&insns, &[]), is);
    }
}
