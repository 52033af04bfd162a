//! Who may come in, and who may do what.
//!
//! In reading order: [`rules`] and [`tls`] say how a connection may begin, [`gate`] holds both for a running server; a
//! password is checked with a [`verifier`]; [`authority`] is what a role may do; [`relations`] puts that between queries and
//! what they read; [`audit`] keeps what happened; [`vault`] keeps secrets.

pub mod audit;
pub mod authority;
pub(crate) mod der;
pub mod gate;
pub mod login;
pub mod relations;
pub mod rules;
pub mod tls;
pub mod vault;
pub mod verifier;
