//! The thread that reads files. It is the only one that waits for a disk, and it opens nothing outside of its folder:
//! the kernel follows no name and no link that leads out (`openat2`, `RESOLVE_BENEATH`).

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use net::app::AppId;
use net::msg::{Msg, Remote};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::conditional::Validator;
use super::{mime, response};
use crate::config::Seccomp;
use crate::daemon::privileges::{self, Role};
use crate::descriptors::{self, For};

/// Bytes of a file that are read at once, at the most. Shorter files are whole, and remembered.
pub(super) const PIECE: u64 = 256 << 10;
/// Bytes of a longer file that are read first: its reader may be slow.
pub(super) const FIRST: u64 = 64 << 10;
/// Bytes that are read at once for a slow reader, or where there is little memory.
pub(super) const PIECE_LEAST: u64 = 16 << 10;
/// Names of a folder that are shown at the most.
const NAMES_MAX: usize = 10_000;
/// The index page of a folder.
const INDEX: &[u8] = b"index.html";

/// Asks for something.
pub(crate) struct FileRequest {
    /// Index of the CPU that asks.
    pub(super) client: usize,
    pub(super) program: AppId,
    pub(super) ticket: Ticket,
    pub(super) what: ReadRequest,
}

/// The address of a reply: a connection, and the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) key: u32,
    pub(super) serial: u32,
}

pub(super) enum ReadRequest {
    /// A file or folder by its name.
    Find { name: Vec<u8> },
    /// More of a file, from a position on: so many bytes, if they are there.
    Read { file: Arc<File>, at: u64, most: u64 },
}

/// The reply to an [`FileRequest`].
pub(crate) struct FileReply {
    pub(super) ticket: Ticket,
    pub(super) found: Result<Found, u16>,
}

pub(super) enum Found {
    Page(Arc<Page>),
    /// Its name lacks the slash of a folder.
    Elsewhere(String),
    Piece(Arc<[u8]>),
}

/// A file, or what is shown of a folder.
pub(super) struct Page {
    pub(super) mime: &'static str,
    pub(super) len: u64,
    /// The validator of its version; generated pages have none.
    pub(super) validator: Option<Validator>,
    /// Its first bytes, all of them if there is no more.
    pub(super) first: Arc<[u8]>,
    /// Where the others are.
    pub(super) file: Option<Arc<File>>,
    /// Header fields of the whole page.
    pub(super) fields: Box<str>,
}

impl Page {
    /// Makes a page of `len` bytes, of which `first` are in memory and the others in `file`.
    pub(super) fn new(
        mime: &'static str,
        len: u64,
        validator: Option<Validator>,
        first: Arc<[u8]>,
        file: Option<Arc<File>>,
    ) -> Self {
        let fields = response::fields(mime, len, validator.as_ref());
        Self { mime, len, validator, first, file, fields }
    }
}

/// The way to the program on one CPU.
pub(crate) struct FileRequests {
    remote: Remote,
    answers: Sender<FileReply>,
    /// It has been called, and has not looked yet.
    is_rung: Arc<AtomicBool>,
}

/// The program's side of it.
pub(crate) struct FileClient {
    pub(super) place: usize,
    pub(super) asks: Sender<FileRequest>,
    pub(super) answers: Receiver<FileReply>,
    is_rung: Arc<AtomicBool>,
}

/// A folder, and the netisrs that request its files.
pub(crate) struct FileReader {
    folder: OwnedFd,
    /// Its thread acts as root.
    is_root: bool,
    asks: Receiver<FileRequest>,
    replies: Vec<FileRequests>,
}

