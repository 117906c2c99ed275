//! `xdp = "prog.o"`: an XDP program of an interface, read from an object file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dev::xdp::object::{FILE_MAX, Object};
use dev::xdp::vm::InProcess;

use super::device::Device;
use super::draft::DraftInterface;
use super::problem::{Report, Wrong};

/// The XDP program of an interface. Two are the same if their files have the same contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xdp {
    /// The object file.
    pub file: PathBuf,
    /// The program.
    pub object: Arc<Object>,
}

impl Xdp {
    /// Reads `FILE` or `FILE:PROGRAM`.
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        const HELP: &str = "write the object file, and behind a colon which of several programs: xdp = \"/etc/pantala/prog.o:drop\"";
        let (file, program) =
            text.split_once(':').map_or((text, None), |(file, program)| (file, Some(program)));
        if file.is_empty() || program == Some("") {
            return Err(Wrong::new(format!("`{text}` names no XDP program"), HELP));
        }
        let bytes = read(Path::new(file)).map_err(|why| Wrong::new(format!("{file}: {why}"), HELP))?;
        let object =
            Object::parse(&bytes, program).map_err(|why| Wrong::new(format!("{file}: {why}"), HELP))?;
        Ok(Self { file: file.into(), object: Arc::new(object) })
    }
}

/// Reads a file, unless it is too large to be a program.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(std::io::Error::other("larger than 16 MiB"));
    }
    Ok(bytes)
}

/// A program needs frames, and outside of the kernel it has fewer maps and helpers.
pub(in crate::config) fn check(draft: &DraftInterface, report: &mut Report<'_>) {
    let (Some(xdp), Some(device)) = (&draft.xdp, &draft.device) else { return };
    match &device.value {
        Device::AfXdp { .. } => {}
        Device::Tun { .. } => report.add(
            &xdp.span,
            "XDP programs see Ethernet frames, and a TUN has none",
            "use a TAP (device = \"tap:NAME\"), or remove this line",
        ),
        // Refused as a key of a device with rings.
        device if device.is_logical() => {}
        _ => {
            if let Err(why) = InProcess::check(&xdp.value.object) {
                let file = xdp.value.file.display();
                report.add(
                    &xdp.span,
                    format!("{file}: {why}"),
                    "without AF_XDP a program runs in this process, with the maps and helpers of docs/guide/XDP-PROGRAMS.md",
                );
            }
        }
    }
}
