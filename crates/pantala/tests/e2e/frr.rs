//! FRR in a namespace.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use dev::sys::process::end_with_parent;

use crate::pantala::Folder;
use crate::wait::until;

/// The module for FPM, and Debian's own buffer for what the kernel says.
const ZEBRA: &[&str] = &["-M", "dplane_fpm_nl", "-s", "90000000"];

/// FRR's zebra and other daemons, killed when dropped.
pub(crate) struct Frr {
    processes: Vec<(String, Child)>,
}

impl Frr {
    const DIR: &str = "/usr/lib/frr";

    /// Whether FRR is installed; says so if it is not.
    pub(crate) fn is_there() -> bool {
        let is_there = Path::new(Self::DIR).join("zebra").exists();
        if !is_there {
            harness::skip("needs zebra (Debian: frr)");
        }
        is_there
    }

    /// Starts zebra and `daemons`, whose configurations are in `folder`.
    pub(crate) fn start(netns: &Netns, folder: &Folder, daemons: &[&str]) -> Self {
        // FRR's own user writes there.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut frr = Self { processes: Vec::new() };
        // That of a zebra that was killed would be taken for the new one's.
        let _ = std::fs::remove_file(folder.file("zserv"));
        frr.run(netns, folder, "zebra", ZEBRA);
        until("zebra's socket is there", || folder.file("zserv").exists().then_some(()));
        daemons.iter().for_each(|name| frr.run(netns, folder, name, &[]));
        frr
    }

    fn run(&mut self, netns: &Netns, folder: &Folder, name: &str, more: &[&str]) {
        let path = |name: &str| folder.file(name).display().to_string();
        let mut command = Command::new(format!("{}/{name}", Self::DIR));
        command.args(more).args(["-u", "frr", "-g", "frr", "-A", "127.0.0.1"]);
        command.args(["-z", &path("zserv"), "-i", &path(&format!("{name}.pid"))]);
        command.args(["-f", &path(&format!("{name}.conf")), "--vty_socket", &path("")]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        end_with_parent(&mut command);
        self.processes.push((name.to_owned(), netns.put(&mut command).unwrap().spawn().unwrap()));
    }

    /// Starts one that was killed.
    pub(crate) fn begin_again(&mut self, netns: &Netns, folder: &Folder, name: &str) {
        self.run(netns, folder, name, if name == "zebra" { ZEBRA } else { &[] });
    }

    /// Kills all, or one.
    pub(crate) fn kill(&mut self, which: Option<&str>) {
        for (_, process) in
            self.processes.iter_mut().filter(|(name, _)| which.is_none_or(|which| which == name))
        {
            let _ = process.kill();
            let _ = process.wait();
        }
        self.processes.retain(|(name, _)| which.is_some_and(|which| which != name));
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        self.kill(None);
    }
}