impl FileReader {
    /// Opens a folder for programs on the CPUs of these remotes, and starts its thread, which ends with the last of them.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is none.
    pub(crate) fn open(
        folder: &Path,
        remotes: Vec<Remote>,
        seccomp: Seccomp,
    ) -> io::Result<(Vec<FileClient>, JoinHandle<()>)> {
        let folder = open(folder)?;
        let (sender, asks) = channel();
        let (mut replies, mut clients) = (Vec::new(), Vec::new());
        for (place, remote) in remotes.into_iter().enumerate() {
            let (answers, answered) = channel();
            let is_rung = Arc::<AtomicBool>::default();
            clients.push(FileClient {
                place,
                asks: sender.clone(),
                answers: answered,
                is_rung: Arc::clone(&is_rung),
            });
            replies.push(FileRequests { remote, answers, is_rung });
        }
        let library = Self { folder, is_root: geteuid().is_root(), asks, replies };
        let run = move || library.run(seccomp);
        let thread = std::thread::Builder::new().name("library".to_owned()).spawn(run)?;
        Ok((clients, thread))
    }

    fn run(self, seccomp: Seccomp) {
        privileges::drop_all_and_confine(Role::Reader, seccomp);
        for FileRequest { client, program, ticket, what } in &self.asks {
            let found = match what {
                ReadRequest::Find { name } => self.find(&name),
                ReadRequest::Read { file, at, most } => read(&file, at, most.min(PIECE)).map(Found::Piece),
            };
            let found = found.map_err(|why| status(&why));
            if let Some(client) = self.replies.get(client) {
                client.answer(program, FileReply { ticket, found });
            }
        }
    }

    fn find(&self, name: &[u8]) -> io::Result<Found> {
        let (path, is_folder) = name.strip_suffix(b"/").map_or((name, false), |path| (path, true));
        let file = self.open_below(path)?;
        let about = file.metadata()?;
        if self.is_root && !is_for_all(&about) {
            return Err(Errno::ACCESS.into());
        }
        match (about.is_dir(), is_folder) {
            (true, true) => self.folder(path, file).map(Found::Page),
            (true, false) => Ok(Found::Elsewhere(format!("/{}/", response::encoded(path)))),
            (false, true) => Err(Errno::NOTDIR.into()),
            (false, false) if about.is_file() => page(file, path).map(Found::Page),
            (false, false) => Err(Errno::ACCESS.into()),
        }
    }

    /// Its index, or what is in it.
    fn folder(&self, path: &[u8], folder: File) -> io::Result<Arc<Page>> {
        let index = [path, INDEX].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/');
        match self.open_below(&index) {
            Ok(file) if file.metadata()?.is_file() => {
                if self.is_root && !is_for_all(&file.metadata()?) {
                    return Err(Errno::ACCESS.into());
                }
                page(file, INDEX)
            }
            // One that is there and may not be read is no reason to show its neighbours.
            Err(why) if Errno::from_io_error(&why) == Some(Errno::ACCESS) => Err(why),
            _ => Ok(made(response::listing(path, &names(folder)?))),
        }
    }

    fn open_below(&self, path: &[u8]) -> io::Result<File> {
        let path = if path.is_empty() { b"." } else { path };
        // A FIFO without a writer is opened without waiting, and then refused.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = openat2(&self.folder, path, flags, Mode::empty(), resolve)?;
        // The last descriptors are not for strangers.
        if descriptors::is_of_the_reserve(&file, For::Visitors) {
            Err(Errno::MFILE.into())
        } else {
            Ok(File::from(file))
        }
    }
}

/// Whether everybody on the machine may read it. A thread of root's, as in a program of root's that embeds a stack, could
/// read much that is not meant for others.
fn is_for_all(about: &Metadata) -> bool {
    about.mode() & 0o004 != 0
}

