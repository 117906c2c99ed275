//! The primitives the rings are written against: the [shared](crate::shared) ones, or loom's when that model checker runs.
//!
//! Only what loom must see goes through here. Statistics do not: they carry no synchronisation.

#[cfg(feature = "loom")]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

#[cfg(not(feature = "loom"))]
pub(crate) use self::plain::UnsafeCell;
#[cfg(not(feature = "loom"))]
pub(crate) use crate::shared::{AtomicBool, AtomicU64, AtomicUsize};
#[cfg(not(feature = "loom"))]
pub(crate) use core::sync::atomic::{Ordering, fence};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::Arc;

#[cfg(not(feature = "loom"))]
mod plain {
    /// The standard cell behind loom's interface, which sees where an access begins and ends.
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}
