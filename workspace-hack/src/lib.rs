//! Names every outside dependency once more, and holds no code.
//!
//! Cargo unifies the features of dependencies over the packages that a command selects. With each crate depending on
//! this one, `-p one-crate` and `--workspace` select the same features, so nothing is built twice.
