//! The daemon as a service: what the service manager hears, and the rights that its unit gives.

use core::time::Duration;
use std::fs::{self, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::daemon::lab::{Lab, OURS, Wire};

/// Longest wait for a message before a test has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A service manager.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn of(lab: &Lab) -> Self {
        let path = lab.folder().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        // As systemd's, which every user may write to.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path: path.display().to_string() }
    }

    fn hears(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The next message that is no sign of life.
    fn hears_news(&self) -> String {
        loop {
            let message = self.hears();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

fn a_service_manager_hears_of_the_start_of_reloads_of_the_end_and_signs_of_life_between() {
    for wire in [Wire::Tap, Wire::Veth { queues: 2 }] {
        let Some(lab) = Lab::new("notify", wire) else { continue };
        let manager = Manager::of(&lab);
        lab.write(&lab.config(""));
        let watched = [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", "20000")];
        let daemon = lab.start_behind(&[], &watched);
        let ready = manager.hears();
        assert!(ready.starts_with("READY=1\nSTATUS=") && ready.ends_with("CPUs, 1 interface"), "{ready}");
        for _ in 0..3 {
            assert_eq!(manager.hears(), "WATCHDOG=1");
        }
        assert_eq!(daemon.shows("reload"), "nothing differs\n");
        let reloading = manager.hears_news();
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        assert!(manager.hears_news().starts_with("READY=1\n"));
        lab.write("nonsense");
        daemon.signal(Signal::HUP);
        assert!(manager.hears_news().starts_with("RELOADING=1\n"));
        let ready = manager.hears_news();
        assert!(ready.starts_with("READY=1\nSTATUS=not reloaded: "), "{ready}");
        assert!(daemon.end(Signal::TERM));
        assert_eq!(manager.hears_news(), "STOPPING=1");
    }
}

fn without_a_watchdog_no_sign_of_life_is_sent() {
    let Some(lab) = Lab::new("nodog", Wire::Tap) else { return };
    let manager = Manager::of(&lab);
    lab.write(&lab.config(""));
    let daemon = lab.start_behind(&[], &[("NOTIFY_SOCKET", &manager.path)]);
    assert!(manager.hears().starts_with("READY=1\n"));
    assert!(daemon.end(Signal::TERM));
    assert_eq!(manager.hears(), "STOPPING=1");
}

/// The rights in `packaging/pantala.service`, by setpriv(1).
fn never_root_and_with_the_capabilities_of_its_unit_it_does_all_that_it_does_as_root() {
    let unit = include_str!("../../../../../packaging/pantala.service");
    let given = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap();
    let given = given.split(' ').map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()));
    let given = given.collect::<Vec<_>>().join(",");
    for wire in [Wire::Tap, Wire::Veth { queues: 2 }] {
        let Some(lab) = Lab::new("unit", wire) else { continue };
        lab.write(&lab.config(""));
        let (inherited, ambient) =
            (format!("--inh-caps=-all,{given}"), format!("--ambient-caps=-all,{given}"));
        let bounding = format!("--bounding-set=-all,{given}");
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
        let before = [&user[..], &[&*inherited, &*ambient, &*bounding]].concat();
        let daemon = lab.start_behind(&before, &[]);
        if matches!(wire, Wire::Tap) {
            lab.address_host();
        }
        assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
        let more = "[[interface]]\nname = \"new\"\ndevice = \"tap:pt7\"\n";
        lab.write(&lab.config(more));
        let said = daemon.shows("reload");
        assert!(said.contains("interface new added"), "{said}");
        daemon.signal(Signal::TERM);
        daemon.says("0 buffers missing, 0 leaked");
        assert!(daemon.end(Signal::CONT));
    }
}

/// As systemd does for `packaging/pantala.socket`: connections that come before the daemon runs wait for it.
fn a_socket_of_the_service_manager_is_used_and_stays_when_the_daemon_ends() {
    let Some(lab) = Lab::new("activated", Wire::Tap) else { return };
    lab.write(&lab.config(""));
    let path = lab.socket();
    let listener = UnixListener::bind(&path).unwrap();
    // What is started from now on inherits it.
    fcntl_setfd(&listener, FdFlags::empty()).unwrap();
    // Of bash: dash does not know descriptors above 9, and other tests of this process may hold those.
    let shell = format!(
        "LISTEN_FDS=1 LISTEN_PID=$$; export LISTEN_FDS LISTEN_PID; exec \"$0\" \"$@\" 3<&{}",
        listener.as_raw_fd()
    );
    for _ in 0..2 {
        let daemon = lab.start_behind(&["bash", "-c", &shell], &[]);
        assert!(daemon.shows("ifconfig").contains("tap"));
        assert!(daemon.end(Signal::TERM));
        assert!(path.exists(), "the file is the service manager's");
    }
    drop(listener);
    fs::remove_file(&path).unwrap();
    // Numbers that are another process's do not count.
    let daemon = lab.start_behind(&[], &[("LISTEN_FDS", "1"), ("LISTEN_PID", "1")]);
    assert!(daemon.end(Signal::TERM));
    assert!(!path.exists());
}

harness::tests![
    a_socket_of_the_service_manager_is_used_and_stays_when_the_daemon_ends,
    a_service_manager_hears_of_the_start_of_reloads_of_the_end_and_signs_of_life_between,
    without_a_watchdog_no_sign_of_life_is_sent,
    never_root_and_with_the_capabilities_of_its_unit_it_does_all_that_it_does_as_root
];
