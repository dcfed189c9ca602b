//! Captures of a network in the classic format of tcpdump: the TCP segments in them.
//!
//! Format: `pcap-savefile(5)`. A header says the byte order and what stands in front of the IP packets. A record for each packet
//! follows. Invariant: bytes that are no capture give an error, and only one packet is in memory at a time.
//! Not here: the order of segments (`streams`).

use std::{
    fmt,
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

/// The longest packet. Source: libpcap, `MAXIMUM_SNAPLEN`.
const LONGEST: u32 = 262_144;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// A tag of a virtual network in front of the real type: 802.1Q, 802.1ad.
const ETHERTYPE_TAGS: [u16; 2] = [0x8100, 0x88a8];
const TCP: u8 = 6;

/// Why a capture cannot be read further.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The file cannot be read.
    Io(io::Error),
    /// It is in the newer format.
    NewFormat,
    /// What stands in front of IP packets is not known.
    LinkType(u32),
    /// This record is not one.
    Record(u64),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NewFormat => f.write_str(
                "a capture in the format pcapng; `tcpdump -r FILE -w NEW` writes the classic one",
            ),
            Self::LinkType(number) => write!(
                f,
                "the link type {number} is not known: Ethernet, loopback, Linux cooked and raw IP are"
            ),
            Self::Record(number) => write!(f, "packet {number} of the capture is damaged"),
        }
    }
}

/// What stands in front of an IP packet. Source: `pcap-linktype(7)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Ethernet,
    /// So many bytes, and then IP.
    Before(usize),
    /// So many bytes with the type at this offset.
    Typed {
        length: usize,
        at: usize,
    },
}

impl Link {
    fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            0 | 108 => Some(Self::Before(4)), // BSD's loopback: a family of addresses
            12 | 14 | 101 | 228 | 229 => Some(Self::Before(0)), // raw IP
            113 => Some(Self::Typed { length: 16, at: 14 }), // Linux cooked
            276 => Some(Self::Typed { length: 20, at: 0 }), // Linux cooked, version 2
            _ => None,
        }
    }

    /// The IP packet in a packet.
    fn ip(self, packet: &[u8]) -> Option<&[u8]> {
        let (kind, rest) = match self {
            Self::Before(length) => return packet.get(length..),
            Self::Typed { length, at } => (u16_at(packet, at)?, packet.get(length..)?),
            Self::Ethernet => {
                let (mut kind, mut rest) = (u16_at(packet, 12)?, packet.get(14..)?);
                while ETHERTYPE_TAGS.contains(&kind) {
                    (kind, rest) = (u16_at(rest, 2)?, rest.get(4..)?);
                }
                (kind, rest)
            }
        };
        [ETHERTYPE_IPV4, ETHERTYPE_IPV6]
            .contains(&kind)
            .then_some(rest)
    }
}

/// A part of a TCP stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// The number of the first byte; of a SYN, if there is one, which counts as a byte.
    pub(super) sequence: u32,
    pub(super) flags: Flags,
    pub(super) data: &'a [u8],
}

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags(pub(super) u8);

impl Flags {
    pub(super) const FIN: Self = Self(1);
    pub(super) const SYN: Self = Self(2);
    pub(super) const RST: Self = Self(4);
    pub(super) const ACK: Self = Self(16);

    pub(super) fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }
}

/// A capture that is being read.
#[derive(Debug)]
pub(super) struct Capture<R> {
    input: R,
    big_endian: bool,
    nanoseconds: bool,
    link: Link,
    /// The number of packets so far.
    packets: u64,
    packet: Vec<u8>,
}

/// Whether a file that begins so is a capture.
pub(super) fn is_capture(magic: [u8; 4]) -> bool {
    order(magic).is_some() || magic == NEW_FORMAT
}

/// The magic number of pcapng.
const NEW_FORMAT: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Whether numbers are big-endian, and whether times are in nanoseconds.
fn order(magic: [u8; 4]) -> Option<(bool, bool)> {
    match u32::from_be_bytes(magic) {
        0xa1b2_c3d4 => Some((true, false)),
        0xd4c3_b2a1 => Some((false, false)),
        0xa1b2_3c4d => Some((true, true)),
        0x4d3c_b2a1 => Some((false, true)),
        _ => None,
    }
}

