//! The messages of the control channel, bytes ⇄ values.
//!
//! A message is 128 bytes: its type, and behind it fields without padding, in the byte order of the machine that both
//! ends share. Descriptors travel beside it. What a field means, and whether it is believed, is decided elsewhere.

use core::fmt;

/// Bytes of every message.
pub const LEN: usize = 128;
/// The version that is spoken: 2.0.
pub const VERSION: u16 = 0x0200;
/// [`Init::mode`] for frames with an Ethernet header.
pub const ETHERNET: u8 = 0;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Msg {
    /// The master has taken what the slave sent last.
    Ack,
    /// Master: what it can.
    Hello(Hello),
    /// Slave: which interface it wants.
    Init(Init),
    /// Slave: memory, whose file comes along.
    AddRegion(AddRegion),
    /// Slave: a ring in that memory, whose eventfd comes along.
    AddRing(AddRing),
    /// Slave: that was all.
    Connect(Name),
    /// Master: frames may flow.
    Connected(Name),
    /// Either: it is over.
    Disconnect {
        /// A number, if the peer has one for it.
        code: u32,
        /// Why.
        why: Text<96>,
    },
}

/// Capabilities of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The program.
    pub name: Name,
    /// The oldest version that it speaks.
    pub min_version: u16,
    /// The newest.
    pub max_version: u16,
    /// The highest number that a region may have.
    pub max_region: u16,
    /// The highest number that a ring from master to slave may have.
    pub max_m2s_ring: u16,
    /// The highest number that a ring from slave to master may have.
    pub max_s2m_ring: u16,
    /// The binary logarithm of the longest ring.
    pub max_log2_ring_size: u8,
}

/// Request of a slave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// The version that is to be spoken.
    pub version: u16,
    /// Which of the master's interfaces.
    pub id: u32,
    /// Frame format: [`ETHERNET`].
    pub mode: u8,
    /// The shared secret, or nothing.
    pub secret: Text<24>,
    /// The program.
    pub name: Name,
}

/// Memory of the slave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRegion {
    /// Its number.
    pub index: u16,
    /// Bytes.
    pub size: u64,
}

/// A ring of the slave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRing {
    /// Which way frames go in it.
    pub direction: Direction,
    /// Its number among those of its direction.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Where it begins there, bytes.
    pub offset: u32,
    /// The binary logarithm of the number of its descriptors.
    pub log2_size: u8,
    /// Bytes in front of each frame that both ends agreed on.
    pub private_header: u16,
}

/// Which way frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the slave to the master.
    ToMaster,
    /// From the master to the slave.
    ToSlave,
}

/// The name of a program or an interface.
pub type Name = Text<32>;

/// Text in a field of a fixed length: what comes before the first zero byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

/// An invalid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMessage {
    /// It has so many bytes.
    Length(usize),
    /// Unknown type.
    Type(u16),
}

const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;
/// Flag of [`AddRing`]: frames go to the master.
const TO_MASTER: u16 = 1;

impl Msg {
    /// Reads a message.
    ///
    /// # Errors
    /// [`NoMessage`]. What lies behind the fields is not looked at.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoMessage> {
        let bytes = bytes.try_into().map_err(|_| NoMessage::Length(bytes.len()))?;
        let mut fields = Fields { bytes, at: 0 };
        match fields.u16() {
            ACK => Ok(Self::Ack),
            HELLO => Ok(Self::Hello(fields.hello())),
            INIT => Ok(Self::Init(fields.init())),
            ADD_REGION => Ok(Self::AddRegion(AddRegion { index: fields.u16(), size: fields.u64() })),
            ADD_RING => Ok(Self::AddRing(fields.add_ring())),
            CONNECT => Ok(Self::Connect(fields.text())),
            CONNECTED => Ok(Self::Connected(fields.text())),
            DISCONNECT => Ok(Self::Disconnect { code: fields.u32(), why: fields.text() }),
            other => Err(NoMessage::Type(other)),
        }
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = Writer { bytes: [0; LEN], at: 0 };
        match self {
            Self::Ack => out.u16(ACK),
            Self::Hello(hello) => out.hello(hello),
            Self::Init(init) => out.init(init),
            Self::AddRegion(AddRegion { index, size }) => out.u16(ADD_REGION).u16(*index).u64(*size),
            Self::AddRing(ring) => out.add_ring(ring),
            Self::Connect(name) => out.u16(CONNECT).text(name),
            Self::Connected(name) => out.u16(CONNECTED).text(name),
            Self::Disconnect { code, why } => out.u16(DISCONNECT).u32(*code).text(why),
        };
        out.bytes
    }

    /// Returns its name.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::Hello(_) => "HELLO",
            Self::Init(_) => "INIT",
            Self::AddRegion(_) => "ADD_REGION",
            Self::AddRing(_) => "ADD_RING",
            Self::Connect(_) => "CONNECT",
            Self::Connected(_) => "CONNECTED",
            Self::Disconnect { .. } => "DISCONNECT",
        }
    }
}

