//! Ends of a stack, also with errors.

use core::time::Duration;
use std::time::Instant;

use pantala::api::client::Client;
use pantala::net::app::{App, AppContext};
use pantala::net::sock::Error;
use pantala::{Interface, Stack, StackError, mem};

use crate::stack::caller::{Caller, PATIENCE, SERVER, echo, is_heard, pair};

fn a_stack_ends_while_others_talk_to_it_and_misses_nothing() {
    let [server, client] = pair([2, 2]);
    let (caller, told) = Caller::new(SERVER[1], usize::MAX);
    client.begin(1, Box::new(caller)).unwrap();
    assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "it talks for ever");
    server.stop().unwrap();
    client.stop().unwrap();
}

fn a_program_that_cannot_begin_says_why_and_none_is_left() {
    let [server, client] = pair([2, 1]);
    let why = server.begin_on_all(echo).unwrap_err();
    assert!(why.error.contains("the program cannot begin on CPU 0"), "{why}");
    assert!(server.begin(2, Box::new(echo())).is_err(), "there is no such CPU");
    assert!(is_heard(&client, 0, SERVER[0], 1000), "those before are there");
}

struct Panics;

impl App for Panics {
    fn begin(&mut self, _: &mut AppContext<'_>) -> Result<(), Error> {
        std::panic::resume_unwind(Box::new("as the test wants"));
    }
}

fn a_netisr_that_panics_is_noticed_and_the_stack_ends_all_the_same() {
    let [_one, other] = mem::wire(1).unwrap();
    let stack = Stack::builder().threads(2).interface(Interface::mem(other)).start().unwrap();
    assert!(stack.is_alive());
    assert!(stack.begin(1, Box::new(Panics)).is_err());
    let begun = Instant::now();
    while stack.is_alive() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert!(matches!(stack.stop(), Err(StackError::Netisr(_))));
}

fn commands_control_a_stack_that_has_a_socket_for_them() {
    let socket = std::env::temp_dir().join(format!("pt-stack-{}.sock", std::process::id()));
    let [_one, other] = mem::wire(1).unwrap();
    let lan = Interface::mem(other).name("inside");
    let stack = Stack::builder().threads(1).interface(lan).admin(&socket).start().unwrap();
    let client = Client::new(&socket).unwrap();
    let interfaces: Vec<pantala::api::Interface> = client.get("/v1/interfaces").unwrap();
    assert_eq!(interfaces[0].name, "inside");
    let refused = client.post::<pantala::api::Reloaded>("/v1/reload", &());
    assert!(refused.unwrap_err().to_string().contains("was not started from a file"));
    stack.stop().unwrap();
    assert!(!socket.exists());
}

harness::tests![
    a_stack_ends_while_others_talk_to_it_and_misses_nothing,
    a_program_that_cannot_begin_says_why_and_none_is_left,
    a_netisr_that_panics_is_noticed_and_the_stack_ends_all_the_same,
    commands_control_a_stack_that_has_a_socket_for_them
];
