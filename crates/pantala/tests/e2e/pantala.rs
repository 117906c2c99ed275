//! pantala as its users meet it: the program, its exit code, its commands.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use pantala::api::client::Client;
use pantala::api::{Counters, Interface, InterfaceFlag, Netisr, Pool, TcpConnection, TcpConnections};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::wait::{PATIENCE, until, within};

/// Time limit of a process's end: the kernel takes back all that a killed one has, which takes long on a busy machine.
const ENDS: Duration = Duration::from_secs(60);

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pantala");

/// A folder of a test's own, which goes with the value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pantala-e2e-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        // pantala is not root when it removes its socket.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    fn with(config: &str) -> Self {
        let folder = Self::new();
        std::fs::write(folder.file("pantala.toml"), config).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Output of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// Runs `pantala up` in a folder whose `pantala.toml` it must refuse, and waits for its end.
pub(crate) fn up_fails(netns: &Netns, folder: &Path) -> Said {
    let mut child = up(netns, folder).stdout(Stdio::piped()).spawn().unwrap();
    if within(PATIENCE, || child.try_wait().unwrap()).is_none() {
        child.kill().unwrap();
    }
    child.wait_with_output().unwrap().into()
}

/// A running pantala. It is killed when the value is dropped.
pub(crate) struct Pantala {
    child: Child,
    folder: Folder,
    client: Client,
    stderr: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Pantala {
    /// Starts it with this configuration, and waits until it answers.
    pub(crate) fn start(netns: &Netns, config: &str) -> Self {
        Self::start_in(netns, Folder::with(config), &[])
    }

    /// Starts it on an interface by which the kernel of `netns` reaches others, which takes it from the kernel.
    pub(crate) fn start_by_force(netns: &Netns, config: &str) -> Self {
        Self::start_in(netns, Folder::with(config), &["--force"])
    }

    fn start_in(netns: &Netns, folder: Folder, options: &[&str]) -> Self {
        let mut child = up(netns, &folder.0).args(options).spawn().unwrap();
        let client = Client::new(&folder.file("control.sock")).unwrap();
        let stderr = Arc::<Mutex<String>>::default();
        let reader = child.stderr.take().map(|pipe| keep(pipe, &stderr));
        let mut pantala = Self { child, folder, client, stderr, reader };
        until("pantala answers", || pantala.answers());
        pantala
    }

    /// Ends as by a crash, and starts again with the same configuration.
    pub(crate) fn killed_and_started_again(self, netns: &Netns) -> Self {
        self.killed().started_again(netns)
    }

    /// Ends it as by a crash.
    pub(crate) fn killed(mut self) -> Self {
        self.signal(Signal::KILL);
        self.wait();
        self
    }

    /// Starts it again in its folder, after it has ended.
    pub(crate) fn started_again(mut self, netns: &Netns) -> Self {
        let folder = core::mem::replace(&mut self.folder, Folder::new());
        Self::start_in(netns, folder, &[])
    }

    fn answers(&mut self) -> Option<()> {
        if let Some(status) = self.child.try_wait().unwrap() {
            let said = self.last_words();
            panic!("pantala did not start ({status}):\n{said}");
        }
        self.client.get::<Vec<Interface>>("/v1/interfaces").ok().map(drop)
    }

    /// Replaces the configuration file; it is not read yet.
    pub(crate) fn rewrite_config(&self, config: &str) {
        std::fs::write(self.folder.file("pantala.toml"), config).unwrap();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.file("control.sock")
    }

    /// Runs one of the commands, such as `arp -an`.
    pub(crate) fn command(&self, line: &str) -> Said {
        let mut command = Command::new(PROGRAM);
        command.arg("--socket").arg(self.socket()).args(line.split_whitespace()).stdin(Stdio::null());
        command.output().unwrap().into()
    }

    /// The output of a command that must succeed.
    #[track_caller]
    pub(crate) fn shows(&self, line: &str) -> String {
        let said = self.command(line);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{line}: {said:?}");
        said.out
    }

    /// Runs a command with `--json`.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.shows(&format!("--json {line}"))).unwrap()
    }

