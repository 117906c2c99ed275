//! Sockets of a stack beside those of the kernel: the same bodies for both, and what differs is in `docs/SOCKETS.md`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod face;
mod hyper;
mod own;
mod suite;

/// Each body, for the kernel's sockets on loopback and for those of two stacks, over both families.
macro_rules! suite {
    ($($name:ident)*) => {
        mod kernel {
            $(#[test] fn $name() { crate::suite::$name(&crate::face::Kernel); })*
        }

        mod stack {
            $(#[test] fn $name() { crate::suite::$name(&crate::face::Stacks::new()); })*
        }
    };
}

suite! {
    what_is_sent_comes_back_and_the_end_behind_it
    many_connections_at_once_are_each_their_own
    a_port_where_nobody_listens_refuses
    an_address_is_bound_once_and_only_if_it_is_ours
    a_read_waits_no_longer_than_it_may
    what_cannot_be_done_at_once_is_not_waited_for
    who_does_not_read_all_resets_the_connection
    a_shutdown_wakes_who_reads
    a_peek_takes_nothing
    a_clone_is_the_same_connection
    no_timeout_is_not_a_timeout
}
