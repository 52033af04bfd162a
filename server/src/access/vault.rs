//! Secrets: encrypted with AES-256-GCM under a key that is kept in a file beside the data, not in the store.
//!
//! A secret's name is authenticated with its value, so that one can't be put in another's place. The value is decrypted only
//! where a connector gets its options.

use super::verifier::random;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_catalog::object::{ConnectorSpec, ObjectDefinition};
use thalweg_catalog::options::referenced_secret;
use thalweg_catalog::{Catalog, CatalogObject, SqlError, SqlResult, SqlState};

const KEY_BYTES: usize = 32;

/// The key, read or made when the first secret needs it.
pub struct Vault {
    file: PathBuf,
    key: Mutex<Option<Arc<LessSafeKey>>>,
}

impl Vault {
    /// A vault whose key is in this file, or will be.
    pub fn new(file: PathBuf) -> Vault {
        Vault { file, key: Mutex::default() }
    }

    fn fault(&self, what: &str, why: impl std::fmt::Display) -> SqlError {
        let text = format!("{what} the key of secrets \"{}\": {why}", self.file.display());
        SqlError::new(SqlState::IoError, text)
    }

    /// The key; `make` says whether it is made where there is none.
    fn key(&self, make: bool) -> SqlResult<Arc<LessSafeKey>> {
        let mut cached = self.key.lock();
        if let Some(key) = &*cached {
            return Ok(Arc::clone(key));
        }
        let bytes = match std::fs::read_to_string(&self.file) {
            Ok(text) => self.read_key(&text)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && make => self.make_key()?,
            Err(error) => {
                return Err(self.fault("could not read", error).with_hint("Put back the file that the secrets were made with."));
            }
        };
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| self.fault("could not use", "it has another length"))?;
        let key = Arc::new(LessSafeKey::new(key));
        *cached = Some(Arc::clone(&key));
        Ok(key)
    }

    fn read_key(&self, text: &str) -> SqlResult<Vec<u8>> {
        let data = std::fs::metadata(&self.file).map_err(|e| self.fault("could not read", e))?;
        if data.mode() & 0o077 != 0 {
            return Err(self.fault("will not use", "others can read it").with_hint("chmod 600 the file."));
        }
        let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|e| self.fault("could not read", e))?;
        match bytes.len() {
            KEY_BYTES => Ok(bytes),
            other => Err(self.fault("could not use", format!("it has {other} bytes instead of {KEY_BYTES}, in base 64"))),
        }
    }

    /// Makes a key, on disk before anything is encrypted with it.
    fn make_key(&self) -> SqlResult<Vec<u8>> {
        let mut bytes = vec![0; KEY_BYTES];
        random(&mut bytes)?;
        let failed = |e: std::io::Error| self.fault("could not write", e);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file).map_err(failed)?;
        file.write_all(BASE64_STANDARD.encode(&bytes).as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        if let Some(folder) = self.file.parent() {
            std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(bytes)
    }

    /// The stored form of a secret's value.
    ///
    /// # Errors
    /// `58030` if there is no key and none can be made.
    pub fn seal(&self, name: &str, value: &str) -> SqlResult<String> {
        let key = self.key(true)?;
        let mut nonce = [0; NONCE_LEN];
        random(&mut nonce)?;
        let mut sealed = value.as_bytes().to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name.as_bytes()), &mut sealed)
            .map_err(|_| SqlError::internal("a secret could not be encrypted"))?;
        Ok(BASE64_STANDARD.encode([&nonce[..], &sealed].concat()))
    }

    /// A secret's value.
    ///
    /// # Errors
    /// `58030` without the key, `XX001` if it is not the key that the secret was encrypted with.
    pub fn open(&self, name: &str, sealed: &str) -> SqlResult<String> {
        let key = self.key(false)?;
        let wrong = || {
            SqlError::new(SqlState::DataCorrupted, format!("secret \"{name}\" can't be decrypted"))
                .with_hint("Put back the file of the key that it was made with, or give the secret its value again.")
        };
        let mut bytes = BASE64_STANDARD.decode(sealed).map_err(|_| wrong())?;
        let (nonce, value) = bytes.split_at_mut_checked(NONCE_LEN).ok_or_else(wrong)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| wrong())?;
        let value = key.open_in_place(nonce, Aad::from(name.as_bytes()), value).map_err(|_| wrong())?;
        String::from_utf8(value.to_vec()).map_err(|_| wrong())
    }

    /// A connector's options with the values of the secrets that they name.
    ///
    /// # Errors
    /// `42704` for a secret that is not there, and those of [`Vault::open`].
    pub fn resolve(&self, spec: &ConnectorSpec, catalog: &Catalog) -> SqlResult<ConnectorSpec> {
        let mut resolved = spec.clone();
        for value in resolved.options.values_mut().chain(resolved.encode_options.values_mut()) {
            let Some(name) = referenced_secret(value) else { continue };
            let secret = catalog.security().secret(name);
            let missing = || SqlError::new(SqlState::UndefinedObject, format!("secret \"{name}\" does not exist"));
            *value = self.open(name, &secret.ok_or_else(missing)?.sealed)?;
        }
        Ok(resolved)
    }

    /// An object whose connector has the values of the secrets that it names: for who runs it, not for the catalog.
    ///
    /// # Errors
    /// As [`Vault::resolve`].
    pub fn with_secrets(&self, object: &Arc<CatalogObject>, catalog: &Catalog) -> SqlResult<Arc<CatalogObject>> {
        if object.connector().is_none_or(|spec| secrets_of(spec).next().is_none()) {
            return Ok(Arc::clone(object));
        }
        let mut resolved = (**object).clone();
        match &mut resolved.definition {
            ObjectDefinition::Source { connector, .. }
            | ObjectDefinition::Sink { connector, .. }
            | ObjectDefinition::Table { connector: Some(connector), .. } => *connector = self.resolve(connector, catalog)?,
            ObjectDefinition::Table { .. }
            | ObjectDefinition::View { .. }
            | ObjectDefinition::MaterializedView { .. }
            | ObjectDefinition::Enum { .. } => {}
        }
        Ok(Arc::new(resolved))
    }
}

/// The names of the secrets that a connector's options name.
pub fn secrets_of(spec: &ConnectorSpec) -> impl Iterator<Item = &str> {
    spec.options.values().chain(spec.encode_options.values()).filter_map(|value| referenced_secret(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_with_its_key_and_name_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.key");
        let sealed = Vault::new(file.clone()).seal("k", "hunter2").unwrap();
        assert!(!sealed.contains("hunter2"));
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let again = Vault::new(file);
        assert_eq!(again.open("k", &sealed).unwrap(), "hunter2");
        assert_eq!(again.open("other", &sealed).unwrap_err().state, SqlState::DataCorrupted);
        assert_ne!(again.seal("k", "hunter2").unwrap(), sealed);
        let other = Vault::new(folder.path().join("other.key"));
        assert_eq!(other.open("k", &sealed).unwrap_err().state, SqlState::IoError);
        other.seal("x", "y").unwrap();
        assert_eq!(other.open("k", &sealed).unwrap_err().state, SqlState::DataCorrupted);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.key");
        let sealed = Vault::new(file.clone()).seal("k", "v").unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(Vault::new(file).open("k", &sealed).unwrap_err().state, SqlState::IoError);
    }
}