impl<const N: usize> Text<N> {
    /// As much of `text` as fits with a zero byte behind it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(text.bytes().take(N - 1)).for_each(|(to, from)| *to = from);
        Self(bytes)
    }

    /// Returns the bytes before the first zero.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Only what is printable: a peer does not write on our operator's terminal.
impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = |byte: u8| if byte == b' ' || byte.is_ascii_graphic() { byte } else { b'?' };
        self.bytes().iter().try_for_each(|&byte| write!(f, "{}", char::from(printable(byte))))
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Takes fields from the front of a message.
struct Fields<'a> {
    bytes: &'a [u8; LEN],
    at: usize,
}

impl Fields<'_> {
    /// Every message's fields end before its bytes do; a field that did not would be zero.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        self.at += N;
        field.copied().unwrap_or([0; N])
    }

    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn text<const N: usize>(&mut self) -> Text<N> {
        Text(self.take())
    }

    fn hello(&mut self) -> Hello {
        Hello {
            name: self.text(),
            min_version: self.u16(),
            max_version: self.u16(),
            max_region: self.u16(),
            max_m2s_ring: self.u16(),
            max_s2m_ring: self.u16(),
            max_log2_ring_size: self.u8(),
        }
    }

    fn init(&mut self) -> Init {
        Init { version: self.u16(), id: self.u32(), mode: self.u8(), secret: self.text(), name: self.text() }
    }

    fn add_ring(&mut self) -> AddRing {
        let to_master = self.u16() & TO_MASTER != 0;
        AddRing {
            direction: if to_master { Direction::ToMaster } else { Direction::ToSlave },
            index: self.u16(),
            region: self.u16(),
            offset: self.u32(),
            log2_size: self.u8(),
            private_header: self.u16(),
        }
    }
}

/// Adds fields behind those that a message has.
struct Writer {
    bytes: [u8; LEN],
    at: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, field: [u8; N]) -> &mut Self {
        if let Some(to) = self.bytes.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut()) {
            *to = field;
        }
        self.at += N;
        self
    }

    fn u8(&mut self, field: u8) -> &mut Self {
        self.put(field.to_ne_bytes())
    }

    fn u16(&mut self, field: u16) -> &mut Self {
        self.put(field.to_ne_bytes())
    }

    fn u32(&mut self, field: u32) -> &mut Self {
        self.put(field.to_ne_bytes())
    }

    fn u64(&mut self, field: u64) -> &mut Self {
        self.put(field.to_ne_bytes())
    }

    fn text<const N: usize>(&mut self, field: &Text<N>) -> &mut Self {
        self.put(field.0)
    }

    fn hello(&mut self, hello: &Hello) -> &mut Self {
        self.u16(HELLO)
            .text(&hello.name)
            .u16(hello.min_version)
            .u16(hello.max_version)
            .u16(hello.max_region)
            .u16(hello.max_m2s_ring)
            .u16(hello.max_s2m_ring)
            .u8(hello.max_log2_ring_size)
    }

    fn init(&mut self, init: &Init) -> &mut Self {
        self.u16(INIT).u16(init.version).u32(init.id).u8(init.mode).text(&init.secret).text(&init.name)
    }

    fn add_ring(&mut self, ring: &AddRing) -> &mut Self {
        let flags = if ring.direction == Direction::ToMaster { TO_MASTER } else { 0 };
        self.u16(ADD_RING)
            .u16(flags)
            .u16(ring.index)
            .u16(ring.region)
            .u32(ring.offset)
            .u8(ring.log2_size)
            .u16(ring.private_header)
    }
}

/// Property of any bytes: they are parsed without a panic, and a parsed message is emitted and parsed the same.
#[doc(hidden)]
pub fn any_bytes(bytes: &[u8]) {
    if let Ok(msg) = Msg::decode(bytes) {
        assert_eq!(Msg::decode(&msg.encode()).as_ref(), Ok(&msg), "{}", msg.word());
    } else {
        assert!(
            bytes.len() != LEN || !(ACK..=DISCONNECT).contains(&u16::from_ne_bytes([bytes[0], bytes[1]]))
        );
    }
}

#[cfg(test)]
mod tests;
