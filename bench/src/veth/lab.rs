//! The three namespaces and the two cables.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use dev::netlink::{Route, Veth, VethEnd};
use dev::netns::Netns;
use dev::sys::ethtool::{Ethtool, Feature};
use dev::sys::sysctl;
use testbed::sink::Sink;

use super::frames::{self, IN_MAC, OUT_MAC, SINK_MAC, SOURCE_MAC, Side};
use super::layout::{Layout, ROUTER_CPU};
use crate::frames::Family;
use wire::ether::Mac;

/// The router's interface towards the generator.
pub const IN: &str = "pt-r0";
/// The router's interface towards the sink.
pub const OUT: &str = "pt-r1";
/// The generator's interface.
pub const SOURCE: &str = "pt-g0";
/// The sink's interface.
pub const SINK: &str = "pt-k1";

/// The context in which the receiving half of the router's veth runs on the router's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A thread of the kernel.
    Thread,
    /// The forwarder, by busy polling.
    Polled,
}

/// Namespaces, cables, and the sink.
pub struct Lab {
    /// Where the generator is.
    pub source: Netns,
    /// Where the router is.
    pub router: Netns,
    /// Counters of received frames.
    pub sink: Sink,
    /// IPv4 or IPv6.
    pub family: Family,
    /// The station that frames are for.
    pub to: Mac,
    /// Placement on processors.
    pub layout: Layout,
    /// Where the sink is.
    pub far: Netns,
    /// A veth takes frames from programs only if it has one itself.
    _source_has_a_program: Sink,
}

impl Lab {
    /// Builds all but the router.
    ///
    /// # Errors
    /// When this process is not root, or the kernel lacks something.
    pub fn new(family: Family, layout: Layout) -> Result<Self> {
        let [source, router, far] = [namespace()?, namespace()?, namespace()?];
        cable(&source, (SOURCE, SOURCE_MAC.0), &router, (IN, IN_MAC.0))?;
        cable(&router, (OUT, OUT_MAC.0), &far, (SINK, SINK_MAC.0))?;
        for (ns, name, side) in [(&source, SOURCE, Side::In), (&far, SINK, Side::Out)] {
            ns.netlink()?.add_address(name, frames::net(family, side, 2))?;
        }
        let program = |ns: &Netns, name| -> Result<Sink> {
            let ifindex = index(ns, name)?;
            Ok(ns.run(|| Sink::attach(ifindex))??)
        };
        let (at_source, sink) = (program(&source, SOURCE)?, program(&far, SINK)?);
        Ok(Self { source, router, far, sink, family, to: IN_MAC, layout, _source_has_a_program: at_source })
    }

    /// Gives the router's namespace addresses, a route, and neighbours that need not be asked for.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn configure_kernel(&self) -> Result<()> {
        let (family, mut netlink) = (self.family, self.router.netlink()?);
        for (name, side) in [(IN, Side::In), (OUT, Side::Out)] {
            netlink.add_address(name, frames::net(family, side, 1))?;
        }
        self.enable_napi()?;
        let via = Some(frames::addr(family, Side::Out, 2));
        netlink.add_route(&Route { to: frames::beyond(family), via, ifindex: None })?;
        let (gateway, mac) = (frames::addr(family, Side::Out, 2).to_string(), SINK_MAC.to_string());
        let neighbour = ["neigh", "replace", &gateway, "lladdr", &mac, "dev", OUT, "nud", "permanent"];
        self.in_router("ip", &neighbour)?;
        let forwarding = ["ipv4.conf.all.forwarding", "ipv6.conf.all.forwarding"];
        self.router.run(|| forwarding.iter().try_for_each(|name| sysctl::set(name, 1)))??;
        Ok(())
    }

    /// Gives the router's interfaces NAPI, which programs need to send to them: without a program, a veth gets it so.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn enable_napi(&self) -> Result<()> {
        for name in [IN, OUT] {
            self.router.run(|| Ethtool::open(name))??.set_feature(Feature::Gro, true)?;
        }
        Ok(())
    }

    /// Puts the receiving half of the router's veths where the layout wants it; once the router has taken them over.
    ///
    /// # Errors
    /// When the kernel cannot do NAPI in threads.
    pub fn place_receiver(&self, receiver: Receiver) -> Result<()> {
        if self.layout != Layout::Two {
            return Ok(());
        }
        // The files are of the namespace that mounts them.
        let script = match receiver {
            Receiver::Polled => format!(
                "cd /sys/class/net/{IN} && echo 2 > napi_defer_hard_irqs && echo 200000 > gro_flush_timeout"
            ),
            Receiver::Thread => format!(
                "echo 1 > /sys/class/net/{IN}/threaded && \
             for task in /proc/[0-9]*; do \
                 case $(cat $task/comm 2>/dev/null) in napi/{IN}*) taskset -pc {ROUTER_CPU} ${{task##*/}};; esac; \
             done"
            ),
        };
        let script = format!("mount -t sysfs sysfs /sys && {script}");
        self.in_router("unshare", &["--mount", "sh", "-c", &script])
    }

    /// Runs a short command in the router's namespace.
    ///
    /// # Errors
    /// When it fails.
    pub fn in_router(&self, program: &str, args: &[&str]) -> Result<()> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        let output = self.router.put(&mut command)?.output().with_context(|| program.to_owned())?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {}: {said}", args.join(" "));
        Ok(())
    }

    /// The number of one of the router's interfaces.
    ///
    /// # Errors
    /// None is expected.
    pub fn router_index(&self, name: &str) -> Result<u32> {
        index(&self.router, name)
    }
}

fn index(ns: &Netns, name: &str) -> Result<u32> {
    Ok(ns.netlink()?.link(name)?.index)
}

/// A namespace that says nothing by itself.
fn namespace() -> Result<Netns> {
    let ns = Netns::anonymous()?;
    let settings = [
        ("ipv6.conf.all.accept_dad", 0),
        ("ipv6.conf.default.accept_dad", 0),
        ("ipv6.conf.default.accept_ra", 0),
        ("ipv6.conf.default.router_solicitations", 0),
        ("ipv4.conf.all.rp_filter", 0),
        ("ipv4.conf.default.rp_filter", 0),
    ];
    ns.run(|| settings.iter().try_for_each(|(name, value)| sysctl::set(name, value)))??;
    Ok(ns)
}

type End<'a> = (&'a str, [u8; 6]);

fn cable(here: &Netns, near: End<'_>, there: &Netns, far: End<'_>) -> Result<()> {
    let end = |(name, mac)| VethEnd { name, mac: Some(mac) };
    let veth = Veth { ends: [end(near), end(far)], ..Veth::new(near.0, far.0) };
    here.netlink()?.add_veth(&veth)?;
    here.netlink()?.move_to(far.0, there)?;
    here.netlink()?.set_up(near.0, true)?;
    there.netlink()?.set_up(far.0, true)?;
    Ok(())
}
