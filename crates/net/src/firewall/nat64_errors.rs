//! Errors that are made here about packets that have become ones of the other family: they are to become ones of their
//! sender's.

use pkt::Pkt;

use super::hook;
use super::nat::instance::{Here, Verdict};
use crate::base::drop::DropReason;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;

/// Where an error goes that was made here, if a host of the other family is to hear of it.
///
/// Next   [`Next::Onward`].
/// Drops  [`DropReason::NatUnknown`]: what it is about has no binding here any more.
pub(crate) fn cross(cpu: &mut Cpu, error: &mut Pkt) -> Option<Next> {
    let may_be = cpu.firewall.as_ref().is_some_and(|firewall| !firewall.nat64.is_empty());
    if !may_be {
        return None;
    }
    let verdict = hook::with(cpu, |firewall, cpu| {
        let Cpu { id, placement, now, secret, counters, tables, .. } = cpu;
        let mut here = Here { now: *now, cpu: *id, placement: *placement, secret, counters };
        firewall.nat64.translate_own(&mut here, tables, error)
    })?;
    match verdict {
        Verdict::Translated => {
            // Where what it is about came in is no place of the other family.
            error.outif = 0;
            Some(Next::Onward)
        }
        Verdict::Drop(reason) | Verdict::Refuse(reason) => Some(Next::Drop(reason)),
        Verdict::Owner(_) | Verdict::Reassemble => Some(Next::Drop(DropReason::NatUnknown)),
        Verdict::Untouched => None,
    }
}