    pub(crate) fn interfaces(&self) -> Vec<Interface> {
        self.client.get("/v1/interfaces").unwrap()
    }

    pub(crate) fn interface(&self, name: &str) -> Interface {
        self.interfaces().into_iter().find(|interface| interface.name == name).unwrap()
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> String {
        self.client.text("/metrics").unwrap()
    }

    /// Whether all interfaces carry packets.
    pub(crate) fn is_running(&self) -> bool {
        self.interfaces().iter().all(|interface| interface.is(InterfaceFlag::Running))
    }

    pub(crate) fn netisrs(&self) -> Vec<Netisr> {
        self.client.get("/v1/netisr").unwrap()
    }

    pub(crate) fn pools(&self) -> Vec<Pool> {
        self.client.get("/v1/pools").unwrap()
    }

    /// The connections of TCP, with all that is known of each.
    pub(crate) fn connections(&self) -> Vec<TcpConnection> {
        let all: TcpConnections = self.client.get("/v1/tcp/connections?info=true&limit=1000").unwrap();
        assert_eq!(all.next, None, "more than a page of connections");
        all.connections
    }

    /// An event's count, all CPUs together.
    #[track_caller]
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters: Counters = self.client.get("/v1/counters").unwrap();
        let found = counters.counters.iter().find(|counter| counter.name == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).count
    }

    /// Returns the packets dropped for this reason, all CPUs together.
    #[track_caller]
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let counters: Counters = self.client.get("/v1/counters").unwrap();
        let found = counters.drops.iter().filter(|drop| drop.reason == reason);
        assert!(found.clone().next().is_some(), "no reason {reason}");
        found.map(|drop| drop.count).sum()
    }

    /// Processor time that its threads have used so far, as the scheduler counts it.
    pub(crate) fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let used = |task: &Path| {
            let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
            text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
        };
        tasks.filter_map(|task| used(&task.ok()?.path())).sum()
    }

    /// Bytes of the machine's memory that it has.
    pub(crate) fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        kib.unwrap().parse::<u64>().unwrap() << 10
    }

    /// Returns its standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, and answers its exit code.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let ended = within(ENDS, || self.child.try_wait().unwrap());
        ended.unwrap_or_else(|| panic!("pantala has not ended within {ENDS:?}"))
    }

    /// Returns its output and counters, for the report of a failed test.
    pub(crate) fn report(&mut self) -> String {
        let statistics = match self.child.try_wait() {
            Ok(None) => ["netstat -s", "netstat -Q", "netstat -i", "ifconfig -a", "arp -an", "ndp -an"]
                .map(|line| format!("--- {line}\n{}", self.command(line).out))
                .concat(),
            _ => "(it has ended)\n".to_owned(),
        };
        let stderr = self.last_words_if_ended().unwrap_or_else(|| self.stderr());
        format!("--- pantala said\n{stderr}{statistics}")
    }

    fn last_words_if_ended(&mut self) -> Option<String> {
        (!self.is_alive()).then(|| self.last_words())
    }

    /// All it ever wrote to stderr, once it has ended.
    fn last_words(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.stderr()
    }
}

impl Drop for Pantala {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `pantala up`, with configuration and socket in `folder`.
fn up(netns: &Netns, folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("--socket").arg(folder.join("control.sock"));
    command.args(["up", "-c"]).arg(folder.join("pantala.toml"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    netns.put(&mut command).unwrap();
    end_with_parent(&mut command);
    command
}

fn keep(mut pipe: impl Read + Send + 'static, text: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let text = Arc::clone(text);
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(len @ 1..) = pipe.read(&mut part) {
            text.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..len]));
        }
    })
}
