//! Atomics that CPUs and the control thread share: those of `core`.
//!
//! In a model (feature `shuttle`) another thread may run before each access, so that all orders of accesses are tried.

#[cfg(not(feature = "shuttle"))]
pub use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(feature = "shuttle")]
pub use self::model::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, interleave};

#[cfg(feature = "shuttle")]
mod model {
    use core::cell::Cell;
    use core::sync::atomic::{self, Ordering};
    use core::time::Duration;

    std::thread_local! {
        /// Whether the scheduler of the model is asked at all. All threads of a model are one of the system.
        static INTERLEAVES: Cell<bool> = const { Cell::new(true) };
    }

    /// Has the scheduler of the model asked before each access, or lets one thread do what must be done before and after.
    pub fn interleave(on: bool) {
        INTERLEAVES.set(on);
    }

    /// Lets the scheduler of the model choose the thread that goes on.
    fn choose() {
        if INTERLEAVES.get() {
            shuttle::thread::sleep(Duration::ZERO);
        }
    }

    /// An atomic of `core` with the accesses that are used, each behind a choice.
    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            /// As in `core`.
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub struct $name(atomic::$name);

            impl $name {
                /// As in `core`.
                #[must_use]
                pub const fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }

                /// As in `core`.
                pub fn load(&self, order: Ordering) -> $value {
                    choose();
                    self.0.load(order)
                }

                /// As in `core`.
                pub fn store(&self, value: $value, order: Ordering) {
                    choose();
                    self.0.store(value, order);
                }

                /// As in `core`.
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    self.0.swap(value, order)
                }

                /// As in `core`.
                ///
                /// # Errors
                ///
                /// As in `core`.
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    choose();
                    self.0.compare_exchange(current, new, success, failure)
                }

                /// As in `core`, without failures for no reason.
                ///
                /// # Errors
                ///
                /// As in `core`.
                pub fn compare_exchange_weak(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.compare_exchange(current, new, success, failure)
                }

                /// As in `core`.
                ///
                /// # Errors
                ///
                /// As in `core`.
                pub fn fetch_update(
                    &self,
                    success: Ordering,
                    failure: Ordering,
                    update: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    choose();
                    self.0.fetch_update(success, failure, update)
                }

                /// As in `core`.
                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    self.0.fetch_or(value, order)
                }

                /// As in `core`.
                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    self.0.fetch_and(value, order)
                }
            }
        };
    }

    /// The arithmetic of numbers.
    macro_rules! number {
        ($name:ident, $value:ty) => {
            atomic!($name, $value);

            impl $name {
                /// As in `core`.
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    self.0.fetch_add(value, order)
                }

                /// As in `core`.
                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    self.0.fetch_sub(value, order)
                }

                /// As in `core`.
                pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                    choose();
                    self.0.fetch_max(value, order)
                }
            }
        };
    }

    atomic!(AtomicBool, bool);
    number!(AtomicU16, u16);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
    number!(AtomicUsize, usize);
}
