//! The service manager that started the process, and what it is told: the protocol of sd_notify(3).
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent, and without `WATCHDOG_USEC` no netisr is asked for a sign of life.

#[cfg(feature = "cli")]
use core::time::Duration;
#[cfg(feature = "cli")]
use std::io;
#[cfg(feature = "cli")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
#[cfg(feature = "cli")]
use std::sync::Mutex;

#[cfg(feature = "cli")]
use super::control::Control;
#[cfg(feature = "cli")]
use super::locked;
use super::log;

/// Longest time that a message waits for a service manager whose socket is full.
#[cfg(feature = "cli")]
const PATIENCE: Duration = Duration::from_millis(100);

/// The way to the service manager; without one, messages go nowhere.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Interval of signs of life: half of what the service manager waits for one.
    #[cfg(feature = "cli")]
    every: Option<Duration>,
}

impl ServiceManager {
    /// Returns the one that the environment names. A name that cannot be used is warned of: systemd would wait in vain.
    #[cfg(feature = "cli")]
    pub(crate) fn of_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let Some(name) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let every = watchdog(variable("WATCHDOG_USEC").as_deref(), variable("WATCHDOG_PID").as_deref());
        match open(&name) {
            Ok(socket) => Self { socket: Some(socket), every },
            Err(why) => {
                log::warning(&format!("NOTIFY_SOCKET={name}: {why}; the service manager is told nothing"));
                Self::default()
            }
        }
    }

    /// The stack runs, with the configuration that it was told to have.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// The configuration is being read again, until [`Self::ready`].
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// The process is about to end.
    #[cfg(feature = "cli")]
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = &self.socket else { return };
        // By address each time: a service manager that starts anew has a new socket of the same name.
        if let Err(why) = socket.send_to_addr(message.as_bytes(), address) {
            let what = message.lines().next().unwrap_or_default();
            log::warning(&format!("the service manager was not told {what}: {why}"));
        }
    }
}

/// Sends signs of life, for ever. None is sent while a netisr does not turn, and none while the control thread, which
/// polls this, is held up.
#[cfg(feature = "cli")]
pub(super) async fn keep_alive(manager: &ServiceManager, control: &Mutex<Control>) {
    let Some(every) = manager.every else { return core::future::pending().await };
    loop {
        sign_of_life(manager, control).await;
        tokio::time::sleep(every).await;
    }
}

/// Sends a sign of life once all netisrs have begun another turn.
#[cfg(feature = "cli")]
async fn sign_of_life(manager: &ServiceManager, control: &Mutex<Control>) {
    let (tell, all_turn) = tokio::sync::oneshot::channel();
    // The receiver is gone when the process ends.
    let asked = locked(control).visit_all_then(move || tell.send(()).unwrap_or_default());
    if asked.is_ok() && all_turn.await.is_ok() {
        manager.send("WATCHDOG=1");
    }
}

/// The interval of signs of life, from `WATCHDOG_USEC` and `WATCHDOG_PID`, which may name another process.
#[cfg(feature = "cli")]
fn watchdog(micros: Option<&str>, process: Option<&str>) -> Option<Duration> {
    let is_for_us = process.is_none_or(|process| process.parse() == Ok(std::process::id()));
    let micros = micros?.parse().ok().filter(|micros| is_for_us && *micros > 0)?;
    Some(Duration::from_micros(micros) / 2)
}

/// Opens a socket to an address: a path, or `@` and the name of an abstract one.
#[cfg(feature = "cli")]
fn open(name: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None if name.starts_with('/') => SocketAddr::from_pathname(name)?,
        None => return Err(io::Error::other("neither a path nor an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok((socket, address))
}

#[cfg(test)]
#[cfg(feature = "cli")]
mod tests {
    use core::task::{Context, Poll, Waker};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::config::{Config, Machine};
    use crate::daemon::bring_up::bring_up;

    /// A service manager under an abstract name, and the way to it.
    fn fake() -> (UnixDatagram, ServiceManager) {
        let name = format!("pt-notify-{}-{:?}", std::process::id(), std::thread::current().id());
        let ours = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, ServiceManager { socket: Some(open(&format!("@{name}")).unwrap()), every: None })
    }

    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes[..length].to_vec()).unwrap())
    }

    #[test]
    fn no_sign_of_life_is_given_while_a_netisr_hangs() {
        let (ours, manager) = fake();
        let text = "threads = 2\n[[interface]]\ndevice = \"mem:x\"\naddress = \"192.0.2.1/24\"\n";
        let config = Config::parse("t", text, &Machine { cpus: vec![0] }).unwrap();
        let [near, _far] = dev::mem::wire(1).unwrap();
        let wires = [("x".to_owned(), near)].into();
        let (control, _learning) = bring_up(None, Config { wires, ..config }).unwrap();
        let control = Arc::new(Mutex::new(control));
        let mut context = Context::from_waker(Waker::noop());

        let (hangs, is_hung) = sync_channel(0);
        let (release, released) = sync_channel::<()>(0);
        let other = Arc::clone(&control);
        let remotes = locked(&other).remotes();
        let hang = net::msg::Msg::Call(Box::new(move |_| {
            hangs.send(()).unwrap();
            let _ = released.recv();
        }));
        assert!(remotes[1].send(hang).is_ok());
        is_hung.recv().unwrap();
        let mut life = pin!(sign_of_life(&manager, &control));
        // The other netisr turns, and answers: it is asked behind the visit that waits.
        for _ in 0..100 {
            assert_eq!(life.as_mut().poll(&mut context), Poll::Pending);
            locked(&control).call(0, |_| ()).unwrap();
        }
        assert_eq!(heard(&ours), None);

        release.send(()).unwrap();
        while life.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
        assert_eq!(heard(&ours).as_deref(), Some("WATCHDOG=1"));
        locked(&control).shut_down().unwrap();
    }

    #[test]
    fn the_watchdog_of_another_process_is_not_ours() {
        let us = std::process::id().to_string();
        let half = Some(Duration::from_secs(15));
        assert_eq!(watchdog(Some("30000000"), None), half);
        assert_eq!(watchdog(Some("30000000"), Some(&us)), half);
        for (micros, process) in
            [(Some("30000000"), Some("1")), (None, Some(&*us)), (Some("0"), None), (Some("x"), None)]
        {
            assert_eq!(watchdog(micros, process), None);
        }
    }

    #[test]
    fn an_unknown_socket_and_an_invalid_name_do_no_harm() {
        assert!(open("vsock:2:1234").is_err());
        let name = format!("@pt-notify-none-{}", std::process::id());
        let manager = ServiceManager { socket: Some(open(&name).unwrap()), every: None };
        manager.ready("a\nb");
        ServiceManager::default().reloading();
    }
}
