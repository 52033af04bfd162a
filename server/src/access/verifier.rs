//! What a password is checked with: a SCRAM-SHA-256 verifier (RFC 5802, RFC 7677), in the text form that Postgres stores.
//!
//! From a verifier the password can only be guessed, at the price of 4,096 hashes a guess; and it can't be logged in with.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use thalweg_catalog::{SqlError, SqlResult};

/// How many hashes a guess of the password costs, as in Postgres.
const ITERATIONS: u32 = 4096;

const SALT_BYTES: usize = 16;

/// The bytes of a SHA-256.
pub type Key = [u8; 32];

/// A verifier's parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// What was mixed into the password.
    pub salt: Vec<u8>,
    /// How often it was hashed.
    pub iterations: u32,
    /// What the client's key hashes to.
    pub stored_key: Key,
    /// What the server proves with that it knows the verifier.
    pub server_key: Key,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(hidden)")
    }
}

impl fmt::Display for Verifier {
    /// The stored form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        let (salt, stored, server) = (text(&self.salt), text(&self.stored_key), text(&self.server_key));
        write!(f, "SCRAM-SHA-256${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl Verifier {
    /// A verifier of a password, with a salt of its own.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn of_password(password: &str) -> SqlResult<Verifier> {
        let mut salt = [0; SALT_BYTES];
        random(&mut salt)?;
        Ok(Verifier::derive(password, &salt, ITERATIONS))
    }

    /// The verifier of a password with this salt.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        // What can't be prepared is taken as it is, as in Postgres.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        let mut salted: Key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, prepared.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        Verifier { salt: salt.to_vec(), iterations, stored_key: hash(&client_key), server_key: sign(&salted, b"Server Key") }
    }

    /// The verifier that a text holds; none if it is no verifier.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (iterations, rest) = text.strip_prefix("SCRAM-SHA-256$")?.split_once(':')?;
        let (salt, keys) = rest.split_once('$')?;
        let (stored, server) = keys.split_once(':')?;
        let bytes = |text: &str| BASE64_STANDARD.decode(text).ok();
        let key = |text: &str| Key::try_from(bytes(text)?).ok();
        let iterations = iterations.parse().ok().filter(|count| *count > 0)?;
        let salt = bytes(salt).filter(|salt| !salt.is_empty())?;
        Some(Verifier { salt, iterations, stored_key: key(stored)?, server_key: key(server)? })
    }

    /// A verifier that no password matches, for a user who has none: always the same for a name, so that nobody can tell
    /// by asking twice who exists.
    pub fn of_nobody(user: &str, secret: &Key) -> Verifier {
        let salt = sign(secret, user.as_bytes());
        Verifier { salt: salt[..SALT_BYTES].to_vec(), iterations: ITERATIONS, stored_key: [0; 32], server_key: [0; 32] }
    }
}

/// What is stored for a password as `ALTER ROLE … PASSWORD` gives it: a verifier is taken as it is, anything else is a
/// password; none for an empty one, which is none.
///
/// # Errors
/// `22023` for an md5 hash, which is as good as the password to whoever reads it.
pub fn stored_form(given: &str) -> SqlResult<Option<String>> {
    let is_md5 = given.strip_prefix("md5").is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()));
    if is_md5 {
        return Err(SqlError::invalid_parameter("passwords that are hashed with md5 are refused")
            .with_detail("Whoever reads such a hash can log in with it.")
            .with_hint("Give the password, or a SCRAM-SHA-256 verifier."));
    }
    if given.is_empty() || Verifier::parse(given).is_some() {
        return Ok((!given.is_empty()).then(|| given.to_string()));
    }
    Ok(Some(Verifier::of_password(given)?.to_string()))
}

/// Fills with random bytes.
///
/// # Errors
/// If the system has none.
pub fn random(bytes: &mut [u8]) -> SqlResult<()> {
    SystemRandom::new().fill(bytes).map_err(|_| SqlError::internal("the system gives no random bytes"))
}

/// HMAC-SHA-256.
pub fn sign(key: &[u8], message: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    Key::try_from(tag.as_ref()).expect("a SHA-256 has 32 bytes")
}

/// SHA-256.
pub fn hash(bytes: &[u8]) -> Key {
    Key::try_from(digest::digest(&digest::SHA256, bytes).as_ref()).expect("a SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677: the password is `pencil`.
    const OF_RFC: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn a_password_gives_the_verifier_that_the_rfc_gives() {
        let verifier = Verifier::parse(OF_RFC).unwrap();
        assert_eq!(Verifier::derive("pencil", &verifier.salt, 4096), verifier);
        assert_eq!(verifier.to_string(), OF_RFC);
    }

    #[test]
    fn passwords_are_stored_as_verifiers_and_md5_is_refused() {
        let stored = stored_form("pencil").unwrap().unwrap();
        assert!(stored.starts_with("SCRAM-SHA-256$4096:") && !stored.contains("pencil"));
        assert_ne!(stored_form("pencil").unwrap().unwrap(), stored);
        assert_eq!(stored_form(OF_RFC).unwrap().unwrap(), OF_RFC);
        assert_eq!(stored_form("").unwrap(), None);
        assert_eq!(stored_form("md5aaaabbbbccccddddaaaabbbbccccdddd").unwrap_err().state.code(), "22023");
        // What only looks like one is a password.
        assert!(Verifier::parse("SCRAM-SHA-256$0:aa==$aa==:aa==").is_none());
    }
}
