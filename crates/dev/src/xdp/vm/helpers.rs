//! Functions that programs call.

use pkt::Pkt;

use super::{Fault, Machine, PACKET_AT, Pending, Shared};
use crate::xdp::maps::{EINVAL, KEY_MAX};

/// Numbers and names (`enum bpf_func_id`).
const KNOWN: &[(i32, &str)] = &[
    (1, "map_lookup_elem"),
    (2, "map_update_elem"),
    (3, "map_delete_elem"),
    (5, "ktime_get_ns"),
    (7, "get_prandom_u32"),
    (8, "get_smp_processor_id"),
    (23, "redirect"),
    (28, "csum_diff"),
    (44, "xdp_adjust_head"),
    (51, "redirect_map"),
    (54, "xdp_adjust_meta"),
    (65, "xdp_adjust_tail"),
    (125, "ktime_get_boot_ns"),
];
/// Shortest frame that is left.
const ETHER_HEADER: usize = 14;
/// Longest value that is written at once, and longest run of bytes that is summed.
const BYTES_MAX: usize = 4096;
const SUMMED_MAX: usize = 512;
const XDP_ABORTED: u64 = 0;
const XDP_REDIRECT: u64 = 4;
const ENOTSUPP: i64 = -524;

/// Whether programs in this process may call it.
pub(super) fn is_known(number: i32) -> bool {
    KNOWN.iter().any(|(known, _)| *known == number)
}

/// The name of a helper.
pub(super) fn name(number: i32) -> String {
    let known = KNOWN.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| number.to_string(), |(_, name)| format!("bpf_{name}"))
}

