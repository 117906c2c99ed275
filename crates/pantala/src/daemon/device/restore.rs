//! The state of a kernel interface, to be put back when it is not used any more.

use std::io;

use dev::netlink::{LinkFlags, NetlinkError, Rtnetlink};
use dev::sys::napi::{Deferral, Deferring};

use super::super::log;

/// Changes of a kernel interface. Dropping it undoes them.
pub(crate) struct PutBack {
    netlink: Rtnetlink,
    host: String,
    set_up: bool,
    mtu: Option<u32>,
    queue_len: Option<u32>,
    deferral: Option<Deferring>,
}

impl PutBack {
    /// Undoes nothing: the interface is gone, and another may have its name.
    pub(crate) fn forsake(&mut self) {
        (self.set_up, self.mtu, self.queue_len, self.deferral) = (false, None, None, None);
    }

    /// Changes nothing yet.
    pub(crate) fn new(host: &str) -> Result<Self, NetlinkError> {
        Ok(Self {
            netlink: Rtnetlink::open()?,
            host: host.to_owned(),
            set_up: false,
            mtu: None,
            queue_len: None,
            deferral: None,
        })
    }

    /// Sets the interface up, if it is down.
    pub(crate) fn set_up(&mut self) -> Result<(), NetlinkError> {
        if !self.netlink.link(&self.host)?.flags.contains(LinkFlags::UP) {
            self.netlink.set_up(&self.host, true)?;
            self.set_up = true;
        }
        Ok(())
    }

    /// Sets its MTU, bytes.
    pub(crate) fn set_mtu(&mut self, mtu: u32) -> Result<(), NetlinkError> {
        let before = self.netlink.link(&self.host)?.mtu;
        if before != mtu {
            self.netlink.set_mtu(&self.host, mtu)?;
            self.mtu.get_or_insert(before);
        }
        Ok(())
    }

    /// Lets at least so many frames wait to be sent by it.
    pub(crate) fn lengthen_queue(&mut self, frames: u32) -> Result<(), NetlinkError> {
        let before = self.netlink.link(&self.host)?.queue_len;
        if before < frames {
            self.netlink.set_queue_len(&self.host, frames)?;
            self.queue_len.get_or_insert(before);
        }
        Ok(())
    }

    /// Lets it put its interrupts off while it is polled.
    pub(crate) fn defer_interrupts(&mut self) -> io::Result<()> {
        let index = self.netlink.link(&self.host).map_err(io::Error::other)?.index;
        self.deferral = Some(Deferral::POLLED.begin(&self.host, index)?);
        Ok(())
    }

    fn undo(&mut self) -> Result<(), NetlinkError> {
        if let Some(deferring) = &self.deferral
            && let Err(why) = deferring.put_back()
        {
            log::warning(&format!("{}: interrupt settings not restored: {why}", self.host));
        }
        if let Some(mtu) = self.mtu {
            self.netlink.set_mtu(&self.host, mtu)?;
        }
        if let Some(frames) = self.queue_len {
            self.netlink.set_queue_len(&self.host, frames)?;
        }
        if self.set_up { self.netlink.set_up(&self.host, false) } else { Ok(()) }
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        match self.undo() {
            // A TAP goes with its last queue, and anything may have been deleted by others.
            Ok(()) | Err(NetlinkError::NoSuchLink(_)) => {}
            Err(why) => log::warning(&format!("{} not restored: {why}", self.host)),
        }
    }
}
