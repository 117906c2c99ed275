//! Sockets of a stack beside those of the kernel: the same bodies for both, and what differs is in `docs/reference/SOCKETS.md`. A program
//! on the netisr is called; the bodies run for it with a program that does as they say ([`netisr`]).

mod bodies;
mod datagram_api;
mod socket_api;
mod std_api;
mod hosts;
mod hyper;
mod netisr;
mod programs;
mod stack_only;
mod timeout;
mod tasks;

/// Each body, for the kernel's sockets on loopback and for those of two stacks, that block, that are polled, and that are
/// programs' on the netisr, over both families.
macro_rules! suite {
    ($bodies:ident: $($name:ident)*) => {
        mod $bodies {
            pub(crate) mod kernel {
                $(fn $name() { crate::sockets::bodies::$bodies::$name(&crate::sockets::socket_api::Kernel::default()); })*

                harness::tests![$($name),+];
            }

            pub(crate) mod blocking {
                $(fn $name() { crate::sockets::bodies::$bodies::$name(&crate::sockets::socket_api::Stacks::new()); })*

                harness::tests![$($name),+];
            }

            pub(crate) mod aio {
                $(fn $name() { crate::sockets::bodies::$bodies::$name(&crate::sockets::tasks::Tasks::new()); })*

                harness::tests![$($name),+];
            }

            pub(crate) mod netisr {
                $(fn $name() { crate::sockets::bodies::$bodies::$name(&crate::sockets::netisr::Netisrs::new()); })*

                harness::tests![$($name),+];
            }
        }
    };
}

/// Runs the bodies on two hosts with wires between them, of which one is watched. Applications on the netisr set options without checks by the
/// stack, so that not all bodies are for them.
macro_rules! apart {
    (@face $bodies:ident $face:ident $hosts:expr; $($name:ident)*) => {
        pub(crate) mod $face {
            $(fn $name() { crate::sockets::bodies::$bodies::$name(&$hosts); })*

            harness::tests![$($name),+];
        }
    };
    ($bodies:ident: $($name:ident)*) => {
        pub(crate) mod kernel {
            $(fn $name() {
                let hosts = crate::sockets::socket_api::Kernel::apart();
                hosts.iter().for_each(crate::sockets::bodies::$bodies::$name);
            })*

            harness::tests![$($name),+];
        }

        apart! { @face $bodies blocking crate::sockets::socket_api::Stacks::apart(); $($name)* }
        apart! { @face $bodies aio crate::sockets::tasks::Tasks::apart(); $($name)* }
    };
    ($bodies:ident and on the netisr: $($name:ident)*) => {
        apart! { $bodies: $($name)* }
        apart! { @face $bodies netisr crate::sockets::netisr::Netisrs::apart(); $($name)* }
    };
}

suite! {
    streams:
    what_is_sent_comes_back_and_the_end_behind_it
    many_connections_at_once_are_each_their_own
    a_port_without_a_listener_refuses
    an_address_is_bound_once_and_only_if_it_is_ours
    a_read_waits_no_longer_than_it_may
    what_cannot_be_done_at_once_is_not_waited_for
    close_with_unread_data_resets_the_connection
    shutdown_wakes_a_blocked_reader
    a_peek_takes_nothing
    a_clone_is_the_same_connection
    no_timeout_is_not_a_timeout
    close_with_linger_zero_resets_the_connection
    a_listener_is_for_both_families_unless_it_says_so
    an_address_is_shared_only_with_reuseport_on_all_sockets
}

suite! {
    datagrams:
    a_datagram_arrives_whole_with_its_source_and_is_answered
    what_one_sends_to_one_comes_in_its_order
    what_there_is_no_room_for_is_gone_with_its_datagram
    a_connected_socket_hears_its_peer_alone
    a_connected_socket_gets_connection_refused
    an_unconnected_socket_gets_no_error_of_one_destination
    a_peek_leaves_a_datagram_where_it_is
    a_receive_call_ends_at_its_timeout
    a_place_is_bound_once_and_only_if_it_is_ours
    what_cannot_be_a_datagram_is_refused
}

mod options {
    apart! {
        options and on the netisr:
        a_datagram_comes_with_the_hops_and_the_class_that_were_asked_for
        a_connection_has_the_hops_and_the_class_that_each_end_has_asked_for
        short_writes_wait_for_those_before_them_unless_they_must_not
        a_connection_ends_after_unanswered_keepalive_probes
        buffers_bound_what_is_sent_and_not_read
        a_buffer_that_is_changed_bounds_what_follows
        a_buffer_bounds_the_datagrams_that_wait
    }
}

mod groups {
    apart! {
        groups and on the netisr:
        a_group_is_heard_from_when_it_is_joined_until_it_is_left
        what_is_sent_to_a_group_goes_as_far_as_was_asked_for
        multicast_loopback_follows_its_option
        what_is_sent_to_a_group_leaves_by_the_interface_that_is_named
    }
}

mod refusals {
    apart! {
        refusals:
        what_no_connection_can_do_is_refused
        a_group_that_cannot_be_joined_is_refused
    }
}

harness::modules![
    std_api,
    hyper,
    stack_only,
    programs,
    streams::kernel,
    streams::blocking,
    streams::aio,
    streams::netisr,
    datagrams::kernel,
    datagrams::blocking,
    datagrams::aio,
    datagrams::netisr,
    options::kernel,
    options::blocking,
    options::aio,
    options::netisr,
    groups::kernel,
    groups::blocking,
    groups::aio,
    groups::netisr,
    refusals::kernel,
    refusals::blocking,
    refusals::aio,
];
