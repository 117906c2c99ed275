//! The kernel's own forwarding.

use anyhow::Result;

use super::{Filter, Over, Router};
use crate::veth::frames::{self, SINK_MAC, Side};
use crate::veth::lab::{IN, Lab, OUT};
use crate::veth::thread::Thread;

/// It forwards as long as the lab is there.
pub(super) struct Kernel;

impl Kernel {
    pub(super) fn start(lab: &Lab, filter: Filter) -> Result<Self> {
        lab.configure_kernel()?;
        if let Some(chain) = filter.nftables(lab.family) {
            lab.in_router("nft", &[&format!("table inet pt {{ {chain} }}")])?;
        }
        Ok(Self)
    }

    /// Forwards through an interface of this kind.
    pub(super) fn over(lab: &Lab, over: Over) -> Result<Self> {
        match over {
            Over::Bridge => bridge(lab)?,
            Over::Vxlan => vxlan(lab)?,
        }
        Ok(Self)
    }
}

fn bridge(lab: &Lab) -> Result<()> {
    lab.enable_napi()?;
    lab.in_router("ip", &["link", "add", "br0", "type", "bridge"])?;
    for port in [IN, OUT] {
        lab.in_router("ip", &["link", "set", port, "master", "br0"])?;
    }
    lab.in_router("ip", &["link", "set", "br0", "up"])?;
    let sink = SINK_MAC.to_string();
    lab.in_router("bridge", &["fdb", "replace", &sink, "dev", OUT, "master", "static"])
}

fn vxlan(lab: &Lab) -> Result<()> {
    lab.configure_kernel()?;
    let [local, remote] = [1, 2].map(|host| frames::addr(lab.family, Side::Out, host).to_string());
    let vxlan = ["vx0", "type", "vxlan", "id", "42", "local", &local, "remote", &remote, "dstport", "4789"];
    lab.in_router("ip", &[&["link", "add"], &vxlan[..]].concat())?;
    lab.in_router("ip", &["link", "set", "vx0", "up"])?;
    let [own, gateway] = [1, 2].map(|host| frames::net(lab.family, Side::Vxlan, host));
    lab.in_router("ip", &["address", "add", &own.to_string(), "dev", "vx0"])?;
    let (gateway, mac) = (gateway.addr().to_string(), SINK_MAC.to_string());
    lab.in_router("ip", &["neigh", "replace", &gateway, "lladdr", &mac, "dev", "vx0", "nud", "permanent"])?;
    let to = frames::beyond(lab.family).to_string();
    lab.in_router("ip", &["route", "replace", &to, "via", &gateway, "dev", "vx0"])
}

impl Router for Kernel {
    /// Where it receives in a thread, that one forwards too.
    fn thread(&self) -> Option<Thread> {
        Thread::of_kernel(&format!("napi/{IN}")).ok()
    }
}
