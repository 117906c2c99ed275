//! ICMP errors: of the flow that they quote a packet of, and translated as that was. They keep no binding alive, and
//! end none (RFC 5508 §4, RFC 5382 §7).

use pkt::Pkt;
use wire::toeplitz::symmetric;

use super::{Here, Instance, Verdict, has_ports};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::firewall::nat::headers::{Shape, Side};
use crate::firewall::nat::ports::fold;
use crate::firewall::nat::rewrite::translate;
use crate::firewall::nat::table::By;
use crate::turn::cpu::CpuId;

impl Instance {
    /// An error to an address that others see, about what was sent as from there.
    pub(super) fn error_inward(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let quote = shape.quote(pkt.head()).filter(|quote| quote.src.addr == shape.dst.addr);
        let Some(quote) = quote else { return self.unasked() };
        let (remote, protocol) = (quote.remote(Side::Dst), quote.protocol.0);
        if let Some(inside) = self.spec.redirects.inward(protocol, quote.src, remote) {
            translate(pkt, shape, Side::Dst, inside);
            here.counters.add(Count::NatErrors, 1);
            return Verdict::Translated;
        }
        if let Some(owner) = elsewhere(here, &quote, quote.src.addr, remote.addr) {
            return Verdict::Owner(owner);
        }
        let Some(id) = self.find(By::Outside, quote.src, remote, protocol, here.now) else {
            return self.unasked();
        };
        let inside = self.table.get(id).inside();
        translate(pkt, shape, Side::Dst, inside);
        // From inside to inside: what was redirected is to look as if it was not.
        if let Some(alias) = self.spec.redirects.outward(protocol, quote.dst, quote.src)
            && self.spec.redirects.inward(protocol, alias, inside) == Some(quote.dst)
        {
            translate(pkt, shape, Side::Src, alias);
        }
        here.counters.add(Count::NatErrors, 1);
        Verdict::Translated
    }

    /// An error from inside, or from here, about what came to a host inside.
    pub(super) fn error_outward(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let Some(quote) = shape.quote(pkt.head()) else { return self.nobodys(shape) };
        let (remote, protocol) = (quote.remote(Side::Src), quote.protocol.0);
        if let Some(outside) = self.spec.redirects.outward(protocol, quote.dst, remote) {
            translate(pkt, shape, Side::Src, outside);
            here.counters.add(Count::NatErrors, 1);
            return Verdict::Translated;
        }
        let addr = self.spec.addr.map_or(0, u128::from);
        if let Some(owner) = elsewhere(here, &quote, addr, remote.addr) {
            return Verdict::Owner(owner);
        }
        let Some(id) = self.find(By::Inside, quote.dst, remote, protocol, here.now) else {
            return self.nobodys(shape);
        };
        let outside = self.table.get(id).outside();
        translate(pkt, shape, Side::Src, outside);
        here.counters.add(Count::NatErrors, 1);
        Verdict::Translated
    }

    /// Handles an error about an unknown flow: our own goes as it is, others would reveal addresses inside.
    fn nobodys(&self, shape: &Shape) -> Verdict {
        let is_own = self.spec.is_outside(shape.src.addr);
        if is_own { Verdict::Untouched } else { Verdict::Drop(DropReason::NatUnknown) }
    }
}

/// The CPU that has the binding of what is quoted, if it is another one.
fn elsewhere(here: &Here<'_>, quote: &Shape, outside: u128, remote: u128) -> Option<CpuId> {
    let fold = if has_ports(quote.protocol) {
        fold(quote.src.addr) ^ fold(quote.dst.addr) ^ quote.src.port ^ quote.dst.port
    } else {
        fold(outside) ^ fold(remote)
    };
    Some(here.placement.owner(symmetric(fold))).filter(|owner| *owner != here.cpu)
}
