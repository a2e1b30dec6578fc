//! DNS messages: one question in, one answer out.
//!
//! A total function of the packet. Nothing is resolved here; the caller says what a name has. Only
//! `A` of class `IN` has data. Every other type of an allowed name is empty, so that guests get no
//! keys for encrypted hellos (type 65) and no IPv6 addresses.

#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use silica_domain::DnsName;

/// The longest question that is read (RFC 1035, over UDP).
pub(crate) const PACKET_BYTES_MAX: usize = 512;

const HEADER_BYTES: usize = 12;
const TYPE_A: u16 = 1;
const CLASS_IN: u16 = 1;

/// How long a guest may keep an address: it stays valid as long as the sandbox lives.
const TTL_SECONDS: u32 = 60;

/// A question that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    id: [u8; 2],
    recursion_desired: bool,
    /// Name, type and class as they were sent.
    question: Vec<u8>,
    pub(crate) name: DnsName,
    /// Whether the guest wants an IPv4 address.
    pub(crate) wants_address: bool,
}

/// What a packet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A question.
    Query(Query),
    /// Something that gets this answer without a look at any policy.
    Answer(Vec<u8>),
    /// Something that gets no answer: it is no question.
    Drop,
}

/// What a name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Address(Ipv4Addr),
    NoSuchName,
    Failure,
}

#[derive(Clone, Copy)]
enum ResponseCode {
    NoError = 0,
    FormatError = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
}

/// Reads a packet.
pub(crate) fn parse(packet: &[u8]) -> Parsed {
    let Some((header, rest)) = packet.split_at_checked(HEADER_BYTES) else {
        return Parsed::Drop;
    };
    let is_response = header[2] & 0x80 != 0;
    if is_response || packet.len() > PACKET_BYTES_MAX {
        return Parsed::Drop;
    }
    let id = [header[0], header[1]];
    let recursion_desired = header[2] & 1 != 0;
    let refuse = |code| Parsed::Answer(answer(id, recursion_desired, &[], code, None));
    let opcode = header[2] >> 3 & 0xf;
    if opcode != 0 {
        return refuse(ResponseCode::NotImplemented);
    }
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if count(4) != 1 || count(6) != 0 || count(8) != 0 {
        return refuse(ResponseCode::FormatError);
    }
    let Some((name, length)) = labels(rest) else {
        return refuse(ResponseCode::FormatError);
    };
    let Some(&[type_high, type_low, class_high, class_low]) = rest.get(length..length + 4) else {
        return refuse(ResponseCode::FormatError);
    };
    let question = rest[..length + 4].to_vec();
    let Ok(name) = name.parse::<DnsName>() else {
        // A form that no host has, such as a label with a dot in it.
        return refuse(ResponseCode::FormatError);
    };
    let kind = u16::from_be_bytes([type_high, type_low]);
    let class = u16::from_be_bytes([class_high, class_low]);
    let wants_address = kind == TYPE_A && class == CLASS_IN;
    Parsed::Query(Query { id, recursion_desired, question, name, wants_address })
}

/// Reads labels up to the root, without compression, which no question needs. Returns the name and
/// how many bytes it took.
fn labels(bytes: &[u8]) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > 63 || name.len() + length > 253 {
            return None;
        }
        let label = bytes.get(at..at + length)?;
        at += length;
        if !name.is_empty() {
            name.push('.');
        }
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
        if !label.iter().all(plain) {
            return None;
        }
        name.extend(label.iter().map(|&byte| byte as char));
    }
}

impl Query {
    /// Makes the answer.
    pub(super) fn answer(&self, outcome: Outcome) -> Vec<u8> {
        let (code, address) = match outcome {
            Outcome::Address(address) if self.wants_address => {
                (ResponseCode::NoError, Some(address))
            }
            Outcome::Address(_) => (ResponseCode::NoError, None),
            Outcome::NoSuchName => (ResponseCode::NoSuchName, None),
            Outcome::Failure => (ResponseCode::ServerFailure, None),
        };
        answer(self.id, self.recursion_desired, &self.question, code, address)
    }
}

fn answer(
    id: [u8; 2],
    recursion_desired: bool,
    question: &[u8],
    code: ResponseCode,
    address: Option<Ipv4Addr>,
) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER_BYTES + question.len() + 16);
    packet.extend(id);
    // A response, authoritative; recursion is available.
    packet.push(0x84 | u8::from(recursion_desired));
    packet.push(0x80 | code as u8);
    packet.extend(u16::from(!question.is_empty()).to_be_bytes());
    packet.extend(u16::from(address.is_some()).to_be_bytes());
    packet.extend([0; 4]);
    packet.extend(question);
    if let Some(address) = address {
        // The name of the question, by a pointer to it.
        packet.extend([0xc0, HEADER_BYTES as u8]);
        packet.extend(TYPE_A.to_be_bytes());
        packet.extend(CLASS_IN.to_be_bytes());
        packet.extend(TTL_SECONDS.to_be_bytes());
        packet.extend(4_u16.to_be_bytes());
        packet.extend(address.octets());
    }
    packet
}
