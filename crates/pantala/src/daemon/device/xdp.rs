//! XDP programs of interfaces: in the kernel where AF_XDP is, else in this process.

use std::sync::Arc;

use dev::bpf::user::UserProgram;
use dev::xdp::vm::InProcess;
use net::driver::FrameProgram;

use super::super::{entropy, log};
use super::{Hold, Opened, misfit};
use crate::StackError;
use crate::api::XdpInfo;
use crate::config::{Device, Interface};

/// Makes the maps of an interface's program in the kernel. The port loads it.
pub(super) fn in_kernel(interface: &Interface) -> Result<Option<Arc<UserProgram>>, StackError> {
    let Some(xdp) = &interface.xdp else { return Ok(None) };
    let program = UserProgram::new(&xdp.object);
    Ok(Some(Arc::new(
        program.map_err(|why| misfit(interface, &format!("xdp: {}: {why}", xdp.file.display())))?,
    )))
}

/// Prepares an interface's program to run in this process, if its device is none of AF_XDP. The kernel's verifier is asked
/// where that is allowed; bounds are checked in any case.
pub(super) fn in_process(interface: &Interface, opened: Opened, cpus: u32) -> Result<Opened, StackError> {
    let Some(xdp) = &interface.xdp else { return Ok(opened) };
    if matches!(interface.device, Device::AfXdp { .. }) {
        return Ok(opened);
    }
    let no = |why: &dyn core::fmt::Display| misfit(interface, &format!("xdp: {}: {why}", xdp.file.display()));
    UserProgram::verify(&xdp.object).map_err(|why| no(&why))?;
    let program =
        InProcess::new(&xdp.object, u16::try_from(cpus).unwrap_or(u16::MAX)).map_err(|why| no(&why))?;
    log::info(&format!(
        "interface {}: XDP program {} runs in this process",
        interface.name, xdp.object.program
    ));
    Ok(Opened { hold: Hold { in_process: Some(program), ..opened.hold }, ..opened })
}

impl Hold {
    /// The program that decides about the frames of a ring, if there is one.
    pub(crate) fn program_on(&self, queue: u16) -> Option<Box<dyn FrameProgram>> {
        let user = self.port.as_ref().and_then(|port| port.user()).map(|user| user.on_ring());
        user.or_else(|| {
            let program = self.in_process.as_ref()?;
            let seed = entropy::key().unwrap_or_default().to_ne_bytes();
            let seed = seed.first_chunk().map_or(0, |half| u64::from_ne_bytes(*half));
            Some(program.on_ring(seed ^ u64::from(queue)))
        })
    }

    /// Row of its program in `ifconfig`.
    pub(crate) fn xdp(&self, interface: &Interface) -> Option<XdpInfo> {
        let xdp = interface.xdp.as_ref()?;
        let user = self.port.as_ref().and_then(|port| port.user());
        let [aborted, dropped, passed, sent_back, redirected] =
            user.map(|user| user.verdicts()).or_else(|| self.in_process.as_ref().map(InProcess::verdicts))?;
        Some(XdpInfo {
            file: xdp.file.display().to_string(),
            program: xdp.object.program.clone(),
            in_kernel: user.is_some(),
            aborted,
            dropped,
            passed,
            sent_back,
            redirected,
        })
    }

    /// Lets the driver hand up frames that the program drops, while captures want to see them.
    pub(crate) fn hand_up_dropped(&self, on: bool) {
        if let Some(user) = self.port.as_ref().and_then(|port| port.user())
            && let Err(why) = user.dump(on)
        {
            log::warning(&format!("frames that XDP program {} drops are not captured: {why}", user.name()));
        }
    }
}
