//! Who is let in: the rules and the certificate of a running server, which can be read again.

use super::rules::{Method, Rules};
use super::tls::Tls;
use super::verifier::{Key, random};
use crate::config::Settings;
use parking_lot::RwLock;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// The rules and the certificate.
pub struct Gate {
    file: Option<PathBuf>,
    rules: RwLock<Arc<Rules>>,
    tls: Option<Tls>,
    /// Whether clients from other machines may be let in who prove nothing: asked for by name.
    trust_remote: bool,
    /// Whether clients from other machines can reach the server.
    is_remote: bool,
    /// What makes up salts for users who don't exist.
    nobody: Key,
}

fn refused(why: String) -> SqlError {
    SqlError::new(SqlState::ConfigFileError, why)
}

impl Gate {
    /// Reads what the settings name.
    ///
    /// # Errors
    /// `F0000` for a file that can't be used, and for rules that let anybody in from elsewhere unless that was asked for.
    pub fn open(settings: &Settings) -> SqlResult<Gate> {
        let mut nobody = [0; 32];
        random(&mut nobody)?;
        let gate = Gate {
            file: settings.rule_file.clone(),
            rules: RwLock::default(),
            tls: settings.tls.clone().map(Tls::open).transpose().map_err(refused)?,
            trust_remote: settings.trust_remote,
            is_remote: !settings.pg_listen.ip().is_loopback(),
            nobody,
        };
        *gate.rules.write() = Arc::new(gate.read_rules().map_err(refused)?);
        Ok(gate)
    }

    fn read_rules(&self) -> Result<Rules, String> {
        let Some(path) = &self.file else { return Ok(Rules::without_file(self.trust_remote)) };
        let rules = Rules::read(path)?;
        if let Some(rule) = rules.trusting_others().filter(|_| self.is_remote && !self.trust_remote) {
            return Err(format!(
                "line {} of the rule file \"{}\" lets clients from other machines in without authentication: \
                 set trust_remote if that is meant",
                rule.line,
                path.display()
            ));
        }
        if self.tls.is_none() && rules.0.iter().any(|rule| rule.method == Method::Certificate) {
            return Err(format!("the rule file \"{}\" asks for certificates, but there is no tls_certificate", path.display()));
        }
        Ok(rules)
    }

    /// Reads rules and certificate again; on a fault, what was read before stays.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn reload(&self) -> Result<(), String> {
        let rules = self.read_rules();
        let tls = self.tls.as_ref().map_or(Ok(()), Tls::reload);
        if let Ok(rules) = &rules {
            *self.rules.write() = Arc::new(rules.clone());
        }
        let outcome = rules.map(drop).and(tls);
        match &outcome {
            Ok(()) => tracing::info!("the rules and the certificate were read again"),
            Err(why) => tracing::error!(%why, "the configuration can't be read again: what was read before stays"),
        }
        outcome
    }

    /// The rules as they are now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// The encryption, if there is one.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// What makes up salts for users who don't exist.
    pub fn nobody(&self) -> &Key {
        &self.nobody
    }
}
