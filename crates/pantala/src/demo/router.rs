//! pantala itself, started the way a user starts it: a configuration file and `pantala up`.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::PATIENCE;
use super::lab::Lab;
use crate::api::client::Client;
use crate::api::{Counters, Interface, Netisr};

/// Name of the demo's temporary folder, before its process number.
const FOLDER: &str = "pantala-demo-";

/// A running pantala in the router's namespace.
pub(crate) struct Router {
    process: Child,
    pub(crate) client: Client,
    folder: PathBuf,
}

impl Router {
    /// Writes the configuration, starts pantala, and waits until it answers.
    pub(crate) fn start(lab: &Lab) -> Result<Self, String> {
        sweep();
        let folder = std::env::temp_dir().join(format!("{FOLDER}{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let (config, socket) = (folder.join("pantala.toml"), folder.join("control.sock"));
        std::fs::write(&config, lab.config(&socket)).map_err(|why| format!("{}: {why}", config.display()))?;
        let client = Client::new(&socket).map_err(|why| why.to_string())?;
        let process = spawn(lab, &config).map_err(|why| format!("cannot start pantala: {why}"))?;
        let mut router = Self { process, client, folder };
        router.wait_until_it_answers()?;
        Ok(router)
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while self.client.get::<Vec<Interface>>("/v1/interfaces").is_err() {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("pantala did not start ({status}):\n{}", self.complaint()));
            }
            if begun.elapsed() > PATIENCE {
                return Err("pantala does not answer".to_owned());
            }
            std::thread::sleep(core::time::Duration::from_millis(10));
        }
        Ok(())
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        let read = self.process.stderr.as_mut().map(|stderr| stderr.read_to_string(&mut text));
        if matches!(read, Some(Ok(_))) { text } else { "it said nothing".to_owned() }
    }

    /// Which devices it got, as `pantala ifconfig` shows them.
    pub(crate) fn devices(&self) -> Result<String, String> {
        let interfaces: Vec<Interface> = self.client.get("/v1/interfaces").map_err(|why| why.to_string())?;
        Ok(interfaces.iter().map(device).collect())
    }

    pub(crate) fn netisrs(&self) -> Vec<Netisr> {
        self.client.get("/v1/netisr").unwrap_or_default()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.client.get("/v1/counters").unwrap_or_default()
    }

    /// Ends it as Ctrl-C would; answers whether it ended well.
    pub(crate) fn end(&mut self) -> bool {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        self.process.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders of demos that were killed.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER)).and_then(|pid| pid.parse().ok());
        let is_dead = pid.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_err());
        if is_dead {
            // It belongs to another user, then.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn device(interface: &Interface) -> String {
    let Some(device) = &interface.device else { return format!("  {}: no device\n", interface.name) };
    let mode = serde_json::to_value(device.mode).unwrap_or_default();
    let mode = mode.as_str().unwrap_or("unknown");
    let cpus: Vec<String> = interface.rings.iter().map(|ring| ring.cpu.to_string()).collect();
    format!("  {}: {}, mode {mode}, rings on CPUs {}\n", interface.name, device.device, cpus.join(" "))
}

fn spawn(lab: &Lab, config: &std::path::Path) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["up", "-q", "-c"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    lab.router.put(&mut command)?;
    dev::sys::process::end_with_parent(&mut command).spawn()
}
