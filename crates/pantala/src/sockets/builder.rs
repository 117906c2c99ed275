//! Sockets that are configured before they connect or listen, as `tokio::net::TcpSocket`.

/// The methods of such a socket under the same names in all interfaces.
macro_rules! tcp_socket {
    ($face:ident) => {
        /// A TCP socket that neither is connected nor listens yet, to set options before. Nothing is begun on the stack until
        /// [`Self::connect`] or [`Self::listen`]: these also report errors about the local address.
        ///
        /// There is no `set_reuseaddr`: connections in TIME-WAIT never keep a listener from their port.
        #[derive(Debug)]
        #[must_use = "nothing is begun before `connect` or `listen`"]
        pub struct $face {
            sockets: Sockets,
            /// The local address; unspecified until `bind`.
            local: Mutex<SocketAddr>,
            options: Mutex<Options>,
        }

        impl $face {
            /// A socket of IPv4.
            ///
            /// # Errors
            ///
            /// None; it returns a result as `tokio::net` does, as do those that follow and have none.
            pub fn new_v4(sockets: &Sockets) -> io::Result<Self> {
                Ok(Self::new(sockets, Ipv4Addr::UNSPECIFIED.into()))
            }

            /// A socket of IPv6.
            ///
            /// # Errors
            ///
            /// None.
            pub fn new_v6(sockets: &Sockets) -> io::Result<Self> {
                Ok(Self::new(sockets, Ipv6Addr::UNSPECIFIED.into()))
            }

            fn new(sockets: &Sockets, ip: IpAddr) -> Self {
                let local = Mutex::new(SocketAddr::new(ip, 0));
                Self { sockets: sockets.clone(), local, options: Mutex::default() }
            }

            /// Sets the local address: of [`Self::connect`] the source, of [`Self::listen`] the place. Port 0 is any.
            ///
            /// # Errors
            ///
            /// `EAFNOSUPPORT` of the other family.
            pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
                self.check_family(addr)?;
                *lock(&self.local) = addr;
                Ok(())
            }

            /// Returns the local address as it was set.
            ///
            /// # Errors
            ///
            /// None.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                Ok(*lock(&self.local))
            }

            /// Sends short segments without waiting for acknowledgments (`TCP_NODELAY`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
                self.change(|options| options.nodelay(nodelay))
            }

            /// Sets the bytes that may wait to be acknowledged, besides those in the socket's ring (`SO_SNDBUF`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_send_buffer_size(&self, bytes: u32) -> io::Result<()> {
                self.change(|options| options.send_buffer_size(bytes))
            }

            /// Sets the bytes that may wait to be read, besides those in the socket's ring (`SO_RCVBUF`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_recv_buffer_size(&self, bytes: u32) -> io::Result<()> {
                self.change(|options| options.recv_buffer_size(bytes))
            }

            /// Lets other listeners that also say so share the address and port (`SO_REUSEPORT`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_reuseport(&self, reuse: bool) -> io::Result<()> {
                self.change(|options| options.reuse_port(reuse))
            }

            /// Refuses IPv4 connections at a listener of the unspecified IPv6 address (`IPV6_V6ONLY`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_only_v6(&self, only: bool) -> io::Result<()> {
                self.change(|options| options.only_v6(only))
            }

            /// Sets keepalive probes of idle connections (`SO_KEEPALIVE`). Values out of range are refused by `connect` and
            /// `listen`.
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_keepalive(&self, keepalive: Option<KeepAlive>) -> io::Result<()> {
                self.change(|options| options.keepalive(keepalive))
            }

            /// Sets the time after which unacknowledged data ends the connection (`TCP_USER_TIMEOUT`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
                self.change(|options| options.user_timeout(timeout))
            }

            /// Sets the time to live or hop limit of packets (`IP_TTL`, `IPV6_UNICAST_HOPS`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
                self.change(|options| options.ttl(ttl))
            }

            /// Sets the type of service or traffic class of packets (`IP_TOS`, `IPV6_TCLASS`).
            ///
            /// # Errors
            ///
            /// None.
            pub fn set_tos(&self, tos: u8) -> io::Result<()> {
                self.change(|options| options.tos(tos))
            }

            fn change(&self, how: impl FnOnce(Options) -> Options) -> io::Result<()> {
                let mut options = lock(&self.options);
                *options = how(core::mem::take(&mut *options));
                drop(options);
                Ok(())
            }

            fn check_family(&self, addr: SocketAddr) -> io::Result<()> {
                match lock(&self.local).is_ipv4() == addr.is_ipv4() {
                    true => Ok(()),
                    false => Err(error::family()),
                }
            }

            /// The options of a connection to `remote`.
            fn connects(&self, remote: SocketAddr) -> io::Result<Options> {
                self.check_family(remote)?;
                let local = *lock(&self.local);
                Ok(lock(&self.options).clone().local(local))
            }

            /// The address and options of a listener.
            fn listens(&self, backlog: u32) -> (SocketAddr, Options) {
                let local = *lock(&self.local);
                (local, lock(&self.options).clone().backlog(backlog))
            }
        }
    };
}
pub(super) use tcp_socket;
