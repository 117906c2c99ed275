//! The examples of the library are run, each within a bound.

use core::error::Error;
use core::time::Duration;
use std::sync::mpsc::channel;

use dev::netns::Netns;
use dev::sys::caps::{CapabilitySet, effective};

#[path = "../../examples/echo.rs"]
mod echo;
#[path = "../../examples/http_client.rs"]
mod http_client;
#[path = "../../examples/hyper.rs"]
mod hyper;
#[path = "../../examples/memif_threads.rs"]
mod memif_threads;
#[path = "../../examples/two_stacks.rs"]
mod two_stacks;
#[path = "../../examples/udp.rs"]
mod udp;
#[path = "../../examples/web_over_tap.rs"]
mod web_over_tap;

/// No example takes a second.
const BOUND: Duration = Duration::from_secs(60);

/// Runs an example on a thread of its own, and says how it ended.
fn ends(example: impl FnOnce() -> Result<(), Box<dyn Error>> + Send + 'static) {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(example().map_err(|why| why.to_string())));
    assert_eq!(told.recv_timeout(BOUND), Ok(Ok(())), "an example ends, and well");
}

/// Runs it in a network namespace of its own.
fn ends_in_a_network(example: fn() -> Result<(), Box<dyn Error>>) {
    if !effective().is_ok_and(|held| held.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN)) {
        return harness::skip("needs root");
    }
    ends(move || {
        let network = Netns::anonymous()?;
        let ended = network.run(|| example().map_err(|why| why.to_string()))?;
        Ok(ended?)
    });
}

fn two_stacks_talk_over_a_wire_in_memory() {
    ends(two_stacks::main);
}

fn hyper_serves_tasks_of_two_threads_from_two_cpus() {
    ends(hyper::main);
}

fn the_client_of_hyper_asks_a_web_server_over_a_wire_in_memory() {
    ends(http_client::main);
}

fn threads_of_two_stacks_talk_over_shared_memory() {
    ends(memif_threads::main);
}

fn datagrams_go_to_one_socket_to_none_and_to_a_group() {
    ends(udp::main);
}

fn the_kernel_hears_its_echo_from_a_program_on_the_netisr() {
    ends_in_a_network(echo::main);
}

fn curl_reads_a_page_from_two_cpus_over_a_tap() {
    ends_in_a_network(web_over_tap::main);
}

harness::tests![
    two_stacks_talk_over_a_wire_in_memory,
    hyper_serves_tasks_of_two_threads_from_two_cpus,
    the_client_of_hyper_asks_a_web_server_over_a_wire_in_memory,
    threads_of_two_stacks_talk_over_shared_memory,
    datagrams_go_to_one_socket_to_none_and_to_a_group,
    the_kernel_hears_its_echo_from_a_program_on_the_netisr,
    curl_reads_a_page_from_two_cpus_over_a_tap,
];
