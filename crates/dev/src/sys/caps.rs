//! Giving up privileges after start-up.

use rustix::io::Errno;
use rustix::thread as task;

pub use rustix::thread::CapabilitySet;

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapsError {
    /// A capability was asked for that the process does not have.
    #[error(
        "cannot keep {missing:?}: this process does not have it; start as root, or give the file that capability (setcap)"
    )]
    Missing {
        /// Capabilities that are needed and not held.
        missing: CapabilitySet,
    },
    /// The kernel refused a step.
    #[error("cannot drop privileges ({step}): {source}")]
    Refused {
        /// The step.
        step: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
}

/// Keeps the capabilities `keep` and gives up all others, for good: sets `no_new_privs`, empties the
/// ambient and inheritable sets, and takes the others out of the bounding set.
///
/// Acts on the calling thread and on those it starts afterwards: call it before any thread is started.
///
/// # Errors
/// [`CapsError`]; the process may then hold fewer capabilities than before, never more.
pub fn drop_all_but(keep: CapabilitySet) -> Result<(), CapsError> {
    let held = task::capabilities(None).map_err(refused("capget"))?;
    let missing = keep - held.permitted;
    if !missing.is_empty() {
        return Err(CapsError::Missing { missing });
    }
    task::set_no_new_privs(true).map_err(refused("no_new_privs"))?;
    task::clear_ambient_capability_set().map_err(refused("clear ambient set"))?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        shrink_bounding_set(keep)?;
    }
    let sets = task::CapabilitySets { effective: keep, permitted: keep, inheritable: CapabilitySet::empty() };
    task::set_capabilities(None, sets).map_err(refused("capset"))
}

/// Takes all capabilities of the calling thread out of force. They stay permitted, for [`raised`].
///
/// # Errors
/// None is expected.
pub fn put_aside() -> std::io::Result<()> {
    let held = task::capabilities(None)?;
    let sets = task::CapabilitySets { effective: CapabilitySet::empty(), ..held };
    Ok(task::set_capabilities(None, sets)?)
}

/// Calls `call` with those capabilities of `wanted` in force that the calling thread is permitted, and takes them out of force again.
pub fn raised<T>(wanted: CapabilitySet, call: impl FnOnce() -> T) -> T {
    let Ok(held) = task::capabilities(None) else { return call() };
    let more = (held.permitted & wanted) - held.effective;
    if more.is_empty() {
        return call();
    }
    // If the kernel refuses, the call is made without them, and fails as it would have.
    let _ = task::set_capabilities(None, task::CapabilitySets { effective: held.effective | more, ..held });
    let answer = call();
    let _ = task::set_capabilities(None, held);
    answer
}

/// The capabilities in force for the calling thread.
///
/// # Errors
/// None is expected.
pub fn effective() -> std::io::Result<CapabilitySet> {
    Ok(task::capabilities(None)?.effective)
}

fn shrink_bounding_set(keep: CapabilitySet) -> Result<(), CapsError> {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match task::capability_is_in_bounding_set(one) {
            Err(Errno::INVAL) => break, // beyond the last capability this kernel knows
            Ok(true) if !keep.contains(one) => {
                task::remove_capability_from_bounding_set(one).map_err(refused("shrink bounding set"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused(step: &'static str) -> impl Fn(Errno) -> CapsError {
    move |e| CapsError::Refused { step, source: e.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capabilities are per thread, so a test may drop its own.
    fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|s| s.spawn(f).join().unwrap())
    }

    #[test]
    fn after_dropping_all_nothing_is_left_and_nothing_comes_back() {
        on_a_thread(|| {
            drop_all_but(CapabilitySet::empty()).unwrap();
            assert_eq!(effective().unwrap(), CapabilitySet::empty());
            assert!(task::no_new_privs().unwrap());
            let error = drop_all_but(CapabilitySet::NET_ADMIN).unwrap_err();
            assert!(matches!(error, CapsError::Missing { missing: CapabilitySet::NET_ADMIN }));
        });
    }

    #[test]
    fn what_is_put_aside_is_in_force_while_it_is_needed_and_no_longer() {
        on_a_thread(|| {
            let keep = effective().unwrap() & CapabilitySet::DAC_OVERRIDE;
            drop_all_but(keep).unwrap();
            put_aside().unwrap();
            assert_eq!(effective().unwrap(), CapabilitySet::empty());
            let during =
                raised(CapabilitySet::DAC_OVERRIDE | CapabilitySet::NET_ADMIN, || effective().unwrap());
            assert_eq!(during, keep);
            assert_eq!(effective().unwrap(), CapabilitySet::empty());
        });
    }

    #[test]
    fn what_is_kept_stays_in_force() {
        on_a_thread(|| {
            let keep = effective().unwrap() & (CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
            drop_all_but(keep).unwrap();
            assert_eq!(effective().unwrap(), keep);
            let bounding = |c| task::capability_is_in_bounding_set(c).unwrap();
            assert!(keep.is_empty() || !bounding(CapabilitySet::SYS_ADMIN));
        });
    }
}
