//! Small metadata objects: one line of JSON, and a second line that seals it. Both lines are JSON, for people and tools.
//!
//! The seal has the size and the CRC-32 of the first line, over the object's path as well, so that a file that was cut,
//! changed or put in another's place is not taken for what it should be.

use crate::error::{StorageError, StorageResult};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes to put at `path`.
pub(crate) fn seal<T: Serialize>(kind: &str, path: &str, body: &T) -> StorageResult<Bytes> {
    let mut bytes = serde_json::to_vec(body)?;
    debug_assert!(!bytes.contains(&b'\n'), "compact JSON is one line");
    let line = seal_line(kind, path, &bytes);
    bytes.push(b'\n');
    bytes.extend_from_slice(line.as_bytes());
    Ok(bytes.into())
}

/// What [`seal`] was given.
pub(crate) fn unseal<T: DeserializeOwned>(kind: &str, path: &str, bytes: &[u8]) -> StorageResult<T> {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
        return Err(StorageError::corrupt(path, "it is cut short"));
    };
    let (body, rest) = (&bytes[..end], &bytes[end + 1..]);
    // Compared as a whole: whatever is changed in the seal itself is found too.
    let expected = seal_line(kind, path, body);
    if rest != expected.as_bytes() {
        let cut = expected.as_bytes().starts_with(rest);
        return Err(StorageError::corrupt(path, if cut { "it is cut short" } else { "its checksum does not match" }));
    }
    serde_json::from_slice(body).map_err(|e| StorageError::corrupt(path, format!("it is not a {kind}: {e}")))
}

fn seal_line(kind: &str, path: &str, body: &[u8]) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(path.as_bytes());
    hasher.update(body);
    format!("{{\"kind\":\"{kind}\",\"size\":{},\"crc32\":\"{:08x}\"}}\n", body.len(), hasher.finalize())
}
