//! Two namespaces with a wire between them, and a daemon in one.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use dev::bpf::asm::{Asm, Reg};
use dev::bpf::prog::{Kind, Program};
use dev::netlink::{Link, Route, Veth, VethEnd};
use dev::netns::{Netns, ScopedNetns};
use dev::sys::caps::{CapabilitySet, effective};
use dev::sys::tun::Tap;
use rustix::process::{Pid, Signal, kill_process};

/// Longest time without progress before a test has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where our addresses are; the neighbour's end in 2.
pub(crate) const OURS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const THEIRS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];

/// The kind of wire.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wire {
    /// The daemon makes it: the host's end is in its own namespace.
    Tap,
    /// A veth pair with this many queues, whose far end is in the host's namespace.
    Veth { queues: u32 },
}

/// A daemon's namespace, a host's namespace, and a folder. All go with the value.
pub(crate) struct Lab {
    router: ScopedNetns,
    host: ScopedNetns,
    folder: PathBuf,
    wire: Wire,
}

/// A running daemon; killed if it has not been ended before.
pub(crate) struct Daemon<'l> {
    lab: &'l Lab,
    process: Child,
    said: Receiver<String>,
}

impl Lab {
    /// `None`, loudly, if this process may not make one.
    pub(crate) fn new(test: &str, wire: Wire) -> Option<Self> {
        let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        if !effective().is_ok_and(|held| held.contains(needed)) {
            harness::skip("needs root");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("pt-{test}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir(&folder).unwrap();
        // The daemon is not root when it removes its socket.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let [router, host] = ["r", "h"].map(|end| ScopedNetns::create(&format!("{name}-{end}")).unwrap());
        let lab = Self { router, host, folder, wire };
        if let Wire::Veth { queues } = wire {
            lab.lay_veth(queues);
        }
        Some(lab)
    }

    /// Makes the veth pair, with the far end in the host's namespace.
    pub(crate) fn lay_veth(&self, queues: u32) {
        let end = |name| VethEnd { name, mac: None };
        let mut netlink = self.router.netlink().unwrap();
        netlink.add_veth(&Veth { ends: [end("pt0"), end("far")], queues, mtu: None }).unwrap();
        netlink.move_to("far", &*self.host).unwrap();
        self.address_host();
    }

    /// Gives the host's end its addresses. A TAP's end is there once the daemon has made it.
    pub(crate) fn address_host(&self) {
        let (netns, end) = self.end();
        let mut netlink = netns.netlink().unwrap();
        netlink.set_up(end, true).unwrap();
        for net in ["192.0.2.2/24", "2001:db8::2/64"] {
            netlink.add_address(end, net.parse().unwrap()).unwrap();
        }
    }

    /// The host's end of the wire: whose namespace it is in, and its name.
    fn end(&self) -> (&Netns, &'static str) {
        match self.wire {
            Wire::Tap => (&self.router, "pt0"),
            Wire::Veth { .. } => (&self.host, "far"),
        }
    }

    /// The device in the daemon's configuration.
    pub(crate) fn device(&self) -> &'static str {
        match self.wire {
            Wire::Tap => "tap:pt0",
            Wire::Veth { .. } => "af_xdp:pt0",
        }
    }

    /// A configuration with one interface `lan`, with `more` below it.
    pub(crate) fn config(&self, more: &str) -> String {
        let (socket, device) = (self.socket().display().to_string(), self.device());
        format!(
            "socket = \"{socket}\"\n[[interface]]\nname = \"lan\"\ndevice = \"{device}\"\n\
             address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n{more}\n"
        )
    }

    pub(crate) fn write(&self, config: &str) {
        std::fs::write(self.file(), config).unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("sock")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("pantala.toml")
    }

    /// Starts a daemon with the configuration that was written last, and waits until it is ready.
    pub(crate) fn start(&self) -> Daemon<'_> {
        self.start_saying("ready")
    }

