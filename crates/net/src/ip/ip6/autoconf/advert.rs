//! A router advertisement on its way from the CPU that received it to the one that keeps its link.

use core::net::Ipv6Addr;

use wire::nd::{Opt, Options, Prefix, RouterAdvert};

use super::{Msg, tell};
use crate::base::count::Count;
use crate::link::tables::{IfIndex, Ifnet};
use crate::turn::cpu::Cpu;

/// Prefixes of one advertisement that are looked at: more do not fit 1500 bytes.
const PREFIXES_EACH_MAX: usize = 46;

/// A router advertisement.
#[derive(Clone, Debug)]
pub struct Advert {
    /// On which link.
    pub(super) ifindex: IfIndex,
    /// The router's link-local address.
    pub(super) from: Ipv6Addr,
    pub(super) said: RouterAdvert,
    pub(super) mtu: Option<u32>,
    pub(super) prefixes: Vec<Prefix>,
}

/// Passes a valid advertisement on to the CPU that keeps what is learned of its link. Interfaces that do not configure
/// themselves believe none; those of routers do not, unless they are told to.
//= https://www.rfc-editor.org/rfc/rfc4861#section-6.2.6
pub(crate) fn heard(cpu: &mut Cpu, ifnet: &Ifnet, from: Ipv6Addr, said: RouterAdvert, options: &Options<'_>) {
    if ifnet.autoconf.is_none() {
        return cpu.count(Count::NdRouterIgnored);
    }
    let prefix = |option| if let Opt::Prefix(prefix) = option { Some(prefix) } else { None };
    let mtu = |option| if let Opt::Mtu(mtu) = option { Some(mtu) } else { None };
    let advert = Advert {
        ifindex: ifnet.index,
        from,
        said,
        mtu: options.iter().find_map(mtu),
        prefixes: options.iter().filter_map(prefix).take(PREFIXES_EACH_MAX).collect(),
    };
    tell(cpu, ifnet.index, Msg::Advert(Box::new(advert)));
}
