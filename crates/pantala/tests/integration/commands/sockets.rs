//! The control socket: its access, and stale files at the start.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use pantala::api::server::{BindError, Server};

use crate::commands::server::{Folder, World};

fn owner_and_group_may_use_it_and_it_goes_with_the_server() {
    let folder = Folder::new();
    let server = Server::bind(&folder.socket()).unwrap();
    assert_eq!(std::fs::metadata(folder.socket()).unwrap().permissions().mode() & 0o777, 0o660);
    drop(server);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn a_folder_that_is_missing_is_made() {
    let folder = Folder::new();
    assert!(Server::bind(&folder.path().join("a/b/control.sock")).is_ok());
}

fn one_left_over_by_a_killed_process_is_replaced() {
    let folder = Folder::new();
    // A listener of the standard library leaves its file behind, as a killed process does.
    drop(UnixListener::bind(folder.socket()).unwrap());
    assert!(folder.socket().exists());
    assert!(Server::bind(&folder.socket()).is_ok());
}

fn a_second_instance_is_refused_and_the_first_one_lives() {
    let world = World::new();
    let error = Server::bind(&world.folder.socket()).unwrap_err();
    let says = format!(
        "pantala (process {}) is already running at {}; stop it first, or choose another socket with --socket",
        std::process::id(),
        world.folder.socket().display()
    );
    assert_eq!(error.to_string(), says);
    assert_eq!(world.shows("ifconfig -l"), "lo0 lan wan\n");
}

fn what_is_no_socket_is_not_removed() {
    let folder = Folder::new();
    std::fs::write(folder.socket(), "precious").unwrap();
    assert!(matches!(Server::bind(&folder.socket()), Err(BindError::NotSocket { .. })));
    assert_eq!(std::fs::read_to_string(folder.socket()).unwrap(), "precious");
}

fn another_socket_in_its_place_survives_the_server() {
    let folder = Folder::new();
    let first = Server::bind(&folder.socket()).unwrap();
    std::fs::remove_file(folder.socket()).unwrap();
    let _second = Server::bind(&folder.socket()).unwrap();
    drop(first);
    assert!(folder.socket().exists());
}

harness::tests![
    owner_and_group_may_use_it_and_it_goes_with_the_server,
    a_folder_that_is_missing_is_made,
    one_left_over_by_a_killed_process_is_replaced,
    a_second_instance_is_refused_and_the_first_one_lives,
    what_is_no_socket_is_not_removed,
    another_socket_in_its_place_survives_the_server
];
