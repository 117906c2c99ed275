//! Arithmetic, and comparisons.

use super::code::Op;

/// `a op b` on 64 bits. Division by 0 answers 0, the remainder of it the dividend (RFC 9669 §4.1).
#[inline(always)]
pub(super) fn alu64(op: &Op, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a.cast_signed(), b.cast_signed());
    match op.code {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 if op.offset == 1 => {
            if sb == 0 {
                0
            } else {
                sa.wrapping_div(sb).cast_unsigned()
            }
        }
        0x30 => a.checked_div(b).unwrap_or(0),
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.wrapping_shl(low(b)),
        0x70 => a.wrapping_shr(low(b)),
        0x80 => a.wrapping_neg(),
        0x90 if op.offset == 1 => {
            if sb == 0 {
                a
            } else {
                sa.wrapping_rem(sb).cast_unsigned()
            }
        }
        0x90 => a.checked_rem(b).unwrap_or(a),
        0xa0 => a ^ b,
        0xb0 => extended(b, op.offset),
        _ => sa.wrapping_shr(low(b)).cast_unsigned(),
    }
}

/// `a op b` on 32 bits; the upper half is 0.
#[inline(always)]
pub(super) fn alu32(op: &Op, a: u64, b: u64) -> u64 {
    let (a, b) = (low(a), low(b));
    let (sa, sb) = (a.cast_signed(), b.cast_signed());
    u64::from(match op.code {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 if op.offset == 1 => {
            if sb == 0 {
                0
            } else {
                sa.wrapping_div(sb).cast_unsigned()
            }
        }
        0x30 => a.checked_div(b).unwrap_or(0),
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.wrapping_shl(b),
        0x70 => a.wrapping_shr(b),
        0x80 => a.wrapping_neg(),
        0x90 if op.offset == 1 => {
            if sb == 0 {
                a
            } else {
                sa.wrapping_rem(sb).cast_unsigned()
            }
        }
        0x90 => a.checked_rem(b).unwrap_or(a),
        0xa0 => a ^ b,
        0xb0 => low(extended(u64::from(b), op.offset)),
        _ => sa.wrapping_shr(b).cast_unsigned(),
    })
}

/// The lower bits, extended with their sign if a move says how many they are.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
fn extended(b: u64, bits: i16) -> u64 {
    match bits {
        8 => i64::from(b as i8).cast_unsigned(),
        16 => i64::from(b as i16).cast_unsigned(),
        32 => i64::from(b as i32).cast_unsigned(),
        _ => b,
    }
}

/// `order` is 0 for little endian, 1 for big endian, 2 for swapping in any case.
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
pub(super) fn byte_order(order: u8, bits: u64, value: u64) -> u64 {
    match (order, bits) {
        (0, 16) => u64::from((value as u16).to_le()),
        (0, 32) => u64::from((value as u32).to_le()),
        (0, _) => value.to_le(),
        (1, 16) => u64::from((value as u16).to_be()),
        (1, 32) => u64::from((value as u32).to_be()),
        (1, _) => value.to_be(),
        (_, 16) => u64::from((value as u16).swap_bytes()),
        (_, 32) => u64::from((value as u32).swap_bytes()),
        _ => value.swap_bytes(),
    }
}

#[inline(always)]
pub(super) const fn jumps64(code: u8, a: u64, b: u64) -> bool {
    let (sa, sb) = (a.cast_signed(), b.cast_signed());
    match code {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        0x50 => a != b,
        0x60 => sa > sb,
        0x70 => sa >= sb,
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => sa < sb,
        _ => sa <= sb,
    }
}

#[inline(always)]
pub(super) fn jumps32(code: u8, a: u64, b: u64) -> bool {
    let is_signed = matches!(code, 0x60 | 0x70 | 0xc0 | 0xd0);
    if is_signed {
        let wide = |value: u64| i64::from(low(value).cast_signed()).cast_unsigned();
        return jumps64(code, wide(a), wide(b));
    }
    jumps64(code, u64::from(low(a)), u64::from(low(b)))
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low(value: u64) -> u32 {
    value as u32
}
