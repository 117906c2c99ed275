//! The control sockets: their users, and their rights.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::daemon::lab::{Lab, Wire};

fn mode(path: &Path) -> (u32, u32) {
    let file = fs::metadata(path).unwrap();
    (file.mode() & 0o777, file.gid())
}

fn sockets_are_for_the_users_and_groups_that_the_configuration_names() {
    let Some(lab) = Lab::new("modes", Wire::Tap) else { return };
    let read = lab.folder().join("read.sock");
    lab.write(&lab.config(&format!(
        "[admin]\nmode = \"0600\"\nread_socket = \"{}\"\nread_group = \"12345\"\nread_mode = \"0660\"",
        read.display()
    )));
    let _daemon = lab.start();
    assert_eq!(mode(&lab.socket()), (0o600, 0));
    assert_eq!(mode(&read), (0o660, 12345));
}

fn the_read_only_socket_shows_everything_and_changes_nothing() {
    let Some(lab) = Lab::new("shows", Wire::Tap) else { return };
    let read = lab.folder().join("read.sock");
    lab.write(&lab.config(&format!("[admin]\nread_socket = \"{}\"", read.display())));
    let daemon = lab.start();
    for words in ["ifconfig", "netstat -rn", "netstat -s", "netstat -an", "arp -an", "sysctl -a"] {
        let (shown, text) = daemon.run_at(&read, words);
        assert!(shown, "{words}: {text}");
    }
    for words in ["route add 203.0.113.0/24 192.0.2.2", "ifconfig lan down", "reload", "arp -d 192.0.2.2"] {
        let (done, text) = daemon.run_at(&read, words);
        assert!(!done && text.contains("permission denied: this socket is read-only"), "{words}: {text}");
    }
    assert!(!daemon.shows("netstat -rn").contains("203.0.113.0/24"));
    daemon.shows("route add 203.0.113.0/24 192.0.2.2");
}

fn connections_to_the_control_socket_take_no_descriptor_from_the_web_server() {
    let Some(lab) = Lab::new("eaten", Wire::Veth { queues: 1 }) else { return };
    let www = lab.folder().join("www");
    fs::create_dir(&www).unwrap();
    (0..32).for_each(|file| fs::write(www.join(file.to_string()), "here").unwrap());
    lab.write(&lab.config(&format!("[[serve]]\ndir = \"{}\"\nport = 80", www.display())));
    let daemon = lab.start_with_files(160);
    let half = || {
        let mut stream = UnixStream::connect(lab.socket()).unwrap();
        // Those that are too many may be closed by now.
        let _ = stream.write_all(b"GET /v1/interfaces HTTP/1.1\r\nhost:");
        stream
    };
    let held: Vec<UnixStream> = (0..400).map(|_| half()).collect();
    for file in 0..32 {
        let answer = lab.host_gets(&format!("/{file}"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    // Devices are taken up, too: that needs sockets.
    lab.delete_link("pt0");
    daemon.says("is gone");
    lab.lay_veth(1);
    daemon.says("is back");
    assert!(lab.host_gets("/0").starts_with("HTTP/1.1 200 "));
    drop(held);
    daemon.answers_again();
}

fn visitors_of_the_web_server_take_no_descriptor_from_what_must_go_on() {
    let Some(lab) = Lab::new("visitors", Wire::Veth { queues: 1 }) else { return };
    let www = lab.folder().join("www");
    fs::create_dir(&www).unwrap();
    fs::write(www.join("large"), vec![0; 8 << 20]).unwrap();
    fs::write(www.join("small"), "here").unwrap();
    lab.write(&lab.config(&format!("[[serve]]\ndir = \"{}\"\nport = 80", www.display())));
    let daemon = lab.start_with_files(128);
    // Each has a file open as long as it does not read on.
    let mut slow = Vec::new();
    let mut refused = String::new();
    while slow.len() < 200 && refused.is_empty() {
        let mut visitor = lab.host_asks("/large");
        let mut begin = [0; 12];
        visitor.read_exact(&mut begin).unwrap();
        match &begin[9..] {
            b"200" => slow.push(visitor),
            other => refused = String::from_utf8_lossy(other).into_owned(),
        }
    }
    assert_eq!(refused, "503", "after {} visitors", slow.len());
    assert!(slow.len() > 32, "{}", slow.len());
    daemon.shows("netstat -s");
    lab.delete_link("pt0");
    daemon.says("is gone");
    lab.lay_veth(1);
    daemon.says("is back");
}

harness::tests![
    sockets_are_for_the_users_and_groups_that_the_configuration_names,
    the_read_only_socket_shows_everything_and_changes_nothing,
    connections_to_the_control_socket_take_no_descriptor_from_the_web_server,
    visitors_of_the_web_server_take_no_descriptor_from_what_must_go_on,
];
