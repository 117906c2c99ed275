//! A whole stack inside of a program.

mod control_thread;
mod builder;
mod error;
mod ready;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use net::app::{App, AppId};
use net::msg::Remote;
use net::netisr::Netisr;

pub use self::builder::{Builder, Interface};
use self::control_thread::Attendant;
pub use self::error::StackError;
pub use self::ready::NotReady;
use crate::api::{self, Error, ErrorKind};
use crate::config::Config;
use crate::daemon::bring_up::bring_up;
use crate::daemon::control::Control;
use crate::daemon::{bind, locked, log};
use crate::sockets::Sockets;

/// A whole stack inside of a program: its netisrs, their devices, and a control thread.
///
/// It is started by a [`Builder`], or from a [`Config`]; [`Stack::stop`] ends it, or dropping it. Any number of stacks may
/// run in one process, one after the other or together; they share nothing but the wires that join them
/// ([`crate::mem::wire`]).
///
/// All methods may be called from any thread but those of its netisrs: most wait for these to answer, some microseconds.
pub struct Stack {
    control: Arc<Mutex<Control>>,
    /// The ways to the netisrs, in the order of their CPUs.
    remotes: Vec<Remote>,
    /// None once it is stopped.
    attendant: Option<Attendant>,
}

impl Stack {
    /// A stack that is put together step by step.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts what a configuration asks for. The admin API is served if it names a socket.
    ///
    /// # Errors
    /// [`StackError`]. What was opened is closed again then.
    pub fn start(config: Config) -> Result<Self, StackError> {
        let server = config.socket.as_deref().map(|path| bind(path, &config, None)).transpose()?;
        let (control, learning) = bring_up(None, config)?;
        let remotes = control.remotes();
        let control = Arc::new(Mutex::new(control));
        // It ends by being dropped if there is no thread for the attendant.
        let mut stack = Self { control, remotes, attendant: None };
        stack.attendant = Some(Attendant::start(&stack.control, learning, server)?);
        Ok(stack)
    }

    /// Returns the number of CPUs: each has a netisr.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.remotes.len()
    }

    /// Begins a program on the netisr of this CPU. It listens, connects and answers there, and is called there.
    ///
    /// # Errors
    /// There is no such CPU, or the program says that it cannot begin.
    pub fn begin(&self, cpu: usize, program: Box<dyn App>) -> Result<AppId, Error> {
        self.call(cpu, move |netisr| netisr.begin(program))?.map_err(|why| {
            let text = format!("the program cannot begin on CPU {cpu}: {why}");
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// Begins a program on each CPU, as `make` makes them; answers what they are called there, in the order of the CPUs. A
    /// connection is then accepted where its packets come, by the program of that CPU.
    ///
    /// # Errors
    /// One of them cannot begin. The others have ended then.
    pub fn begin_on_all<P: App + 'static>(&self, mut make: impl FnMut() -> P) -> Result<Vec<AppId>, Error> {
        let mut begun = Vec::new();
        for cpu in 0..self.cpus() {
            match self.begin(cpu, Box::new(make())) {
                Ok(program) => begun.push(program),
                Err(why) => {
                    begun.into_iter().enumerate().for_each(|(cpu, program)| drop(self.end(cpu, program)));
                    return Err(why);
                }
            }
        }
        Ok(begun)
    }

    /// Ends a program: it is called no more, and what it holds is closed.
    ///
    /// # Errors
    /// There is no such CPU, or it does not answer.
    pub fn end(&self, cpu: usize, program: AppId) -> Result<(), Error> {
        self.call(cpu, move |netisr| netisr.end(program))
    }

    /// Runs `ask` on the netisr of a CPU and answers what it does. All else on that CPU waits meanwhile.
    ///
    /// # Errors
    /// There is no such CPU, it has too much to do, or it does not answer.
    pub fn call<T: Send + 'static>(
        &self,
        cpu: usize,
        ask: impl FnOnce(&mut Netisr) -> T + Send + 'static,
    ) -> Result<T, Error> {
        locked(&self.control).call(cpu, ask)
    }

    /// The control ports of its netisrs, in the order of their CPUs: by these any thread sends them messages, whenever it
    /// likes and without waiting. What is to serve other threads begins here. They may outlive the stack; then they are
    /// full.
    #[must_use]
    pub fn remotes(&self) -> &[Remote] {
        &self.remotes
    }

    /// Sockets for the threads and tasks of this program, used as those of the kernel are. Each call opens channels of its
    /// own; clone what it returns to share them.
    ///
    /// # Errors
    /// A netisr has ended or serves as many programs as it can, or there is no memory for channels.
    pub fn sockets(&self) -> std::io::Result<Sockets> {
        Sockets::open(&self.remotes)
    }

    /// All that the admin API shows and changes: interfaces, routes, neighbours, connections, counters, variables, rules.
    /// Hold it no longer than needed, for no other request is served meanwhile.
    pub fn admin(&self) -> MutexGuard<'_, dyn api::stack::Stack> {
        let control: &Mutex<dyn api::stack::Stack> = &*self.control;
        control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that is counted, as Prometheus reads it.
    ///
    /// # Errors
    /// The netisrs do not answer.
    pub fn metrics(&self) -> Result<String, Error> {
        api::metrics::text(&mut *self.admin())
    }

    /// Adds an address to an interface, while packets flow. It is used after duplicate address detection.
    ///
    /// # Errors
    /// There is no such interface, or an interface cannot have this address.
    pub fn add_address(&self, interface: &str, address: IpNet) -> Result<(), Error> {
        locked(&self.control).add_address(interface, address)
    }

    /// Takes an address from an interface. What was bound to it does not hear any more.
    ///
    /// # Errors
    /// There is no such interface, or it has no such address.
    pub fn remove_address(&self, interface: &str, address: IpNet) -> Result<(), Error> {
        locked(&self.control).remove_address(interface, address)
    }

    /// Whether all of its netisrs are alive. If one has panicked nothing of the stack is to be relied on: stop it.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.attendant.as_ref().is_some_and(|attendant| !attendant.has_ended())
    }

    /// Ends it: its programs and threads end, devices are closed, and what was changed of the machine is put back. When
    /// this returns, nothing is left. Connections that stand are not waited for.
    ///
    /// # Errors
    /// A netisr had panicked, or packet buffers are missing, which would be a bug. The stack has ended all the same.
    pub fn stop(mut self) -> Result<(), StackError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), StackError> {
        self.attendant.take().into_iter().for_each(Attendant::stop);
        locked(&self.control).shut_down().map_err(|why| StackError::Netisr(why.error))
    }
}

impl Drop for Stack {
    /// Stops as [`Stack::stop`], without reporting how it ended.
    fn drop(&mut self) {
        if let Err(why) = self.shut_down() {
            log::warning(&format!("not everything was put back: {why}"));
        }
    }
}
