//! Signatures (RFC 2385): the keys of other ends, the digest that a segment bears, and whether one that came has it.

use core::net::IpAddr;

use hashbrown::HashMap;
use md5::Context;
use pkt::Pkt;
use wire::Protocol;
use wire::tcp::{CHECKSUM_OFFSET, HEADER_LEN, Header, SIGNATURE_LEN};

use super::input::pcbs;
use super::pcbs::{Found, Pcbs};
use super::tcb::UNSIGNED;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::host::pcb::FourTuple;
use crate::host::sock::Error;
use crate::ip::l4;
use crate::turn::cpu::Cpu;

/// Other ends of which one CPU has a key at the most.
pub const KEYS_MAX: usize = 4096;
/// Bytes of a key at the most (Linux's `TCP_MD5SIG_MAXKEYLEN`).
pub const KEY_LEN_MAX: usize = 80;

/// The keys of other ends, by their addresses.
pub(super) struct Keys {
    keys: HashMap<IpAddr, Box<[u8]>, Secret>,
}

impl Keys {
    pub(super) fn new(secret: Secret) -> Self {
        Self { keys: HashMap::with_hasher(secret) }
    }

    fn set(&mut self, remote: IpAddr, key: &[u8]) -> Result<(), Error> {
        if key.is_empty() || key.len() > KEY_LEN_MAX {
            return Err(Error::BadKey);
        }
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&remote) {
            return Err(Error::TooMany);
        }
        self.keys.insert(remote, key.into());
        Ok(())
    }
}

/// The key that segments from and to `remote` are signed with, on this CPU; the other CPUs have to be told as well. Which
/// connections sign is their own setting: [`super::settings::Settings::signs`].
///
/// # Errors
///
/// [`Error::BadKey`], [`Error::TooMany`].
pub fn set_key(cpu: &mut Cpu, remote: IpAddr, key: &[u8]) -> Result<(), Error> {
    pcbs(cpu).keys.set(remote, key)
}

/// Forgets the key of `remote`: connections with it that sign come to a halt.
pub fn remove_key(cpu: &mut Cpu, remote: IpAddr) {
    pcbs(cpu).keys.keys.remove(&remote);
}

fn key(cpu: &Cpu, remote: IpAddr) -> Option<&[u8]> {
    cpu.tcp.as_ref()?.keys.keys.get(&remote).map(|key| &**key)
}

/// Signs a segment from `src` to `dst`, in its header. `None` if there is no key.
//= https://www.rfc-editor.org/rfc/rfc2385#section-2.0
//# Every segment sent on a TCP connection to be protected against
//# spoofing will contain the 16-byte MD5 digest
pub(super) fn sign(
    cpu: &Cpu,
    (src, dst): (IpAddr, IpAddr),
    header: &mut Header,
    payload: [&[u8]; 2],
) -> Option<()> {
    let key = key(cpu, dst)?;
    let mut bytes = [0; HEADER_LEN + wire::tcp::OPTIONS_MAX];
    let len = header.emit(&mut bytes).ok()? + payload.iter().map(|piece| piece.len()).sum::<usize>();
    let fixed = bytes.first_chunk::<HEADER_LEN>()?;
    header.options.signature = Some(digest(key, (src, dst, len), fixed, payload));
    Some(())
}

/// Verifies the signature of a segment with its sender's key.
//= https://www.rfc-editor.org/rfc/rfc2385#section-2.0
//# Upon receiving a signed segment, the receiver must validate it by
//# calculating its own digest from the same data (using its own key) and
//# comparing the two digest.
pub(super) fn check(cpu: &Cpu, pkt: &Pkt, header: &Header) -> Result<(), DropReason> {
    let came = header.options.signature.ok_or(DropReason::TcpUnsigned)?;
    match expected(cpu, pkt) {
        Some(right) if is_same(right, came) => Ok(()),
        _ => Err(DropReason::TcpBadSignature),
    }
}

/// The signature that a segment should have; `None` if there is no key.
fn expected(cpu: &Cpu, pkt: &Pkt) -> Option<[u8; SIGNATURE_LEN]> {
    let (src, dst) = l4::ends(pkt);
    let key = key(cpu, src)?;
    let range = l4::range(pkt);
    let mut fixed = *pkt.head().get(range.start..)?.first_chunk::<HEADER_LEN>()?;
    fixed[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].fill(0);
    let payload = l4::pieces(pkt, super::input::payload_at(pkt)..range.end);
    Some(digest(key, (src, dst, range.len()), &fixed, payload))
}

/// In a time that does not tell how much of a forged one is right.
fn is_same(right: [u8; SIGNATURE_LEN], came: [u8; SIGNATURE_LEN]) -> bool {
    right.iter().zip(came).fold(0, |differences, (right, came)| differences | (right ^ came)) == 0
}

/// Returns the signature of a segment of `len` bytes: over addresses, the header without options and with a checksum of
/// zero, the payload, the key.
fn digest<'a>(
    key: &[u8],
    (src, dst, len): (IpAddr, IpAddr, usize),
    header: &[u8; HEADER_LEN],
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> [u8; SIGNATURE_LEN] {
    let mut md5 = Context::new();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            md5.consume([src.octets(), dst.octets()].as_flattened());
            md5.consume([0, Protocol::TCP.0]);
            md5.consume(u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
        }
        _ => {
            [src, dst].map(wide).iter().for_each(|addr| md5.consume(addr));
            md5.consume(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
            md5.consume(u32::from(Protocol::TCP.0).to_be_bytes());
        }
    }
    md5.consume(header);
    payload.into_iter().for_each(|piece| md5.consume(piece));
    md5.consume(key);
    md5.finalize().0
}

fn wide(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

/// Whether what a segment is for, which was `found`, takes signed ones only.
pub(super) fn is_demanded(pcbs: &mut Pcbs, found: Option<Found>, ends: &FourTuple, header: &Header) -> bool {
    let of_listener =
        |pcbs: &mut Pcbs| pcbs.listeners.find(ends).is_some_and(|listener| listener.listen.settings.signs);
    match found {
        Some(Found::Conn(at)) => pcbs.signs(at),
        Some(Found::Wait(at)) if pcbs.wait_mut(at).is_some_and(|wait| wait.wait.signs) => true,
        Some(Found::Wait(_)) if !header.flags.syn() => false,
        Some(Found::Half(_) | Found::Wait(_)) | None => of_listener(pcbs),
    }
}

/// The place for the signature of the answer to a segment that nothing here wants: there is one if the segment is signed,
/// and its sender is known. A reply to others could not be signed.
//= https://www.rfc-editor.org/rfc/rfc2385#section-2.0
//# A failing comparison must result in the
//# segment being dropped and must not produce any response back to the
//# sender.
pub(super) fn of_answer(cpu: &Cpu, pkt: &Pkt) -> Result<Option<[u8; SIGNATURE_LEN]>, DropReason> {
    let bytes = pkt.head().get(pkt.l4.into()..).unwrap_or_default();
    let header = Header::parse(bytes).map_err(|_| DropReason::TcpMalformed)?;
    if header.options.signature.is_none() || key(cpu, l4::ends(pkt).0).is_none() {
        return Ok(None);
    }
    check(cpu, pkt, &header).map(|()| Some(UNSIGNED))
}

#[cfg(test)]
mod tests;
