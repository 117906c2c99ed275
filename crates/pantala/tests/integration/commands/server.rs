//! A server with a fake stack in a folder of its own, and a command line to it.

use core::sync::atomic::{AtomicU32, Ordering};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pantala::api::server::Server;
use pantala::term::Term;
use pantala::{Exit, run};
use tokio::sync::oneshot;

use crate::commands::fake::Fake;

/// A running server. It ends and its folder goes with the value.
pub(crate) struct World {
    pub(crate) folder: Folder,
    /// Requests to the stack, as text.
    pub(crate) told: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Output of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        let fake = Fake::default();
        let told = Arc::clone(&fake.told);
        let server = Server::bind(&folder.socket()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let stopped = async { stopped.await.unwrap_or(()) };
            runtime.block_on(server.serve(Arc::new(Mutex::new(fake)), stopped)).unwrap();
        });
        Self { folder, told, stop: Some(stop), thread: Some(thread) }
    }

    /// Runs `pantala --socket … LINE`.
    pub(crate) fn run(&self, line: &str) -> Said {
        let socket = self.folder.socket().display().to_string();
        pantala(&format!("--socket {socket} {line}"))
    }

    /// The text of a command that must succeed.
    pub(crate) fn shows(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!((said.exit, said.err.as_str()), (Exit::Ok, ""), "{line}: {said:?}");
        said.out
    }

    /// The value of a command that must succeed, with `--json`.
    pub(crate) fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.shows(&format!("{line} --json"))).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Runs `pantala LINE` in this process.
pub(crate) fn pantala(line: &str) -> Said {
    let (out, err) = (Page::default(), Page::default());
    let mut term = Term::new(Box::new(out.clone()), Box::new(err.clone()), false);
    let exit = run(format!("pantala {line}").split_whitespace().map(Into::into), &mut term);
    Said { exit, out: out.text(), err: err.text() }
}

#[derive(Clone, Default)]
pub(crate) struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A folder that is removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pantala-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
