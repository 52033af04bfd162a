//! The rule file: who may connect from where, and how they prove who they are. Its form is that of Postgres's `pg_hba.conf`.
//!
//! The first rule that matches a connection decides, also when it then fails. Without a file, everybody on this machine is
//! let in.

mod parse;

use std::net::IpAddr;
use std::path::Path;

/// How a client proves who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Not at all.
    Trust,
    /// It can't.
    Reject,
    /// With a password.
    Scram,
    /// With a certificate in its name.
    Certificate,
}

impl Method {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Method::Trust => "trust",
            Method::Reject => "reject",
            Method::Scram => "scram-sha-256",
            Method::Certificate => "cert",
        }
    }
}

/// Which connections a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Unix sockets, on which this server does not listen.
    Local,
    /// TCP.
    Host,
    /// TCP with TLS.
    HostTls,
    /// TCP without TLS.
    HostPlain,
}

/// Whom a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// Everybody.
    All,
    /// The role of this name.
    Role(String),
    /// Members of the role of this name.
    MembersOf(String),
}

/// Which databases a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// Any.
    All,
    /// That of the role's name.
    SameUser,
    /// That of the name of a role that it is a member of.
    SameRole,
    /// The one of this name.
    Named(String),
}

/// A network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// An address in it.
    pub address: IpAddr,
    /// How many bits of it count.
    pub bits: u8,
}

impl Network {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let all = |bits: u128, width: u32| bits.checked_shr(width - u32::from(self.bits)).unwrap_or(0);
        // A client of a socket for both kinds comes with a version 6 address that holds its version 4 one.
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                all(u128::from(ours.to_bits()), 32) == all(u128::from(theirs.to_bits()), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => all(ours.to_bits(), 128) == all(theirs.to_bits(), 128),
            _ => false,
        }
    }

    /// Whether it is within this machine.
    pub fn is_loopback(&self) -> bool {
        let whole_loopback = matches!(self.address, IpAddr::V4(_)) && self.bits >= 8;
        self.address.is_loopback() && (whole_loopback || self.bits == 128)
    }
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// In which line of the file, from 1.
    pub line: usize,
    /// For which connections.
    pub transport: Transport,
    /// For which databases.
    pub databases: Vec<Which>,
    /// For whom.
    pub users: Vec<Who>,
    /// From where; none for everywhere.
    pub network: Option<Network>,
    /// What then.
    pub method: Method,
}

/// What is known of a connection when its rule is looked for.
pub struct Asked<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The database's.
    pub database: &'a str,
    /// From where; none for a connection within the process.
    pub address: Option<IpAddr>,
    /// Whether it is encrypted.
    pub tls: bool,
    /// Whether the user is a member of a role.
    pub is_member: &'a dyn Fn(&str) -> bool,
}

/// All rules in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// Without a file: everybody on this machine; with `remote` from everywhere.
    pub fn without_file(remote: bool) -> Rules {
        let local = [
            Some(Network { address: [127, 0, 0, 1].into(), bits: 8 }),
            Some(Network { address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), bits: 128 }),
        ];
        let networks = if remote { vec![None] } else { local.to_vec() };
        let rule = |network| Rule {
            line: 0,
            transport: Transport::Host,
            databases: vec![Which::All],
            users: vec![Who::All],
            network,
            method: Method::Trust,
        };
        Rules(networks.into_iter().map(rule).collect())
    }

    /// The rules of a file.
    ///
    /// # Errors
    /// What is wrong with it, in which line.
    pub fn read(path: &Path) -> Result<Rules, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| format!("could not read the rule file \"{shown}\": {e}"))?;
        parse::rules(&text).map_err(|(line, why)| format!("line {line} of the rule file \"{shown}\": {why}"))
    }

    /// The rule for a connection.
    pub fn find(&self, asked: &Asked<'_>) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.matches(asked))
    }

    /// The first rule that lets somebody in from another machine who proves nothing.
    pub fn trusting_others(&self) -> Option<&Rule> {
        let elsewhere = |rule: &&Rule| rule.network.is_none_or(|network| !network.is_loopback());
        self.0.iter().filter(|rule| rule.transport != Transport::Local && rule.method == Method::Trust).find(elsewhere)
    }
}

impl Rule {
    fn matches(&self, asked: &Asked<'_>) -> bool {
        let transport = match self.transport {
            Transport::Local => false,
            Transport::Host => true,
            Transport::HostTls => asked.tls,
            Transport::HostPlain => !asked.tls,
        };
        let network = self.network.is_none_or(|network| asked.address.is_some_and(|address| network.contains(address)));
        let user = |who: &Who| match who {
            Who::All => true,
            Who::Role(name) => name == asked.user,
            Who::MembersOf(name) => (asked.is_member)(name),
        };
        let database = |which: &Which| match which {
            Which::All => true,
            Which::SameUser => asked.database == asked.user,
            Which::SameRole => (asked.is_member)(asked.database),
            Which::Named(name) => name == asked.database,
        };
        transport && network && self.users.iter().any(user) && self.databases.iter().any(database)
    }
}

#[cfg(test)]
mod tests;
