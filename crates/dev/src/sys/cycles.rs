//! Unsafe: reads the processor's cycle counter.
//!
//! A clock for measurements of some hundred nanoseconds.
#![allow(unsafe_code, reason = "the counter is read by an instruction")]

/// Returns the count of the processor's cycle counter; elsewhere than on x86-64 and AArch64, nanoseconds.
#[must_use]
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each x86-64 has the instruction, and it reads nothing but a register.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: the register can be read by every program, and nothing else is read or written.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        return count;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_goes_on() {
        let first = super::now();
        assert!((0..1000).any(|_| super::now() > first));
    }
}