    /// Starts a daemon, and waits until it says `words`.
    pub(crate) fn start_saying(&self, words: &str) -> Daemon<'_> {
        self.started(self.up(), words)
    }

    /// Starts a daemon that may have so many files open, and waits until it is ready.
    pub(crate) fn start_with_files(&self, files: u32) -> Daemon<'_> {
        let (up, mut command) = (self.up(), Command::new("sh"));
        command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
        command.arg(up.get_program()).args(up.get_args());
        self.router.put(&mut command).unwrap();
        self.started(command, "ready")
    }

    /// Starts a daemon whose sysfs shows its namespace, as `ip netns exec` does, and waits until it is ready.
    pub(crate) fn start_with_sysfs(&self) -> Daemon<'_> {
        let up = self.up();
        let mut command = self.with_sysfs("exec \"$0\" \"$@\"");
        command.arg(up.get_program()).args(up.get_args());
        self.started(command, "ready")
    }

    /// A shell in the daemon's namespace, with its sysfs.
    fn with_sysfs(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("mount -t sysfs pt /sys && {script}")]);
        self.router.put(&mut command).unwrap();
        command
    }

    /// The kernel's settings of the interrupts of `pt0`: empty polls, and nanoseconds.
    pub(crate) fn interrupts(&self) -> [u64; 2] {
        let read = "cat napi_defer_hard_irqs gro_flush_timeout";
        let said = self.with_sysfs(&format!("cd /sys/class/net/pt0 && {read}")).output().unwrap();
        let text = String::from_utf8(said.stdout).unwrap();
        let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }

    pub(crate) fn set_interrupts(&self, [polls, ns]: [u64; 2]) {
        let write = format!("echo {polls} > napi_defer_hard_irqs && echo {ns} > gro_flush_timeout");
        let mut command = self.with_sysfs(&format!("cd /sys/class/net/pt0 && {write}"));
        assert!(command.status().unwrap().success());
    }

    /// Starts a daemon behind another command, with these variables, and waits until it is ready.
    pub(crate) fn start_behind(&self, before: &[&str], variables: &[(&str, &str)]) -> Daemon<'_> {
        let (up, mut command) = (self.up(), Command::new("env"));
        command.args(before).arg(up.get_program()).args(up.get_args()).envs(variables.iter().copied());
        self.router.put(&mut command).unwrap();
        self.started(command, "ready")
    }

    /// Starts a daemon with more options, and waits until it is ready.
    pub(crate) fn start_with(&self, options: &[&str]) -> Daemon<'_> {
        let mut up = self.up();
        up.args(options);
        self.started(up, "ready")
    }

    /// Starts a daemon that is to fail, under a shell with this variable, which the daemon itself does not have.
    pub(crate) fn start_in_vain_with(&self, variable: &str) -> Output {
        let (up, mut command) = (self.up(), Command::new("env"));
        command.args([variable, "sh", "-c", "env -i \"$0\" \"$@\"; exit $?"]);
        command.arg(up.get_program()).args(up.get_args());
        self.router.put(&mut command).unwrap();
        command.output().unwrap()
    }

    /// Gives the kernel's end in the daemon's namespace addresses.
    pub(crate) fn address_router(&self, nets: &[&str]) {
        let mut netlink = self.router.netlink().unwrap();
        netlink.set_up("pt0", true).unwrap();
        nets.iter().for_each(|net| netlink.add_address("pt0", net.parse().unwrap()).unwrap());
    }

    /// Gives the kernel in the daemon's namespace a default route over its end.
    pub(crate) fn default_route(&self, gateway: &str) {
        let via: IpAddr = gateway.parse().unwrap();
        let to = if via.is_ipv4() { "0.0.0.0/0" } else { "::/0" }.parse().unwrap();
        let ifindex = self.link("pt0").map(|link| link.index);
        self.router.netlink().unwrap().add_route(&Route { to, via: Some(via), ifindex }).unwrap();
    }

    pub(crate) fn router(&self) -> &Netns {
        &self.router
    }

    pub(crate) fn host(&self) -> &Netns {
        &self.host
    }

    fn started(&self, mut command: Command, words: &str) -> Daemon<'_> {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let (tell, said) = channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let daemon = Daemon { lab: self, process, said };
        daemon.says(words);
        daemon
    }

    /// Starts a daemon that is to fail.
    pub(crate) fn start_in_vain(&self) -> Output {
        self.up().output().unwrap()
    }

    fn up(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
        command.args(["up", "-v", "-c"]).arg(self.file());
        self.router.put(&mut command).unwrap();
        command
    }

    /// Returns the kernel's view of an interface in the daemon's namespace.
    pub(crate) fn link(&self, name: &str) -> Option<Link> {
        self.router.netlink().unwrap().link(name).ok()
    }

    pub(crate) fn delete_link(&self, name: &str) {
        self.router.netlink().unwrap().delete_link(name).unwrap();
    }

    pub(crate) fn add_veth(&self, veth: &Veth<'_>) {
        self.router.netlink().unwrap().add_veth(veth).unwrap();
    }

    pub(crate) fn move_link(&self, name: &str, to: &Netns) {
        self.router.netlink().unwrap().move_to(name, to).unwrap();
    }

    /// Leaves an XDP program of another's on an interface, which no process holds.
    pub(crate) fn leave_program(&self, name: &str) {
        const GENERIC: u32 = 1 << 1;
        const XDP_PASS: i32 = 2;
        let mut asm = Asm::new();
        asm.mov(Reg::R0, XDP_PASS).exit();
        let insns = asm.finish().unwrap();
        let program = Program::load("of_another", Kind::Xdp, &insns, false).unwrap();
        let mut netlink = self.router.netlink().unwrap();
        let ifindex = netlink.link(name).unwrap().index;
        netlink.attach_xdp(ifindex, &program, GENERIC).unwrap();
    }

    /// Makes the TAP, with one queue, so that it is there before the daemon and after it.
    pub(crate) fn keep_tap(&self) {
        let make = || Tap::open("pt0", 1).unwrap().set_persistent(true).unwrap();
        self.router.run(make).unwrap();
    }

    /// Sends a number of datagrams from the host's kernel to `to`, where no socket listens.
    pub(crate) fn host_sends(&self, to: &str, datagrams: usize) {
        let (netns, _) = self.end();
        let socket = netns.run(|| UdpSocket::bind("192.0.2.2:0")).unwrap().unwrap();
        (0..datagrams).for_each(|_| _ = socket.send_to(b"burst", (to, 9)));
    }

    /// A connection of the host's to our web server, which has asked for `path`.
    pub(crate) fn host_asks(&self, path: &str) -> TcpStream {
        let to = SocketAddr::new(OURS[0].parse().unwrap(), 80);
        let (netns, _) = self.end();
        let mut stream = netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        stream
    }

    /// Returns our web server's response to the host.
    pub(crate) fn host_gets(&self, path: &str) -> String {
        let mut text = String::new();
        self.host_asks(path).read_to_string(&mut text).unwrap();
        text
    }

    /// Tells whether the host's kernel gets an answer from `to`: port unreachable, because no socket listens there.
    pub(crate) fn host_reaches(&self, to: &str) -> bool {
        let to = SocketAddr::new(to.parse().unwrap(), 9);
        let (netns, _) = self.end();
        let answer = netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
        answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Asks again and again whether it is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
    }
}

