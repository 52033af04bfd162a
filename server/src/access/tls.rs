//! Encryption of connections: a certificate from files, read again when they change.

use super::der;
use parking_lot::RwLock;
use ring::digest;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Where certificate and key are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to a root: PEM.
    pub certificate: PathBuf,
    /// Its key: PEM, readable by its owner only.
    pub key: PathBuf,
    /// Roots of clients' certificates: PEM; none if clients have none.
    pub client_ca: Option<PathBuf>,
}

/// What a connection is encrypted with.
pub struct Loaded {
    /// Takes the handshake.
    pub acceptor: TlsAcceptor,
    /// What a login is bound to the channel with; none for certificates that don't say.
    pub end_point: Option<Vec<u8>>,
    /// When the files were written.
    written: Vec<Option<SystemTime>>,
}

/// The files with what was last read from them.
pub struct Tls {
    files: TlsFiles,
    loaded: RwLock<Arc<Loaded>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn open(files: TlsFiles) -> Result<Tls, String> {
        let loaded = RwLock::new(Arc::new(load(&files)?));
        Ok(Tls { files, loaded })
    }

    /// Reads the files again; on a fault, what was read before stays.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn reload(&self) -> Result<(), String> {
        *self.loaded.write() = Arc::new(load(&self.files)?);
        Ok(())
    }

    /// What a new connection is encrypted with: read again if a file was written since.
    pub fn current(&self) -> Arc<Loaded> {
        let loaded = Arc::clone(&self.loaded.read());
        if loaded.written == written(&self.files) {
            return loaded;
        }
        if let Err(why) = self.reload() {
            // While the two files are being replaced they may not fit together; the next connection looks again.
            tracing::warn!(%why, "the certificate has changed but can't be read: the one before is used");
        }
        Arc::clone(&self.loaded.read())
    }
}

fn written(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    let all = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
    all.into_iter().flatten().map(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok()).collect()
}

fn load(files: &TlsFiles) -> Result<Loaded, String> {
    // Taken before the files are read: what is written meanwhile is read with the next connection.
    let written = written(files);
    let shown = files.certificate.display();
    let certificates = certificates(&files.certificate)?;
    let first = certificates.first().ok_or_else(|| format!("\"{shown}\" holds no certificate"))?;
    let end_point = end_point(first);
    check_mode(files)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|e| format!("could not read the private key \"{}\": {e}", files.key.display()))?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| format!("TLS can't be set up: {e}"))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in self::certificates(path)? {
                roots.add(root).map_err(|e| format!("\"{}\" holds what is no root certificate: {e}", path.display()))?;
            }
            // Whether a client must have one is for the rules to say.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
            let verifier = verifier.build().map_err(|e| format!("\"{}\" can't be used: {e}", path.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates, key);
    let config = config.map_err(|e| format!("the certificate \"{shown}\" and its key can't be used: {e}"))?;
    Ok(Loaded { acceptor: TlsAcceptor::from(Arc::new(config)), end_point, written })
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed =
        |e: tokio_rustls::rustls::pki_types::pem::Error| format!("could not read the certificate \"{}\": {e}", path.display());
    CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

/// A key that others can read is refused, as in Postgres: only root may have let its group read it.
fn check_mode(files: &TlsFiles) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let path = files.key.display();
    let data = std::fs::metadata(&files.key).map_err(|e| format!("could not read the private key \"{path}\": {e}"))?;
    let others = if data.uid() == 0 { 0o037 } else { 0o077 };
    if data.mode() & others != 0 {
        return Err(format!("the private key \"{path}\" can be read by others: chmod 600 {path}"));
    }
    Ok(())
}

/// The hash of the server's certificate that both sides see (RFC 5929: tls-server-end-point).
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = match der::signature_hash(certificate)? {
        der::SignatureHash::Sha256 => &digest::SHA256,
        der::SignatureHash::Sha384 => &digest::SHA384,
        der::SignatureHash::Sha512 => &digest::SHA512,
    };
    Some(digest::digest(algorithm, certificate).as_ref().to_vec())
}
