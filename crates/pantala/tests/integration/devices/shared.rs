//! Memory that two stacks share.

use pantala::{Interface, Stack};

use super::again_and_again;
use crate::stack::caller::{CLIENT, Caller, PATIENCE, SERVER, echo, is_heard};

fn start(socket: &str, role: &str, [v4, v6]: [&str; 2]) -> Stack {
    let shared = Interface::memif(format_args!("{socket},id=3,role={role}")).name("m");
    let shared = shared.address(format!("{v4}/24")).address(format!("{v6}/64")).rings(1);
    Stack::builder().threads(1).interface(shared).start().unwrap()
}

fn two_stacks_over_memif_leave_neither_memory_nor_socket() {
    let socket = std::env::temp_dir().join(format!("pt-devices-{}.sock", std::process::id()));
    again_and_again(|time| {
        let roles = if time % 2 == 0 { ["master", "slave"] } else { ["slave", "master"] };
        let at = socket.to_str().unwrap();
        let server = start(at, roles[0], SERVER);
        server.begin_on_all(echo).unwrap();
        let client = start(at, roles[1], CLIENT);
        for stack in [&server, &client] {
            stack.wait_ready(PATIENCE).unwrap();
        }
        // IPv6 addresses take a second until duplicate address detection has ended.
        let address = SERVER[usize::from(time % 10 == 0)];
        assert!(is_heard(&client, 0, address, 20_000));
        // In the middle of a conversation, either way round.
        let (caller, _told) = Caller::new(address, usize::MAX);
        client.begin(0, Box::new(caller)).unwrap();
        let [first, second] = if time % 3 == 0 { [server, client] } else { [client, server] };
        first.stop().unwrap();
        second.stop().unwrap();
        assert!(!socket.exists());
    });
}

harness::tests![; alone: two_stacks_over_memif_leave_neither_memory_nor_socket];