impl Daemon<'_> {
    /// Waits for a line on its standard error that contains `words`.
    pub(crate) fn says(&self, words: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => heard.push(line),
                Err(_) => panic!("`{words}` was not said, but {heard:#?}"),
            }
        }
    }

    /// Waits for a line that contains `words`; answers all that was said until then.
    pub(crate) fn says_all_until(&self, words: &str) -> Vec<String> {
        let mut heard = Vec::new();
        while let Ok(line) = self.said.recv_timeout(PATIENCE) {
            if line.contains(words) {
                return heard;
            }
            heard.push(line);
        }
        panic!("`{words}` was not said, but {heard:#?}")
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until a command is answered.
    pub(crate) fn answers_again(&self) {
        until("a command is answered", || self.run("netstat -m").0);
    }

    /// Runs `pantala WORDS` against it; both outputs, and whether it succeeded.
    pub(crate) fn run(&self, words: &str) -> (bool, String) {
        self.run_at(&self.lab.socket(), words)
    }

    /// Runs a command at this socket.
    #[expect(clippy::unused_self, reason = "there is a socket as long as there is a daemon")]
    pub(crate) fn run_at(&self, socket: &Path, words: &str) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
        let output = command.arg("--socket").arg(socket).args(words.split_whitespace()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    /// Returns the output of a command that must succeed.
    pub(crate) fn shows(&self, words: &str) -> String {
        let (done, text) = self.run(words);
        assert!(done, "{words}: {text}");
        text
    }

    /// Asserts that it shows `line`, up to blanks.
    pub(crate) fn shows_line(&self, words: &str, line: &str) {
        let text = self.shows(words);
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|shown| plain(shown).contains(line)), "no `{line}` in {words}:\n{text}");
    }

    /// The value of a command that must succeed, with `--json`.
    pub(crate) fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.shows(&format!("{words} --json"))).unwrap()
    }

    /// The interface `lan`.
    pub(crate) fn interface(&self) -> serde_json::Value {
        self.interface_named("lan")
    }

    pub(crate) fn interface_named(&self, name: &str) -> serde_json::Value {
        let all = self.json("ifconfig");
        all.as_array().unwrap().iter().find(|interface| interface["name"] == name).unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asserts that it has as many descriptors open as `before`, once the connections of commands that have ended are
    /// closed; notes how many it has if that is not known yet.
    pub(crate) fn has_descriptors(&self, before: &mut Option<usize>) {
        let count = || std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count();
        let (begun, mut last) = (Instant::now(), [0; 8]);
        // Until it is the same for a while.
        while begun.elapsed() < PATIENCE
            && (last != [count(); 8] || before.is_some_and(|before| last[0] != before))
        {
            std::thread::sleep(Duration::from_millis(5));
            last.rotate_right(1);
            last[0] = count();
        }
        assert_eq!(count(), *before.get_or_insert_with(count));
    }

    /// Kills it, and does not wait for its end.
    pub(crate) fn kill_and_go_on(mut self) -> Child {
        self.signal(Signal::KILL);
        core::mem::replace(&mut self.process, Command::new("true").spawn().unwrap())
    }

    /// Ends it by a signal; answers whether it ended with success.
    pub(crate) fn end(mut self, signal: Signal) -> bool {
        self.signal(signal);
        self.process.wait().unwrap().success()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