impl<R: Read> Capture<R> {
    /// Reads the header, which begins with these bytes.
    pub(super) fn open(magic: [u8; 4], mut input: R) -> Result<Self, Problem> {
        let (big_endian, nanoseconds) = order(magic).ok_or(Problem::NewFormat)?;
        let mut header = [0; 20];
        input.read_exact(&mut header).map_err(Problem::Io)?;
        let [.., a, b, c, d] = header;
        // The upper bits say how long check sums are, which follow the packets.
        let number = number(big_endian, [a, b, c, d]) & 0xffff;
        Ok(Self {
            input,
            big_endian,
            nanoseconds,
            link: Link::of(number).ok_or(Problem::LinkType(number))?,
            packets: 0,
            packet: Vec::new(),
        })
    }

    /// The next packet: its time since 1970, and the segment in it if it is TCP. `None` at the end, which may be in a packet: who
    /// makes a capture stops at any time.
    pub(super) fn next(&mut self) -> Result<Option<(Duration, Option<Segment<'_>>)>, Problem> {
        let mut header = [0; 16];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        self.packets += 1;
        let [s1, s2, s3, s4, f1, f2, f3, f4, l1, l2, l3, l4, ..] = header;
        let number = |bytes| number(self.big_endian, bytes);
        let (seconds, fraction) = (number([s1, s2, s3, s4]), number([f1, f2, f3, f4]));
        let length = number([l1, l2, l3, l4]);
        if length > LONGEST {
            return Err(Problem::Record(self.packets));
        }
        let scale = if self.nanoseconds { 1 } else { 1000 };
        let nanoseconds = Duration::from_nanos(u64::from(fraction) * scale);
        let time = Duration::from_secs(u64::from(seconds)) + nanoseconds;
        let mut packet = std::mem::take(&mut self.packet);
        packet.resize(usize::try_from(length).unwrap_or(0), 0);
        let is_whole = self.fill(&mut packet)?;
        self.packet = packet;
        let ip = self.link.ip(&self.packet);
        Ok(is_whole.then(|| (time, ip.and_then(segment))))
    }

    /// Fills the buffer. `false` if the file ends before.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, Problem> {
        match self.input.read_exact(buffer) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Problem::Io(error)),
        }
    }
}

fn number(big_endian: bool, bytes: [u8; 4]) -> u32 {
    if big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// The segment in an IP packet; `None` if it is not TCP, or only a fragment.
fn segment(packet: &[u8]) -> Option<Segment<'_>> {
    match packet.first()? >> 4 {
        4 => ipv4(packet),
        6 => ipv6(packet),
        _ => None,
    }
}

/// Source: RFC 791.
fn ipv4(packet: &[u8]) -> Option<Segment<'_>> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let is_fragment = u16_at(packet, 6)? & 0x3fff != 0;
    if header < 20 || is_fragment || *packet.get(9)? != TCP {
        return None;
    }
    let address = |at: usize| Some(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?));
    let (from, to) = (address(12)?, address(16)?);
    // Zero stands for a packet that the network card would have cut into pieces.
    let end = match usize::from(u16_at(packet, 2)?) {
        0 => packet.len(),
        length => length.min(packet.len()),
    };
    tcp(from.into(), to.into(), packet.get(header..end)?)
}

/// Source: RFC 8200.
fn ipv6(packet: &[u8]) -> Option<Segment<'_>> {
    let address = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?));
    let (from, to) = (address(8)?, address(24)?);
    let mut next = *packet.get(6)?;
    let rest = packet.get(40..)?;
    let mut rest = match usize::from(u16_at(packet, 4)?) {
        0 => rest,
        length => rest.get(..length.min(rest.len()))?,
    };
    while next != TCP {
        let length = match next {
            0 | 43 | 60 => (usize::from(*rest.get(1)?) + 1) * 8, // options, routing
            44 if u16_at(rest, 2)? & 0xfff9 == 0 => 8,           // a fragment that is the whole
            51 => (usize::from(*rest.get(1)?) + 2) * 4,          // authentication
            _ => return None,
        };
        (next, rest) = (*rest.first()?, rest.get(length..)?);
    }
    tcp(from.into(), to.into(), rest)
}

/// Source: RFC 9293.
fn tcp(from: IpAddr, to: IpAddr, bytes: &[u8]) -> Option<Segment<'_>> {
    let header = usize::from(bytes.get(12)? >> 4) * 4;
    if header < 20 {
        return None;
    }
    Some(Segment {
        from: SocketAddr::new(from, u16_at(bytes, 0)?),
        to: SocketAddr::new(to, u16_at(bytes, 2)?),
        sequence: u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?),
        flags: Flags(*bytes.get(13)?),
        data: bytes.get(header..)?,
    })
}
