//! Network addresses: `inet`, `cidr`, `macaddr`, `macaddr8`.

use super::invalid;
use crate::error::{SqlError, SqlResult, SqlState};
use std::fmt;
use std::net::Ipv6Addr;

/// An address and how many of its leading bits name the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The bytes of the address, of which the older protocol has the first four.
    bytes: [u8; 16],
    is_v6: bool,
    /// Leading bits that name the network.
    pub length: u8,
}

impl Network {
    /// Reads an address; one of a `cidr` may leave out bytes that its network does not need, and has nothing behind the network.
    pub fn parse(text: &str, is_cidr: bool) -> SqlResult<Network> {
        let name = if is_cidr { "cidr" } else { "inet" };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(bits(length).ok_or_else(|| invalid(name, text))?)),
            None => (text, None),
        };
        let found = if address.contains(':') { v6(address, length) } else { v4(address, length, is_cidr) };
        let found = found.ok_or_else(|| invalid(name, text))?;
        if is_cidr && !found.is_network() {
            let message = format!("invalid cidr value: \"{text}\"");
            return Err(
                SqlError::new(SqlState::InvalidTextRepresentation, message).with_detail("Value has bits set to right of mask.")
            );
        }
        Ok(found)
    }

    /// The network of these bytes, four or sixteen; none if there are others, or the length is too great.
    pub fn of_bytes(address: &[u8], length: u8) -> Option<Network> {
        let is_v6 = address.len() == 16;
        let fits = (is_v6 || address.len() == 4) && usize::from(length) <= address.len() * 8;
        let mut bytes = [0; 16];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        fits.then_some(Network { bytes, is_v6, length })
    }

    /// The bytes of the address: four, or sixteen.
    pub fn bytes(&self) -> &[u8] {
        if self.is_v6 { &self.bytes } else { &self.bytes[..4] }
    }

    /// Whether nothing is set behind the network.
    pub fn is_network(&self) -> bool {
        self.masked() == self.bytes
    }

    fn masked(&self) -> [u8; 16] {
        let mut masked = self.bytes;
        for (at, byte) in masked.iter_mut().enumerate() {
            let kept = usize::from(self.length).saturating_sub(at * 8).min(8);
            *byte &= !(0xff_u16 >> kept) as u8;
        }
        masked
    }

    /// With the length of the network, also where that is the whole address.
    pub fn shown_with_length(&self) -> String {
        format!("{}/{}", self.address(), self.length)
    }

    fn address(&self) -> String {
        match self.bytes() {
            [a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
            _ => v6_text(&self.bytes),
        }
    }

    /// Bytes that compare as Postgres compares addresses: by protocol, network, length, and what is behind the network.
    pub fn order_key(&self) -> Vec<u8> {
        [&[u8::from(self.is_v6)], self.masked().as_slice(), &[self.length], self.bytes.as_slice()].concat()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = usize::from(self.length) == self.bytes().len() * 8;
        f.write_str(&if is_whole { self.address() } else { self.shown_with_length() })
    }
}

fn bits(text: &str) -> Option<u8> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn v6(address: &str, length: Option<u8>) -> Option<Network> {
    Network::of_bytes(&address.parse::<Ipv6Addr>().ok()?.octets(), length.unwrap_or(128))
}

/// Bytes may be left out at the end where the length says how many there are, or in a `cidr` their number says what the length is.
fn v4(address: &str, length: Option<u8>, is_cidr: bool) -> Option<Network> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in address.split('.') {
        *bytes.get_mut(count)? = bits(part)?;
        count += 1;
    }
    let length = match length {
        Some(length) => length,
        None if is_cidr => class_length(bytes[0]).max(count as u8 * 8),
        None if count == 4 => 32,
        None => return None,
    };
    if usize::from(length / 8) > count && !is_cidr {
        return None;
    }
    Network::of_bytes(&bytes, length)
}

/// How long a network is of which only the address is written, by the classes of old.
fn class_length(first: u8) -> u8 {
    match first {
        240.. => 32,
        224 => 4,
        225..240 => 8,
        192..224 => 24,
        128..192 => 16,
        _ => 8,
    }
}

/// The longest run of zeros, of at least two words, is left out; addresses of the older protocol within are shown as such.
fn v6_text(bytes: &[u8; 16]) -> String {
    let words: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let mut run = 0..0;
    let mut at = 0;
    while at < 8 {
        let zeros = words[at..].iter().take_while(|word| **word == 0).count();
        if zeros > run.len() && zeros >= 2 {
            run = at..at + zeros;
        }
        at += zeros.max(1);
    }
    let has_v4 = run == (0..6) || run == (0..5) && words[5] == 0xffff;
    let shown = |words: &[u16]| words.iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join(":");
    let mut tail = if has_v4 {
        let v4 = format!("{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]);
        if run.end == 6 { v4 } else { format!("ffff:{v4}") }
    } else {
        shown(&words[run.end..])
    };
    if !run.is_empty() {
        tail = format!("{}::{tail}", shown(&words[..run.start]));
    }
    tail
}

/// The six bytes of a `macaddr`.
pub fn mac(text: &str) -> SqlResult<[u8; 6]> {
    let found = mac_bytes("macaddr", text)?;
    found.try_into().map_err(|_| invalid("macaddr", text))
}

/// The eight bytes of a `macaddr8`; of six the middle is filled in, as the standard says.
pub fn mac8(text: &str) -> SqlResult<[u8; 8]> {
    let found = mac_bytes("macaddr8", text)?;
    let found = match found.as_slice() {
        [a, b, c, d, e, f] => vec![*a, *b, *c, 0xff, 0xfe, *d, *e, *f],
        _ => found,
    };
    found.try_into().map_err(|_| invalid("macaddr8", text))
}

/// Bytes in hexadecimal: each on its own between `:` or `-`, or in groups of two or three, or all in one.
fn mac_bytes(name: &str, text: &str) -> SqlResult<Vec<u8>> {
    let bad = || invalid(name, text);
    let trimmed = text.trim();
    let separator = trimmed.chars().find(|c| matches!(c, ':' | '-' | '.'));
    let groups: Vec<&str> = separator.map_or(vec![trimmed], |separator| trimmed.split(separator).collect());
    let is_hex = |group: &&str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_hexdigit());
    if !groups.iter().all(is_hex) {
        return Err(bad());
    }
    if matches!(groups.len(), 6 | 8) && separator != Some('.') {
        let byte = |group: &&str| {
            u8::from_str_radix(group, 16).map_err(|_| {
                let message = format!("invalid octet value in \"{name}\" value: \"{text}\"");
                SqlError::new(SqlState::NumericValueOutOfRange, message)
            })
        };
        return groups.iter().map(byte).collect();
    }
    let length = groups[0].len();
    let is_known = matches!((separator, groups.len(), length), (Some(':' | '-'), 2, 6) | (Some('.' | '-'), 3 | 4, 4))
        || separator.is_none() && matches!(length, 12 | 16);
    if !is_known || groups.iter().any(|group| group.len() != length) {
        return Err(bad());
    }
    let digits = groups.concat();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad())).collect()
}

/// The bytes of a `macaddr` or `macaddr8` as they are shown.
pub fn mac_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
