//! Steering of frames to the CPUs of their flows: by the NIC, a program in the kernel, or the CPUs themselves.

use core::fmt;

use dev::sys::ethtool::{ADDRESSES_AND_PORTS, Ethtool, EthtoolError, Flow, RxHash};
use net::ringmap::RingMap;
use wire::toeplitz::SYMMETRIC_KEY;

use super::super::log;
use crate::api;

/// The kind of steering, and the reason why nothing better is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Steering {
    /// None needed: there is one CPU.
    Needless,
    /// The NIC.
    Nic,
    /// A program in the kernel.
    Program,
    /// The CPUs hand packets to each other.
    HandOff {
        /// The reason.
        why: String,
    },
}

impl Steering {
    /// For a device with one ring.
    pub(super) fn of_one_ring(cpus: u32) -> Self {
        if cpus == 1 { Self::Needless } else { Self::HandOff { why: "there is one ring".to_owned() } }
    }

    /// For a device with several rings, which is asked.
    pub(super) fn ask(cpus: u32, map: &RingMap, ask: impl FnOnce() -> Result<Self, String>) -> Self {
        match map.rings() {
            1 => Self::of_one_ring(cpus),
            _ => ask().unwrap_or_else(|why| Self::HandOff { why }),
        }
    }

    pub(crate) const fn as_told(&self) -> api::Steering {
        match self {
            Self::Needless => api::Steering::None,
            Self::Nic => api::Steering::Nic,
            Self::Program => api::Steering::Program,
            Self::HandOff { .. } => api::Steering::HandOff,
        }
    }
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandOff { why } => write!(f, "{} ({why})", self.as_told()),
            other => write!(f, "{}", other.as_told()),
        }
    }
}

/// A device whose receive hash can be looked at and changed.
pub(super) trait Rss {
    fn rx_hash(&self) -> Result<RxHash, EthtoolError>;
    fn set_rx_hash(&self, hash: &RxHash) -> Result<(), EthtoolError>;
    fn hashed_fields(&self, flow: Flow) -> Result<u64, EthtoolError>;
    fn set_hashed_fields(&self, flow: Flow, fields: u64) -> Result<(), EthtoolError>;
}

impl Rss for Ethtool {
    fn rx_hash(&self) -> Result<RxHash, EthtoolError> {
        Self::rx_hash(self)
    }

    fn set_rx_hash(&self, hash: &RxHash) -> Result<(), EthtoolError> {
        Self::set_rx_hash(self, hash)
    }

    fn hashed_fields(&self, flow: Flow) -> Result<u64, EthtoolError> {
        Self::hashed_fields(self, flow)
    }

    fn set_hashed_fields(&self, flow: Flow, fields: u64) -> Result<(), EthtoolError> {
        Self::set_hashed_fields(self, flow, fields)
    }
}

/// A NIC that was told how to spread frames. Dropping it tells it what it did before.
pub(crate) struct Programmed<D: Rss = Ethtool> {
    device: D,
    /// Settings to be restored; `None` when the device is gone.
    before: Option<RxHash>,
    /// Hashed fields before, where they were changed.
    fields: Vec<(Flow, u64)>,
}

impl<D: Rss> Programmed<D> {
    /// Undoes nothing: the device is gone, and another may have its name.
    pub(super) fn forsake(&mut self) {
        self.before = None;
    }

    /// Gives a NIC our key, the table of `map` for its queues from `first` on (of which it has `queues` that are ours),
    /// and lets it hash ports.
    ///
    /// A NIC that does not hash the ports of some protocol is used all the same: the CPUs hand those packets on.
    pub(super) fn new(device: D, map: &RingMap, first: u32, queues: u32) -> Result<Self, String> {
        let text = |why: EthtoolError| why.to_string();
        let before = device.rx_hash().map_err(text)?;
        if before.indirection.iter().any(|queue| !(first..first + queues).contains(queue)) {
            return Err("its table has queues that pantala has not".to_owned());
        }
        if before.key.is_empty() {
            return Err("it does not show its key".to_owned());
        }
        let table = map.redirect_table(before.indirection.len()).map_err(|why| why.to_string())?;
        let after = RxHash {
            key: SYMMETRIC_KEY.iter().copied().cycle().take(before.key.len()).collect(),
            indirection: table.into_iter().map(|ring| first + u32::from(ring)).collect(),
            function: RxHash::TOEPLITZ,
            transform: 0,
        };
        device.set_rx_hash(&after).map_err(text)?;
        let mut programmed = Self { device, before: Some(before), fields: Vec::new() };
        programmed.hash_ports();
        Ok(programmed)
    }

    fn hash_ports(&mut self) {
        for flow in Flow::ALL {
            let before = self.device.hashed_fields(flow).unwrap_or(0);
            if before == ADDRESSES_AND_PORTS {
                continue;
            }
            match self.device.set_hashed_fields(flow, ADDRESSES_AND_PORTS) {
                Ok(()) => self.fields.push((flow, before)),
                Err(why) => log::info(&format!("{flow:?}: the CPUs hand packets to each other: {why}")),
            }
        }
    }
}

