//! Configurations that cannot be: one clear message, and an exit code that is not 0.

use crate::lab::{Attach, Lab, Link};
use crate::pantala::{Folder, up_fails};

/// The mistake, the exit code, and words of the message.
const WRONG: &[(&str, i32, &[&str])] = &[
    (
        "adress = 1\n[[interface]]\ndevice = \"af_xdp:port1\"\n",
        2,
        &["pantala.toml:1:1", "unknown key `adress`"],
    ),
    (
        "[[interface]]\ndevice = \"af_xdp:port1\"\naddress = [\"10.77.1.1/33\"]\n",
        2,
        &["pantala.toml:3:12", "bad address `10.77.1.1/33`"],
    ),
    ("[[interface]]\ndevice = \"af_xdp:nowhere0\"\n", 1, &["nowhere0"]),
    (
        "[[interface]]\ndevice = \"af_xdp:port1\"\naddress = [\"10.77.1.1/24\"]\n\
         [[interface]]\ndevice = \"af_xdp:port2\"\naddress = [\"10.77.1.1/24\"]\n",
        2,
        &["pantala.toml:6:12", "already given in line 3"],
    ),
    ("[[interface]]\ndevice = \"af_xdp:port1\"\nrings = 4\n", 2, &["port1", "2 queues", "4 are asked for"]),
    ("[[interface]]\ndevice = \"af_xdp:port1\"\nmtu = 9000\n", 2, &["mtu 9000", "1500"]),
    ("[[interface]]\ndevice = \"af_xdp:port1,mode=zerocopy\"\n", 1, &["xdp0", "zero-copy"]),
    ("cpus = [4095]\n[[interface]]\ndevice = \"af_xdp:port1\"\n", 2, &["pantala.toml:1:9", "CPU 4095"]),
];

fn each_gets_one_message_and_leaves_nothing_behind() {
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Native)];
    let test = "wrong::each_gets_one_message_and_leaves_nothing_behind";
    let Some(lab) = Lab::without_pantala(test, &links) else { return };
    for (text, code, says) in WRONG {
        let folder = Folder::new();
        std::fs::write(folder.file("pantala.toml"), text).unwrap();
        let said = up_fails(&lab.router, folder.path());
        assert_eq!(said.code, Some(*code), "{said:?}");
        for part in *says {
            assert!(said.err.contains(part), "no `{part}` in:\n{}", said.err);
        }
        let complaints = said.err.lines().filter(|line| line.contains("error")).count();
        assert!(complaints <= 1 && !said.err.contains("panicked"), "{}", said.err);
        assert!(!folder.file("control.sock").exists(), "the socket is left");
        for host in &lab.hosts {
            let link = lab.router.netlink().unwrap().link(&host.outside()).unwrap();
            assert_eq!(link.xdp, None, "an XDP program is left");
        }
    }
}

harness::tests![each_gets_one_message_and_leaves_nothing_behind];
