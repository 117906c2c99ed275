//! Headers of datagrams in files, for a program whose calls a supervisor answers (`pantala run --any`).
//!
//! A call that the supervisor does not meet, such as `read`, has to find the datagram alone. So its header is in a file in memory, whose
//! descriptor comes with the message: the supervisor reads it, and other calls leave it.

use core::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, pwrite};
use wire::program::{HEAD_LEN, Head};

/// Files of a socket at the most: a file serves all datagrams with this header.
const FILES_MAX: usize = 32;

/// The files of a socket, by what is in them.
#[derive(Default)]
pub(super) struct Heads(RefCell<HashMap<[u8; HEAD_LEN], Rc<OwnedFd>>>);

impl Heads {
    /// Returns the file with this header.
    ///
    /// # Errors
    /// There is no descriptor or no memory for it.
    pub(super) fn file(&self, head: &Head) -> Result<Rc<OwnedFd>, Errno> {
        let mut files = self.0.borrow_mut();
        let bytes = head.emit();
        if let Some(file) = files.get(&bytes) {
            return Ok(Rc::clone(file));
        }
        if files.len() >= FILES_MAX {
            files.clear();
        }
        let file = Rc::new(make(&bytes)?);
        files.insert(bytes, Rc::clone(&file));
        Ok(file)
    }
}

fn make(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let file = memfd_create("header", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    pwrite(&file, bytes, 0)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_headers_is_kept_and_none_can_be_changed() {
        let heads = Heads::default();
        let head = |port| Head::of(([192, 0, 2, 1], port).into());
        let first = heads.file(&head(1)).unwrap();
        assert!(Rc::ptr_eq(&first, &heads.file(&head(1)).unwrap()), "it is used again");
        for port in 0..1000 {
            let file = heads.file(&head(port)).unwrap();
            let mut bytes = [0; HEAD_LEN + 1];
            let count = rustix::io::pread(&*file, &mut bytes, 0).unwrap();
            assert_eq!(Head::parse(&bytes[..count]), Some(head(port)));
            assert_eq!(pwrite(&*file, &[1], 0), Err(Errno::PERM));
            assert!(heads.0.borrow().len() <= FILES_MAX);
        }
    }
}
