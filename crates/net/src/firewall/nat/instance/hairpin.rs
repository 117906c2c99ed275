//! From inside to an address that others see, and so back inside. The host there sees the sender as others do, so that
//! its answers come this way too (RFC 4787 §6, RFC 5382 §7.1).

use pkt::Pkt;

use super::{Here, Instance, Verdict, has_ports};
use crate::base::count::Count;
use crate::firewall::nat::headers::{Shape, Side};
use crate::firewall::nat::rewrite::translate;
use crate::firewall::nat::table::{BindingDirection, By};

impl Instance {
    pub(super) fn hairpin(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let verdict =
            self.ask_redirected(here, pkt, shape).or_else(|| self.answer_of_redirected(here, pkt, shape));
        let verdict = verdict.unwrap_or_else(|| self.ask_bound(here, pkt, shape));
        if verdict == Verdict::Translated {
            here.counters.add(Count::NatHairpins, 1);
        }
        verdict
    }

    /// To a port that is redirected: the binding is with the host that it is redirected to, since it answers.
    fn ask_redirected(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Option<Verdict> {
        let protocol = shape.protocol.0;
        let target = self.spec.redirects.inward(protocol, shape.dst, shape.remote(Side::Src))?;
        let outside = match self.spec.redirects.outward(protocol, shape.src, shape.remote(Side::Dst)) {
            Some(outside) => outside,
            None => match self.bind(here, shape, shape.as_remote(target), false) {
                Ok(outside) => outside,
                Err(verdict) => return Some(verdict),
            },
        };
        translate(pkt, shape, Side::Src, outside);
        translate(pkt, shape, Side::Dst, shape.beside(target, outside));
        Some(Verdict::Translated)
    }

    /// Handles a reply of the host behind a redirection.
    fn answer_of_redirected(&mut self, here: &Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Option<Verdict> {
        let protocol = shape.protocol.0;
        let remote = shape.remote(Side::Src);
        let id = self.find(By::Outside, shape.dst, remote, protocol, here.now)?;
        let inside = self.pass(id, BindingDirection::In, shape.kind, here.now).inside();
        let alias = self.spec.redirects.outward(protocol, shape.src, inside);
        translate(pkt, shape, Side::Dst, inside);
        if let Some(alias) = alias {
            translate(pkt, shape, Side::Src, shape.beside(alias, inside));
        }
        Some(Verdict::Translated)
    }

    /// To the outside end of another host inside, if that has spoken to this one's: both have the same CPU.
    fn ask_bound(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        if !has_ports(shape.protocol) {
            return self.unasked();
        }
        let outside = match self.bind(here, shape, shape.remote(Side::Dst), true) {
            Ok(outside) => outside,
            Err(verdict) => return verdict,
        };
        let Some(id) = self.find(By::Outside, shape.dst, outside, shape.protocol.0, here.now) else {
            return self.unasked();
        };
        let inside = self.pass(id, BindingDirection::In, shape.kind, here.now).inside();
        translate(pkt, shape, Side::Src, outside);
        translate(pkt, shape, Side::Dst, inside);
        Verdict::Translated
    }
}