impl<D: Rss> Drop for Programmed<D> {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        let fields = self.fields.iter().map(|(flow, before)| self.device.set_hashed_fields(*flow, *before));
        let undone: Result<Vec<()>, _> = fields.chain([self.device.set_rx_hash(before)]).collect();
        match undone {
            // Anything may have been deleted by others.
            Ok(_) | Err(EthtoolError::NoSuchLink(_)) => {}
            Err(why) => log::warning(&format!("receive hash not restored: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// A NIC in memory.
    #[derive(Clone)]
    struct Nic(Rc<RefCell<State>>);

    #[derive(Clone, PartialEq, Debug)]
    struct State {
        hash: RxHash,
        fields: [u64; 4],
        /// Kinds whose fields cannot be changed.
        fixed: Vec<Flow>,
        refuses: bool,
    }

    const ADDRESSES: u64 = 0x30;

    fn nic(entries: usize, queues: u32) -> Nic {
        let indirection = (0..queues).cycle().take(entries).collect();
        let hash = RxHash { key: vec![7; 52], indirection, function: 2, transform: 1 };
        let fields = [ADDRESSES_AND_PORTS, ADDRESSES, ADDRESSES_AND_PORTS, ADDRESSES];
        Nic(Rc::new(RefCell::new(State { hash, fields, fixed: Vec::new(), refuses: false })))
    }

    fn at(flow: Flow) -> usize {
        Flow::ALL.iter().position(|known| *known == flow).unwrap()
    }

    fn unsupported() -> EthtoolError {
        EthtoolError::Unsupported { name: "nic0".into(), what: "setting the receive hash" }
    }

    impl Rss for Nic {
        fn rx_hash(&self) -> Result<RxHash, EthtoolError> {
            Ok(self.0.borrow().hash.clone())
        }

        fn set_rx_hash(&self, hash: &RxHash) -> Result<(), EthtoolError> {
            if self.0.borrow().refuses {
                return Err(unsupported());
            }
            self.0.borrow_mut().hash = hash.clone();
            Ok(())
        }

        fn hashed_fields(&self, flow: Flow) -> Result<u64, EthtoolError> {
            Ok(self.0.borrow().fields[at(flow)])
        }

        fn set_hashed_fields(&self, flow: Flow, fields: u64) -> Result<(), EthtoolError> {
            if self.0.borrow().fixed.contains(&flow) {
                return Err(unsupported());
            }
            self.0.borrow_mut().fields[at(flow)] = fields;
            Ok(())
        }
    }

    fn map(cpus: u16, rings: u16) -> RingMap {
        RingMap::alloc(cpus, 0, None, rings)
    }

    #[test]
    fn a_nic_gets_our_key_and_table_and_is_as_before_afterwards() {
        let nic = nic(512, 8);
        let before = nic.0.borrow().clone();
        let programmed = Programmed::new(nic.clone(), &map(5, 4), 0, 8).unwrap();
        let now = nic.0.borrow().clone();
        assert!(now.hash.key.len() == 52 && now.hash.key.chunks(2).all(|pair| pair == [0x6d, 0x5a]));
        assert_eq!(now.hash.indirection[..10], [0, 1, 2, 3, 0, 0, 1, 2, 3, 1]);
        assert_eq!((now.hash.indirection.len(), now.hash.function, now.hash.transform), (512, 1, 0));
        assert_eq!(now.fields, [ADDRESSES_AND_PORTS; 4]);
        drop(programmed);
        assert_eq!(*nic.0.borrow(), before);
    }

    #[test]
    fn queues_are_counted_from_the_first_that_is_ours() {
        let nic = nic(128, 4);
        nic.0.borrow_mut().hash.indirection.iter_mut().for_each(|queue| *queue = 2 + *queue % 2);
        let _programmed = Programmed::new(nic.clone(), &map(2, 2), 2, 2).unwrap();
        assert_eq!(nic.0.borrow().hash.indirection[..4], [2, 3, 2, 3]);
    }

    #[test]
    fn a_nic_that_does_not_hash_some_ports_is_used_all_the_same() {
        let nic = nic(128, 2);
        nic.0.borrow_mut().fixed = vec![Flow::Udp4];
        let before = nic.0.borrow().clone();
        drop(Programmed::new(nic.clone(), &map(2, 2), 0, 2).unwrap());
        assert_eq!(*nic.0.borrow(), before);
    }

    #[test]
    fn a_nic_that_cannot_is_left_alone_and_says_why() {
        let why = |nic: &Nic| Programmed::new(nic.clone(), &map(2, 2), 0, 2).err().unwrap();
        let [short, others, keyless, fixed] = [nic(64, 2), nic(128, 3), nic(128, 2), nic(128, 2)];
        keyless.0.borrow_mut().hash.key.clear();
        fixed.0.borrow_mut().refuses = true;
        let says = ["64 entries", "queues that pantala has not", "does not show its key", "does not support"];
        for (nic, says) in [short, others, keyless, fixed].iter().zip(says) {
            let before = nic.0.borrow().clone();
            let why = why(nic);
            assert!(why.contains(says), "{why}");
            assert_eq!(*nic.0.borrow(), before);
        }
    }
}
