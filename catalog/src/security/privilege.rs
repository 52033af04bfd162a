//! Privileges, and the lists of who has which on what.

use super::role::RoleId;
use crate::ids::ObjectId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr, Not};

/// A set of privileges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Privileges(u16);

impl BitOr for Privileges {
    type Output = Privileges;
    fn bitor(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }
}

impl BitAnd for Privileges {
    type Output = Privileges;
    fn bitand(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }
}

impl Not for Privileges {
    type Output = Privileges;
    fn not(self) -> Privileges {
        Privileges(!self.0)
    }
}

/// Each privilege with its letter in access lists and its word, in the order in which lists show them.
const WORDS: [(Privileges, char, &str); 12] = [
    (Privileges::INSERT, 'a', "INSERT"),
    (Privileges::SELECT, 'r', "SELECT"),
    (Privileges::UPDATE, 'w', "UPDATE"),
    (Privileges::DELETE, 'd', "DELETE"),
    (Privileges::TRUNCATE, 'D', "TRUNCATE"),
    (Privileges::REFERENCES, 'x', "REFERENCES"),
    (Privileges::TRIGGER, 't', "TRIGGER"),
    (Privileges::EXECUTE, 'X', "EXECUTE"),
    (Privileges::USAGE, 'U', "USAGE"),
    (Privileges::CREATE, 'C', "CREATE"),
    (Privileges::TEMPORARY, 'T', "TEMPORARY"),
    (Privileges::CONNECT, 'c', "CONNECT"),
];

#[allow(missing_docs)]
impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const SELECT: Privileges = Privileges(1);
    pub const INSERT: Privileges = Privileges(1 << 1);
    pub const UPDATE: Privileges = Privileges(1 << 2);
    pub const DELETE: Privileges = Privileges(1 << 3);
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    pub const EXECUTE: Privileges = Privileges(1 << 7);
    pub const USAGE: Privileges = Privileges(1 << 8);
    pub const CREATE: Privileges = Privileges(1 << 9);
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    pub const CONNECT: Privileges = Privileges(1 << 11);
    /// All that there are on a relation.
    pub const OF_RELATIONS: Privileges = Privileges(0x7f);
    /// All that there are on a column.
    pub const OF_COLUMNS: Privileges = Privileges(1 | 1 << 1 | 1 << 2 | 1 << 5);
}

impl Privileges {
    /// The privilege of this word, in any case.
    pub fn of_word(word: &str) -> Option<Privileges> {
        if word.eq_ignore_ascii_case("temp") {
            return Some(Privileges::TEMPORARY);
        }
        WORDS.iter().find(|(_, _, known)| known.eq_ignore_ascii_case(word)).map(|(privilege, _, _)| *privilege)
    }

    /// Whether all of these are among them.
    pub fn contains(self, all: Privileges) -> bool {
        self & all == all
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are not among `others`.
    #[must_use]
    pub fn without(self, others: Privileges) -> Privileges {
        self & !others
    }

    /// Their words, in the order of access lists.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        WORDS.iter().filter(move |(privilege, _, _)| self.contains(*privilege)).map(|(_, _, word)| *word)
    }

    /// Each by itself.
    pub fn each(self) -> impl Iterator<Item = Privileges> {
        WORDS.iter().map(|(privilege, _, _)| *privilege).filter(move |privilege| self.contains(*privilege))
    }

    /// Their letters as an access list shows them, with a star behind each that can be granted on.
    pub fn letters(self, grantable: Privileges) -> String {
        let mut text = String::new();
        for (privilege, letter, _) in WORDS.iter().filter(|(privilege, _, _)| self.contains(*privilege)) {
            text.push(*letter);
            if grantable.contains(*privilege) {
                text.push('*');
            }
        }
        text
    }
}

/// What privileges are held on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Subject {
    /// A source, table, view, materialized view or sink.
    Relation(ObjectId),
    /// A column of a relation, by its place.
    Column(ObjectId, u32),
    /// A schema.
    Schema(String),
    /// All functions of a name.
    Function(String),
    /// The database.
    Database,
    /// A secret.
    Secret(String),
    /// A type.
    Type(ObjectId),
}

impl Subject {
    /// All privileges that there are on it.
    pub fn all_privileges(&self) -> Privileges {
        match self {
            Subject::Relation(_) => Privileges::OF_RELATIONS,
            Subject::Column(..) => Privileges::OF_COLUMNS,
            Subject::Schema(_) => Privileges::USAGE | Privileges::CREATE,
            Subject::Function(_) => Privileges::EXECUTE,
            Subject::Database => Privileges::CREATE | Privileges::TEMPORARY | Privileges::CONNECT,
            Subject::Secret(_) | Subject::Type(_) => Privileges::USAGE,
        }
    }

