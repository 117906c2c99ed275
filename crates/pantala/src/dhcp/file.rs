//! Small files that are replaced as a whole.

use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file that is, after a crash, either as before or new.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let mut file = std::fs::File::create(&name)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&name, path)
}