/// All names.
pub(super) fn names() -> String {
    KNOWN.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

impl Machine {
    /// Calls a helper with the arguments in `r1` to `r5`; answers its result.
    pub(super) fn help(&mut self, shared: &Shared, number: u64, frame: &mut Pkt) -> Result<u64, Fault> {
        let [_, a, b, c, d, e, ..] = self.registers;
        Ok(match number {
            1 => self.lookup(shared, a, b, frame)?,
            2 => self.update(shared, [a, b, c, d], frame)?.cast_unsigned(),
            3 => {
                let mut key = [0; KEY_MAX];
                let (map, key_len) = self.key_of(shared, a, b, &mut key, frame)?;
                shared.maps[map].delete(&key[..key_len]).cast_unsigned()
            }
            5 | 125 => self.occasion.now.ns(),
            7 => self.random() >> 32,
            8 => u64::from(self.occasion.cpu),
            23 => self.redirect(a, b),
            28 => self.csum_diff(shared, [a, b, c, d, e], frame)?,
            44 => adjust_head(frame, signed(b)).cast_unsigned(),
            51 => self.redirect_map(shared, [a, b, c])?,
            54 => ENOTSUPP.cast_unsigned(),
            _ => adjust_tail(frame, signed(b)).cast_unsigned(),
        })
    }

    #[inline]
    fn lookup(&self, shared: &Shared, map: u64, key_at: u64, frame: &mut Pkt) -> Result<u64, Fault> {
        let number = self.map_of(shared, map)?;
        let (map, cpu) = (&shared.maps[number], u64::from(self.occasion.cpu));
        let found = match map.key_size {
            4 => map.lookup_word(self.load(shared, key_at, 4, frame)?, cpu),
            8 => map.lookup_word(self.load(shared, key_at, 8, frame)?, cpu),
            key_len => {
                let mut key = [0; KEY_MAX];
                let key = &mut key[..key_len];
                self.copy_out(shared, key_at, key, frame)?;
                map.lookup(key, cpu)
            }
        };
        Ok(found.map_or(0, |at| Self::address_of(number, at)))
    }

    fn update(
        &mut self,
        shared: &Shared,
        [map, key_at, value_at, flags]: [u64; 4],
        frame: &mut Pkt,
    ) -> Result<i64, Fault> {
        let mut key = [0; KEY_MAX];
        let (map, key_len) = self.key_of(shared, map, key_at, &mut key, frame)?;
        let map = &shared.maps[map];
        if map.value_size > BYTES_MAX {
            return Ok(EINVAL);
        }
        let mut value = core::mem::take(&mut self.scratch);
        value.resize(map.value_size, 0);
        let copied = self.copy_out(shared, value_at, &mut value, frame);
        let done = copied.map(|()| map.update(&key[..key_len], &value, flags, u64::from(self.occasion.cpu)));
        self.scratch = value;
        done
    }

    /// Copies a key, and answers its map and its length.
    #[inline]
    fn key_of(
        &self,
        shared: &Shared,
        map: u64,
        at: u64,
        key: &mut [u8; KEY_MAX],
        frame: &mut Pkt,
    ) -> Result<(usize, usize), Fault> {
        let map = self.map_of(shared, map)?;
        let key_len = shared.maps[map].key_size;
        match key_len {
            4 => key[..4].copy_from_slice(&self.load(shared, at, 4, frame)?.to_le_bytes()[..4]),
            8 => key[..8].copy_from_slice(&self.load(shared, at, 8, frame)?.to_le_bytes()),
            _ => self.copy_out(shared, at, &mut key[..key_len], frame)?,
        }
        Ok((map, key_len))
    }

    fn redirect(&mut self, ifindex: u64, flags: u64) -> u64 {
        match u16::try_from(ifindex) {
            Ok(ifindex) if flags == 0 => {
                self.pending = Some(Pending::Interface(ifindex));
                XDP_REDIRECT
            }
            _ => XDP_ABORTED,
        }
    }

    /// A socket of this ring stands for the stack.
    fn redirect_map(&mut self, shared: &Shared, [map, key, flags]: [u64; 3]) -> Result<u64, Fault> {
        const ACTIONS: u64 = 3;
        let map = self.map_of(shared, map)?;
        if shared.maps[map].is_sockets() && key & 0xffff_ffff == u64::from(self.occasion.queue) {
            self.pending = Some(Pending::Stack);
            return Ok(XDP_REDIRECT);
        }
        Ok(flags & ACTIONS)
    }

    /// The checksum of what is added, less that of what is removed, and a seed: 32 bits, not complemented.
    fn csum_diff(
        &self,
        shared: &Shared,
        [from, from_len, to, to_len, seed]: [u64; 5],
        frame: &mut Pkt,
    ) -> Result<u64, Fault> {
        let mut sum = seed & 0xffff_ffff;
        let [from_len, to_len] = [from_len, to_len].map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        if from_len % 4 != 0 || to_len % 4 != 0 || from_len.max(to_len) > SUMMED_MAX {
            return Ok(EINVAL.cast_unsigned());
        }
        for (at, len, flip) in [(from, from_len, 0xffff_ffff_u64), (to, to_len, 0)] {
            let mut bytes = [0; SUMMED_MAX];
            let bytes = &mut bytes[..len];
            self.copy_out(shared, at, bytes, frame)?;
            for word in bytes.as_chunks().0 {
                sum += u64::from(u32::from_le_bytes(*word)) ^ flip;
            }
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        Ok(sum)
    }

    /// xorshift64*
    const fn random(&mut self) -> u64 {
        let mut state = self.seed;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.seed = state;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Moves the front of the frame. What is new there is zero.
fn adjust_head(frame: &mut Pkt, by: i64) -> i64 {
    let count = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
    if by < 0 {
        return frame.prepend(count).map_or(EINVAL, |new| {
            new.fill(0);
            0
        });
    }
    if frame.head_len().checked_sub(count).is_none_or(|left| left < ETHER_HEADER) {
        return EINVAL;
    }
    frame.trim_front(count);
    0
}

/// Moves the end of a frame that lies in one buffer. What is new there is zero.
fn adjust_tail(frame: &mut Pkt, by: i64) -> i64 {
    let count = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
    if frame.is_chained() {
        return EINVAL;
    }
    if by > 0 {
        return frame.append(count).map_or(EINVAL, |new| {
            new.fill(0);
            0
        });
    }
    match frame.len().checked_sub(count).filter(|left| *left >= ETHER_HEADER) {
        Some(left) => {
            // One buffer has nothing behind it.
            let _none = frame.truncate(left);
            0
        }
        None => EINVAL,
    }
}

/// A signed number of 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn signed(value: u64) -> i64 {
    (value as u32).cast_signed() as i64
}

const _: () = assert!(PACKET_AT > 0, "an address of the packet is never 0");
