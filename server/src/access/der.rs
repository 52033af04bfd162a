//! The two things that must be read out of a certificate: whose it is, and how it was signed.

/// The tag of a sequence.
const SEQUENCE: u8 = 0x30;
/// The tag of a set.
const SET: u8 = 0x31;
/// The tag of an object identifier.
const OID: u8 = 0x06;
/// The tag of the version in a certificate, which may be missing.
const VERSION: u8 = 0xa0;

/// 2.5.4.3: the common name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// 1.2.840.113549.1.1: signatures with RSA.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4: signatures with ECDSA.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];

/// How the hash of a certificate is made that binds a login to the channel: as that of its signature, or SHA-256 where that
/// was a weaker one (RFC 5929, section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum SignatureHash {
    Sha256,
    Sha384,
    Sha512,
}

/// One value: its tag and content, and what follows it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of a value of this tag, and what follows it.
fn tagged(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = value(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// The common name of a certificate's subject: the last, if there are more.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let (certificate, _) = tagged(certificate, SEQUENCE)?;
    let (mut fields, _) = tagged(certificate, SEQUENCE)?;
    if let Some((_, rest)) = tagged(fields, VERSION) {
        fields = rest;
    }
    // Serial number, algorithm, issuer, validity; then the subject.
    for _ in 0..4 {
        fields = value(fields)?.2;
    }
    let (mut names, _) = tagged(fields, SEQUENCE)?;
    let mut found = None;
    while let Some((set, rest)) = tagged(names, SET) {
        names = rest;
        let (pair, _) = tagged(set, SEQUENCE)?;
        let (name, text) = tagged(pair, OID)?;
        if name == COMMON_NAME {
            let (_, text, _) = value(text)?;
            found = Some(String::from_utf8(text.to_vec()).ok()?);
        }
    }
    // A zero byte has no place in a name: what a C program takes for its end must not be another's name.
    found.filter(|name| !name.contains('\0'))
}

/// How a certificate's signature hashes; none where that can't be told, as for Ed25519.
pub fn signature_hash(certificate: &[u8]) -> Option<SignatureHash> {
    let (certificate, _) = tagged(certificate, SEQUENCE)?;
    let (_, rest) = tagged(certificate, SEQUENCE)?;
    let (algorithm, _) = tagged(rest, SEQUENCE)?;
    let (oid, _) = tagged(algorithm, OID)?;
    if let Some([last]) = oid.strip_prefix(RSA) {
        return match last {
            4 | 5 | 11 => Some(SignatureHash::Sha256),
            12 => Some(SignatureHash::Sha384),
            13 => Some(SignatureHash::Sha512),
            _ => None,
        };
    }
    match oid.strip_prefix(ECDSA)? {
        [1] | [3, 2] => Some(SignatureHash::Sha256),
        [3, 3] => Some(SignatureHash::Sha384),
        [3, 4] => Some(SignatureHash::Sha512),
        _ => None,
    }
}
