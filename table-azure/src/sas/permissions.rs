use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use table_core::{Error, Result};

/// Defines a set of flags that is written as letters in a fixed order.
macro_rules! letters {
    ($(#[$doc:meta])* $name:ident, $what:literal: $($(#[$flag_doc:meta])* $flag:ident = $bit:literal, $letter:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u16);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            /// All flags.
            pub const ALL: Self = Self($((1 << $bit))|*);
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// The letters, in the order that the service requires.
            const LETTERS: &'static [(char, Self)] = &[$(($letter, Self::$flag)),*];

            /// Whether this set contains every flag of `other`.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        /// Writes the letters of the protocol.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = Self::LETTERS.iter().filter(|(_, flag)| self.contains(*flag));
                set.try_for_each(|(letter, _)| fmt::Write::write_char(f, *letter))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                text.chars().try_fold(Self::NONE, |all, letter| {
                    let known = Self::LETTERS.iter().find(|(l, _)| *l == letter);
                    let unknown = || Error::invalid_request(format!(concat!("{:?} is not a letter of ", $what), letter));
                    known.map(|(_, flag)| all | *flag).ok_or_else(unknown)
                })
            }
        }
    };
}

letters! {
    /// Permissions on the entities of a table.
    ///
    /// ```
    /// use table_azure::sas::TablePermissions;
    /// let both = TablePermissions::UPDATE | TablePermissions::READ;
    /// assert_eq!(both.to_string(), "ru");
    /// ```
    TablePermissions, "a table's permissions":
    /// Get and query entities.
    READ = 0, 'r';
    /// Insert entities. An upsert needs `UPDATE` too.
    ADD = 1, 'a';
    /// Replace and merge entities. An upsert needs `ADD` too.
    UPDATE = 2, 'u';
    /// Delete entities.
    DELETE = 3, 'd';
}

letters! {
    /// Permissions on the tables of an account, and on its queues.
    AccountPermissions, "an account's permissions":
    /// Get and query entities; peek at messages.
    READ = 0, 'r';
    /// Create tables and queues, set properties and stored policies.
    WRITE = 1, 'w';
    /// Delete tables, queues and entities.
    DELETE = 2, 'd';
    /// List tables and queues.
    LIST = 3, 'l';
    /// Insert entities. An upsert needs `UPDATE` too. Send messages.
    ADD = 4, 'a';
    /// Create tables and queues.
    CREATE = 5, 'c';
    /// Replace and merge entities. An upsert needs `ADD` too. Renew messages.
    UPDATE = 6, 'u';
    /// Receive and delete messages.
    PROCESS = 7, 'p';
}

letters! {
    /// The services of an account that a signature covers.
    AccountServices, "an account's services":
    /// Queues.
    QUEUE = 0, 'q';
    /// Tables.
    TABLE = 1, 't';
}

letters! {
    /// The resource types of an account that a signature covers.
    AccountResources, "an account's resources":
    /// The service: properties, statistics, listing the tables.
    SERVICE = 0, 's';
    /// Tables and queues: creating, deleting, stored access policies.
    TABLE = 1, 'c';
    /// Entities and messages. Azurite also requires `TABLE` to renew or delete a message.
    ENTITY = 2, 'o';
}
