//! The descriptor that a sleeping netisr waits on.

use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

/// A device's file descriptor, for as long as its ring is open.
///
/// It does not keep the descriptor open: a ring that is closed must be able to rely on it.
#[derive(Clone)]
pub struct Waiter(Weak<dyn AsFd + Send + Sync>);

impl Waiter {
    pub(crate) fn on<T: AsFd + Send + Sync + 'static>(device: &Arc<T>) -> Self {
        let device: Weak<T> = Arc::downgrade(device);
        Self(device)
    }

    /// Waits on nothing, like one whose ring is closed.
    #[must_use]
    pub fn never() -> Self {
        Self(Weak::<std::fs::File>::new())
    }

    /// The descriptor, to be held only while waiting; `None` when the ring is closed.
    #[must_use]
    pub fn descriptor(&self) -> Option<Arc<dyn AsFd + Send + Sync>> {
        self.0.upgrade()
    }
}
