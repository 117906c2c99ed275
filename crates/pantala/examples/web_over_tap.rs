//! A web server on two CPUs over a TAP, and `curl` on the kernel's side that asks it. The kernel puts each frame into the
//! queue of the CPU that owns its flow. It needs root, or a network of one's own:
//!
//! unshare -rn cargo run --example web_over_tap

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use std::process::Command;

use pantala::dev::netlink::Rtnetlink;
use pantala::{Interface, Stack};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("pt-web-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("index.html"), "<h1>It flies</h1>\n")?;

    let tap = Interface::tap("pt-web").address("10.71.2.1/24").address("fd71:2::1/64");
    let stack = Stack::builder().threads(2).interface(tap).serve(&folder, 80).start()?;

    // The other end of the TAP is an interface of the kernel.
    let mut kernel = Rtnetlink::open()?;
    kernel.add_address("pt-web", "10.71.2.2/24".parse()?)?;
    for _ in 0..4 {
        let curl = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "10", "http://10.71.2.1/"])
            .output()?;
        print!("{}", String::from_utf8_lossy(&curl.stdout));
        assert_eq!(curl.stdout, b"<h1>It flies</h1>\n", "{}", String::from_utf8_lossy(&curl.stderr));
    }

    let metrics = stack.metrics()?;
    metrics
        .lines()
        .filter(|line| line.starts_with("pantala_web_requests"))
        .for_each(|line| println!("{line}"));
    stack.stop()?;
    Ok(std::fs::remove_dir_all(&folder)?)
}
