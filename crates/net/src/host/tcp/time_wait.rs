//! An entry of the TIME-WAIT table: the rest of a connection, its addresses, and its timer.

use super::build::IpTxParams;
use super::tcb::Tcb;
use super::tcb::wait::Wait;
use crate::base::collections::timer_wheel::{HasDeadline, WheelEntry};
use crate::host::pcb::FourTuple;

/// A connection in TIME-WAIT: at most 128 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWait {
    pub(super) ends: FourTuple,
    pub(super) tx_params: IpTxParams,
    pub(super) wait: Wait,
    entry: WheelEntry,
}

impl TimeWait {
    /// Makes the entry of `tcb`; `None` if it is not in TIME-WAIT.
    pub(super) fn of(tcb: &Tcb, ends: FourTuple, tx_params: IpTxParams) -> Option<Self> {
        let wait = Wait::of(tcb)?;
        Some(Self { ends, tx_params, wait, entry: WheelEntry::default() })
    }
}

impl Default for TimeWait {
    fn default() -> Self {
        let any = core::net::SocketAddr::from(([0; 4], 0));
        Self {
            ends: FourTuple::new(any, any, 0),
            tx_params: IpTxParams::default(),
            wait: Wait::default(),
            entry: WheelEntry::default(),
        }
    }
}

impl HasDeadline for TimeWait {
    fn entry(&mut self) -> &mut WheelEntry {
        &mut self.entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_small() {
        assert!(size_of::<TimeWait>() <= 128, "{} bytes", size_of::<TimeWait>());
    }
}