    /// What everybody has on it as long as nothing was granted or revoked.
    pub fn public_privileges(&self) -> Privileges {
        match self {
            Subject::Relation(_) | Subject::Column(..) | Subject::Secret(_) => Privileges::NONE,
            Subject::Schema(name) if name == crate::catalog::DEFAULT_SCHEMA => Privileges::USAGE,
            Subject::Schema(_) => Privileges::NONE,
            Subject::Function(_) => Privileges::EXECUTE,
            Subject::Type(_) => Privileges::USAGE,
            Subject::Database => Privileges::CONNECT | Privileges::TEMPORARY,
        }
    }

    /// The access list that it has as long as nothing was granted or revoked.
    pub fn default_acl(&self, owner: RoleId) -> Acl {
        if matches!(self, Subject::Column(..)) {
            return Acl::default();
        }
        let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, grantable: Privileges::NONE };
        let public = self.public_privileges();
        let public = (!public.is_empty()).then(|| item(RoleId::PUBLIC, public));
        Acl(public.into_iter().chain([item(owner, self.all_privileges())]).collect())
    }
}

/// What one role has granted another on something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AclItem {
    /// Who has the privileges.
    pub grantee: RoleId,
    /// Who granted them.
    pub grantor: RoleId,
    /// Which.
    pub privileges: Privileges,
    /// Which of them the grantee may grant on.
    pub grantable: Privileges,
}

/// An access list: all that is granted on something.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Acl(pub Vec<AclItem>);

impl Acl {
    /// What any of these roles has, or everybody.
    pub fn held_by(&self, roles: &BTreeSet<RoleId>) -> Privileges {
        let held = self.0.iter().filter(|item| item.grantee == RoleId::PUBLIC || roles.contains(&item.grantee));
        held.fold(Privileges::NONE, |all, item| all | item.privileges)
    }

    /// What a role may grant on, by what was granted to it.
    pub fn grantable_by(&self, role: RoleId) -> Privileges {
        self.0.iter().filter(|item| item.grantee == role).fold(Privileges::NONE, |all, item| all | item.grantable)
    }

    /// Adds privileges.
    pub fn grant(&mut self, granted: AclItem) {
        let same = |item: &&mut AclItem| item.grantee == granted.grantee && item.grantor == granted.grantor;
        match self.0.iter_mut().find(same) {
            Some(item) => {
                item.privileges = item.privileges | granted.privileges;
                item.grantable = item.grantable | granted.grantable;
            }
            None => self.0.push(granted),
        }
    }

    /// Takes privileges away that `grantor` granted, or only the right to grant them on. What the grantee granted on to
    /// others and can't grant any longer goes with it. Gives whether there was such.
    pub fn revoke(&mut self, revoked: &AclItem, only_grant_option: bool, owner: RoleId) -> bool {
        let same = |item: &&mut AclItem| item.grantee == revoked.grantee && item.grantor == revoked.grantor;
        let Some(item) = self.0.iter_mut().find(same) else { return false };
        item.grantable = item.grantable.without(revoked.privileges);
        if !only_grant_option {
            item.privileges = item.privileges.without(revoked.privileges);
        }
        self.0.retain(|item| !item.privileges.is_empty());
        let mut cascaded = false;
        if revoked.grantee == RoleId::PUBLIC || revoked.grantee == owner {
            return cascaded;
        }
        let lost = revoked.privileges.without(self.grantable_by(revoked.grantee));
        let depending: Vec<AclItem> = self.0.iter().filter(|i| i.grantor == revoked.grantee).copied().collect();
        for item in depending {
            let privileges = item.privileges & lost;
            if !privileges.is_empty() {
                cascaded = true;
                self.revoke(&AclItem { privileges, ..item }, false, owner);
            }
        }
        cascaded
    }

    /// The list after its owner has changed: what the old one had and granted, the new one has and has granted.
    #[must_use]
    pub fn with_owner(&self, old: RoleId, new: RoleId) -> Acl {
        let mut acl = Acl::default();
        let changed = |role: RoleId| if role == old { new } else { role };
        for item in &self.0 {
            acl.grant(AclItem { grantee: changed(item.grantee), grantor: changed(item.grantor), ..*item });
        }
        acl
    }

    /// Every role that is named in it.
    pub fn roles(&self) -> impl Iterator<Item = RoleId> + '_ {
        self.0.iter().flat_map(|item| [item.grantee, item.grantor]).filter(|role| *role != RoleId::PUBLIC)
    }
}
