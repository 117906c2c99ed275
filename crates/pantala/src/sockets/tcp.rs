//! Methods of connections under the same names in all interfaces.

/// The options of a connection. `$stream` is what a face has of it.
macro_rules! tcp_options {
    ($face:ident, |$own:ident| $stream:expr) => {
        impl core::fmt::Debug for $face {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let ends = self.own().ends();
                let (local, peer) =
                    (ends.as_ref().map(|ends| ends.local()), ends.as_ref().map(|ends| ends.remote()));
                let mut shown = f.debug_struct(stringify!($face));
                shown.field("addr", &local.ok()).field("peer", &peer.ok()).finish()
            }
        }

        impl $face {
            /// Short segments do not wait for an acknowledgment.
            ///
            /// # Errors
            ///
            /// None; it returns a result as the kernel's sockets do, as do those that follow and have none.
            pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
                self.set(&[Setting::NoDelay(nodelay)])
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn nodelay(&self) -> io::Result<bool> {
                Ok(self.own().like().nodelay)
            }

            /// Time to live, or hop limit, of what is sent.
            ///
            /// # Errors
            ///
            /// `InvalidInput` of 0 over IPv4.
            pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
                self.set(&[Setting::Hops(ttl.into())])
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn ttl(&self) -> io::Result<u8> {
                Ok(self.own().like().tx_params.hops)
            }

            /// Type of service, or traffic class, of what is sent. Its two low bits are the connection's own.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_tos(&self, tos: u8) -> io::Result<()> {
                self.set(&[Setting::Class(tos.into())])
            }

            /// Returns the option as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn tos(&self) -> io::Result<u8> {
                Ok(self.own().like().tx_params.class)
            }

            /// Sets keepalive: a silent peer is probed, and a dead one is given up with `TimedOut`.
            ///
            /// # Errors
            ///
            /// `InvalidInput` of what [`KeepAlive`] says.
            pub fn set_keepalive(&self, keepalive: Option<KeepAlive>) -> io::Result<()> {
                self.set(&keep(keepalive))
            }

            /// Bytes that may wait to be acknowledged, besides those in the socket's ring (`SO_SNDBUF`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_send_buffer_size(&self, bytes: u32) -> io::Result<()> {
                self.set(&[Setting::SendBuffer(bytes)])
            }

            /// Bytes that may wait to be read, besides those in the socket's ring (`SO_RCVBUF`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_recv_buffer_size(&self, bytes: u32) -> io::Result<()> {
                self.set(&[Setting::ReceiveBuffer(bytes)])
            }

            /// With no time at all the connection is reset when it is dropped, and what has not arrived does not. Else what
            /// was written still goes, without a waiting caller: to drop a socket never blocks.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
                self.own().set_aborts(linger.is_some_and(|linger| linger.is_zero()));
                Ok(())
            }

            fn set(&self, settings: &[Setting]) -> io::Result<()> {
                self.own().set(settings)
            }

            fn own(&self) -> &Stream {
                let $own = self;
                $stream
            }
        }
    };
}
pub(super) use tcp_options;