/// Opens a folder to be served.
pub(super) fn open(folder: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A page that is made here.
pub(super) fn made(bytes: Vec<u8>) -> Arc<Page> {
    let (mime, len) = ("text/html; charset=utf-8", bytes.len() as u64);
    Arc::new(Page::new(mime, len, None, bytes.into(), None))
}

/// A page of bytes that the program has.
pub(super) fn held(name: &str, bytes: &[u8]) -> Arc<Page> {
    let (now, len) = (SystemTime::now(), bytes.len() as u64);
    let (mime, validator) = (mime::of(name.as_bytes()), Some(Validator::new(now, len, now)));
    Arc::new(Page::new(mime, len, validator, bytes.into(), None))
}

fn page(file: File, name: &[u8]) -> io::Result<Arc<Page>> {
    let about = file.metadata()?;
    let (file, len) = (Arc::new(file), about.len());
    let validator = about.modified().ok().map(|modified| Validator::new(modified, len, SystemTime::now()));
    let first = read(&file, 0, if len > PIECE { FIRST } else { PIECE })?;
    // Another process may be writing it.
    let first =
        first.get(..usize::try_from(len).unwrap_or(usize::MAX)).map_or_else(|| Arc::clone(&first), Arc::from);
    let rest = (len > first.len() as u64).then_some(file);
    Ok(Arc::new(Page::new(mime::of(name), len, validator, first, rest)))
}

/// Bytes of a file from `at` on: so many of them, or as many as there are.
fn read(file: &File, at: u64, most: u64) -> io::Result<Arc<[u8]>> {
    let left = file.metadata()?.len().saturating_sub(at).min(most);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(bytes.into())
}

/// Returns the names in a folder, without hidden ones, in order.
fn names(folder: File) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(folder)?.take(NAMES_MAX) {
        let entry = entry?;
        let mut name = entry.file_name().to_bytes().to_vec();
        if name.starts_with(b".") {
            continue;
        }
        if entry.file_type() == rustix::fs::FileType::Directory {
            name.push(b'/');
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// Maps an error to a status. A client learns only of files that it may read.
fn status(why: &io::Error) -> u16 {
    match Errno::from_io_error(why) {
        Some(Errno::ACCESS | Errno::PERM) => 403,
        // XDEV: the name, or a link, leads out.
        Some(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO) => {
            404
        }
        // All descriptors are in use.
        Some(Errno::MFILE | Errno::NFILE) => 503,
        _ => 500,
    }
}

impl FileRequests {
    /// Queues a reply, and wakes the application unless that was done since it last looked.
    fn answer(&self, program: AppId, answer: FileReply) {
        if self.answers.send(answer).is_err() || self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let call = || Msg::Call(Box::new(move |netisr: &mut net::netisr::Netisr| netisr.call(program)));
        // A full port is emptied in a turn: this thread may wait for it. One whose CPU has ended never is, but then the
        // application's half of the notifier has gone with it.
        while self.remote.send(call()).is_err() && Arc::strong_count(&self.is_rung) > 1 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl FileClient {
    /// One whose library is a test.
    #[cfg(test)]
    pub(super) fn alone() -> (Self, Receiver<FileRequest>, Sender<FileReply>) {
        let ((asks, asked), (answers, answered)) = (channel(), channel());
        (Self { place: 0, asks, answers: answered, is_rung: Arc::default() }, asked, answers)
    }

    /// Returns the next reply.
    pub(super) fn answered(&self) -> Option<FileReply> {
        self.answers.try_recv().ok()
    }

    /// From now on the bell is rung again. To be called before [`Self::answered`], so that nothing is missed.
    pub(super) fn looks(&self) {
        self.is_rung.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_thread_of_roots_serves_only_what_everybody_may_read() {
        let path = std::env::temp_dir().join(format!("pt-library-{}", std::process::id()));
        std::fs::create_dir_all(path.join("private")).unwrap();
        for (name, mode) in
            [("open", 0o644), ("secret", 0o600), ("group", 0o640), ("private/index.html", 0o600)]
        {
            std::fs::write(path.join(name), name).unwrap();
            std::fs::set_permissions(path.join(name), Permissions::from_mode(mode)).unwrap();
        }
        let folder = || rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let found = |is_root, name: &[u8]| {
            let library = FileReader { folder: folder(), is_root, asks: channel().1, replies: Vec::new() };
            library.find(name).map(drop).map_err(|why| status(&why))
        };
        assert_eq!(found(true, b"open"), Ok(()));
        for name in [&b"secret"[..], b"group", b"private/"] {
            assert_eq!(found(true, name), Err(403));
            assert_eq!(found(false, name), Ok(()), "its owner may");
        }
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn without_descriptors_a_client_is_told_to_come_again() {
        assert_eq!([Errno::MFILE, Errno::NFILE].map(|why| status(&why.into())), [503, 503]);
    }
}
