//! Artefacts of a failed world.

use std::io;
use std::path::{Path, PathBuf};

use super::World;

impl World {
    /// Ends the world: comes to rest, and checks.
    ///
    /// # Panics
    ///
    /// If anything is broken. It then says how to see it again, and leaves what its cables carried.
    #[track_caller]
    pub fn finish(mut self) {
        let broken = self.check();
        let text: Vec<_> =
            broken.iter().map(|broken| format!("{:?}: {}", broken.check, broken.text)).collect();
        assert!(broken.is_empty(), "{}", text.join("\n"));
        self.finished = true;
    }

    /// Ends a world that is meant to be broken, without a word.
    pub fn forget(mut self) {
        self.finished = true;
    }

    /// A number that follows from every frame on every cable: two runs were the same if it is.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.cables.iter().fold(0, |digest: u64, cable| digest.rotate_left(7) ^ cable.tape.digest())
    }

    /// Writes a capture file for each cable.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write_captures(&self) -> io::Result<PathBuf> {
        let folder = target().join("worlds").join(format!("{}-{}", self.name, self.seed));
        std::fs::create_dir_all(&folder)?;
        for (at, cable) in self.cables.iter().enumerate() {
            cable.tape.write(&folder.join(format!("cable{at}.pcap")))?;
        }
        Ok(folder)
    }

    /// Each host's drops, for a person.
    #[must_use]
    pub fn drops(&self) -> String {
        let hosts = self.hosts.iter().map(|host| {
            let drops =
                host.drops().into_iter().map(|(reason, count)| format!("  {count:>8} {}", reason.sentence()));
            [format!("{}:", host.spec.name)].into_iter().chain(drops).collect::<Vec<_>>().join("\n")
        });
        hosts.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for World {
    /// A world in which a test fails says how to see it again.
    #[expect(clippy::print_stderr, reason = "for the person who reads the failed test")]
    fn drop(&mut self) {
        if self.finished || !std::thread::panicking() {
            return;
        }
        let (name, seed, at) = (&self.name, self.seed, self.now.ns());
        eprintln!("world {name}, seed {seed}, at {at} ns of its time, after {} turns", self.turns);
        eprintln!("again: PANTALA_SEED={seed} cargo test -p sim {name}");
        eprintln!("{}", self.drops());
        match self.write_captures() {
            Ok(folder) => eprintln!("captures: {}", folder.display()),
            Err(error) => eprintln!("no captures: {error}"),
        }
    }
}

/// The build's folder, which is ignored by git.
fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}
