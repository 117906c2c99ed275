//! Forwarding over veth in one thread, step by step: to be watched by valgrind, which counts the instructions of
//! [`turn`] alone (`--toggle-collect`), the same on every machine.

use anyhow::{Result, ensure};
use testbed::flood::{Flood, Pace};

use super::frames;
use super::lab::{Lab, SOURCE};
use super::routers::{Kind, Stepped, stepped};

/// Frames that are there at once.
const BATCH: u32 = 64;

/// Has `frames` frames forwarded by bare rings or the driver.
///
/// # Errors
/// When not all of them came through.
pub fn count(lab: &Lab, kind: Kind, frames: u32) -> Result<()> {
    let mut forwarder = stepped(kind, lab)?;
    let ifindex = lab.source.netlink()?.link(SOURCE)?.index;
    let flood = Flood::new(ifindex, &frames::frames(lab.family, lab.to)?)?;
    flood.set_pace(Pace { share: Pace::ALL, flows: 0, to: 0 })?;
    turn(&mut *forwarder);
    for _ in 0..frames / BATCH {
        lab.source.run(|| flood.run(BATCH, BATCH))??;
        turn(&mut *forwarder);
    }
    let (sent, received) = (flood.sent()?, lab.sink.received()?);
    // The first frames may come before the sink is ready.
    ensure!(sent - received <= BATCH.into(), "{received} of {sent} frames came through");
    Ok(())
}

/// The part that is counted.
#[inline(never)]
fn turn(forwarder: &mut dyn Stepped) -> usize {
    forwarder.turn()
}
