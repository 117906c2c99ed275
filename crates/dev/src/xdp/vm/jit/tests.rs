//! Programs that a compiler might have made, with any numbers: machine code and interpreter do the same.

use net::driver::Verdict;

use crate::xdp::fuzz_bodies::any_program;

/// Random pieces of programs. `r6` is the context, `r7` the packet, `r9` a place on the stack; others are anything.
struct Pieces {
    state: u64,
}

type Piece = Vec<[u8; 8]>;

const fn insn(opcode: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> [u8; 8] {
    let [a, b] = offset.to_le_bytes();
    let [c, d, e, f] = immediate.to_le_bytes();
    [opcode, dst | src << 4, a, b, c, d, e, f]
}

const EXIT: [u8; 8] = insn(0x95, 0, 0, 0, 0);
/// Sizes of accesses: their bits in an opcode, and bytes.
const SIZES: [(u8, i16); 4] = [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)];

impl Pieces {
    fn below(&mut self, end: u32) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        u32::try_from(self.state >> 32).unwrap() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(u32::try_from(all.len()).unwrap()) as usize]
    }

    fn offset(&mut self, end: u32) -> i16 {
        i16::try_from(self.below(end)).unwrap()
    }

    fn number(&mut self) -> i32 {
        let any = self.below(u32::MAX).cast_signed();
        self.of(&[0, 1, -1, 7, 63, i32::MIN, i32::MAX, any])
    }

    fn register(&mut self) -> u8 {
        self.of(&[0, 1, 2, 3, 4, 5])
    }

    fn arithmetic(&mut self) -> [u8; 8] {
        let (dst, src, number) = (self.register(), self.register(), self.number());
        let class = self.of(&[4, 7]);
        if self.below(12) == 0 {
            let bits = self.of(&[16, 32, 64]);
            let opcode = self.of(&[0xd4, 0xdc, 0xd7]);
            return insn(opcode, dst, 0, 0, bits);
        }
        let code = u8::try_from(self.below(13)).unwrap() << 4;
        let offset = match code {
            0x30 | 0x90 => self.of(&[0, 1]),
            0xb0 => self.of(&[0, 0, 8, 16, 32]),
            _ => 0,
        };
        insn(code | class | self.of(&[0, 8]), dst, src, offset, number)
    }

    /// A load or store at a register.
    fn access(&mut self, base: u8, from: i16, end: u32) -> [u8; 8] {
        let (size, _) = self.of(&SIZES);
        let (register, number) = (self.register(), self.number());
        let offset = from + self.offset(end);
        match self.below(4) {
            0 => insn(0x62 | size, base, 0, offset, number),
            1 => insn(0x63 | size, base, register, offset, 0),
            2 if size != 0x18 => insn(0x81 | size, register, base, offset, 0),
            _ => insn(0x61 | size, register, base, offset, 0),
        }
    }

    fn atomic(&mut self, base: u8, from: i16) -> [u8; 8] {
        let what = self.of(&[0x00, 0x00, 0x01, 0x40, 0x41, 0x50, 0x51, 0xa0, 0xa1, 0xe1, 0xf1]);
        let (opcode, bytes) = self.of(&[(0xc3, 4), (0xdb, 8)]);
        let offset = from + if self.below(8) == 0 { 1 } else { self.offset(2) * bytes };
        insn(opcode, base, self.of(&[1, 2, 3]), offset, what)
    }

    /// A call of a helper with a map, a key and a value on the stack.
    fn map_call(&mut self) -> Piece {
        let (map, key) = (self.of(&[0, 1, 2, 3]), self.of(&[0, 1, 2, 3, 4, 5, 9, -1]));
        let helper = self.of(&[1, 1, 1, 2, 2, 3]);
        let mut piece = vec![
            insn(0x62, 10, 0, -8, key),
            insn(0xbf, 2, 10, 0, 0),
            insn(0x07, 2, 0, 0, -8),
            insn(0xbf, 3, 10, 0, 0),
            insn(0x07, 3, 0, 0, -40),
            insn(0xb7, 4, 0, 0, self.of(&[0, 1, 2])),
            insn(0x18, 1, 1, 0, map),
            insn(0, 0, 0, 0, 0),
            insn(0x85, 0, 0, 0, helper),
        ];
        if helper == 1 {
            let inner: Piece = (0..2)
                .map(|_| if self.below(2) == 0 { self.atomic(0, 0) } else { self.access(0, 0, 5) })
                .collect();
            // What is loaded may take the place of the address.
            piece.push(insn(0xbf, 9, 0, 0, 0));
            piece.push(insn(0x15, 0, 0, 3, 0));
            piece.extend(inner);
            piece.push(insn(0xbf, 0, 9, 0, 0));
            piece.extend([insn(0xbf, 9, 10, 0, 0), insn(0x07, 9, 0, 0, -128)]);
        }
        piece
    }

    fn other_call(&mut self) -> Piece {
        let by = self.of(&[-8, 8, -4, 4, 2000, -300]);
        let with = |number, helper| vec![insn(0xb7, 2, 0, 0, number), insn(0x85, 0, 0, 0, helper)];
        match self.below(5) {
            0 => vec![insn(0xb7, 1, 0, 0, 3), insn(0xb7, 2, 0, 0, 0), insn(0x85, 0, 0, 0, 23)],
            1 => vec![insn(0x85, 0, 0, 0, self.of(&[5, 7, 8, 125, 54]))],
            2 => vec![
                insn(0xbf, 1, 10, 0, 0),
                insn(0x07, 1, 0, 0, -64),
                insn(0xb7, 2, 0, 0, 16),
                insn(0xbf, 3, 7, 0, 0),
                insn(0xb7, 4, 0, 0, 8),
                insn(0xb7, 5, 0, 0, 3),
                insn(0x85, 0, 0, 0, 28),
            ],
            at => {
                let mut piece = vec![insn(0xbf, 1, 6, 0, 0)];
                piece.extend(with(by, if at == 3 { 44 } else { 65 }));
                piece.extend([insn(0x61, 7, 6, 0, 0), insn(0x61, 8, 6, 4, 0)]);
                piece
            }
        }
    }

    fn piece(&mut self, depth: u32) -> Piece {
        match self.below(if depth == 0 { 8 } else { 11 }) {
            0..=2 => vec![self.arithmetic()],
            3 => vec![self.access(7, 0, 45)],
            4 => vec![self.access(10, -120, 112)],
            5 => vec![self.access(9, 0, 100)],
            6 => self.map_call(),
            7 => self.other_call(),
            8 | 9 => {
                let inner = self.pieces(3, depth - 1);
                let code = self.of(&[0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0]);
                let opcode = code | self.of(&[5, 6]) | self.of(&[0, 8]);
                let over = i16::try_from(inner.len()).unwrap();
                let mut piece = vec![insn(opcode, self.register(), self.register(), over, self.number())];
                piece.extend(inner);
                piece
            }
            _ => {
                // A loop, mostly with an end.
                let inner = self.pieces(2, depth - 1);
                let slot = -200 - 8 * i16::try_from(depth).unwrap();
                let back = -4 - i16::try_from(inner.len()).unwrap();
                let mut piece = vec![insn(0x7a, 10, 0, slot, self.of(&[1, 3, 9, 100, 1 << 20]))];
                piece.extend(inner);
                piece.extend([
                    insn(0x79, 5, 10, slot, 0),
                    insn(0x07, 5, 0, 0, -1),
                    insn(0x7b, 10, 5, slot, 0),
                    insn(0x55, 5, 0, back, 0),
                ]);
                piece
            }
        }
    }

    fn pieces(&mut self, end: u32, depth: u32) -> Piece {
        (0..=self.below(end)).flat_map(|_| self.piece(depth)).collect()
    }

    fn program(&mut self) -> Vec<u8> {
        let mut program: Piece = vec![insn(0xbf, 6, 1, 0, 0)];
        program.extend([insn(0x61, 7, 6, 0, 0), insn(0x61, 8, 1, 4, 0)]);
        program.extend([insn(0xbf, 9, 10, 0, 0), insn(0x07, 9, 0, 0, -128)]);
        program.extend((0..=5).map(|register| insn(0xb7, register, 0, 0, self.number())));
        program.extend(self.pieces(8, 3));
        let calls = self.below(3) == 0;
        if calls {
            // Over the tail, to the function behind it.
            program.push(insn(0x85, 0, 1, 0, 16));
        }
        // Registers go where they can be seen: into a value.
        program.extend((2..=5).map(|register| insn(0x0f, 0, register, 0, 0)));
        program.extend([insn(0x7b, 10, 0, -16, 0), insn(0x62, 10, 0, -4, 0)]);
        program.extend([insn(0xbf, 2, 10, 0, 0), insn(0x07, 2, 0, 0, -4)]);
        program.extend([insn(0x18, 1, 1, 0, 0), insn(0, 0, 0, 0, 0), insn(0x85, 0, 0, 0, 1)]);
        program.extend([insn(0x79, 1, 10, -16, 0), insn(0x15, 0, 0, 1, 0), insn(0x7b, 0, 1, 0, 0)]);
        program.extend([insn(0xb7, 0, 0, 0, self.of(&[1, 2, 3, 4])), EXIT]);
        program.extend(self.pieces(4, 1));
        program.push(EXIT);
        program.concat()
    }
}

#[test]
fn machine_code_does_what_the_interpreter_does() {
    let mut pieces = Pieces { state: 0x1234_5678_9abc_def1 };
    let (mut verdicts, count) = ([0; 5], 6000);
    for _ in 0..count {
        let at = match any_program(&pieces.program()) {
            Some(Verdict::Drop) => 1,
            Some(Verdict::Pass) => 2,
            Some(Verdict::Tx) => 3,
            Some(Verdict::Redirect(_)) => 4,
            _ => 0,
        };
        verdicts[at] += 1;
    }
    assert!(verdicts[0] < count / 2, "most programs have an end: {verdicts:?}");
    assert!(verdicts.iter().all(|seen| *seen > 20), "all verdicts: {verdicts:?}");
}
