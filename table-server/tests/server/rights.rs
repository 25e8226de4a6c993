//! Every verb, on every kind of row, with every kind of credential.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{Operation, ServiceProfile, TableStore, TableStoreExt as _};
use table_embedded::EmbeddedStore;
use table_server::TestServer;

use crate::authorization::{TableSas, account_sas};
use crate::client::{Ask, Client, Reply, encoded};

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Entity,
    Part,
    Control,
}

const ROWS: [(Kind, &str, &str); 11] = [
    (Kind::Entity, "p", "r"),
    (Kind::Entity, "a", "before every range"),
    (Kind::Part, "p", "~~w_r~~000"),
    (Kind::Part, "p", "~~changes~0000000000000000001"),
    (Kind::Part, "~~changes", "cursor"),
    (Kind::Part, "~~copy", "checkpoint"),
    (Kind::Control, "p", "~~j_0"),
    (Kind::Control, "p", "~~of a later version"),
    (Kind::Control, "~~manifest", "planted"),
    (Kind::Control, "~~t_1", "record"),
    (Kind::Control, "~~~", "r"),
];

/// A credential: its letters, and whether it has a range that begins at the partition `p`.
#[derive(Clone, Copy, Debug)]
struct Credential {
    letters: &'static str,
    kind: CredentialKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CredentialKind {
    Key,
    Account,
    Table,
    OnePartition,
    OpenRange,
}

use CredentialKind::{Account, Key as AccountKey, OnePartition, OpenRange, Table};

const CREDENTIALS: [Credential; 12] = [
    Credential {
        letters: "raud",
        kind: AccountKey,
    },
    Credential {
        letters: "raud",
        kind: Account,
    },
    Credential {
        letters: "rau",
        kind: Account,
    },
    Credential {
        letters: "raud",
        kind: Table,
    },
    Credential {
        letters: "rau",
        kind: Table,
    },
    Credential {
        letters: "aud",
        kind: Table,
    },
    Credential {
        letters: "a",
        kind: Table,
    },
    Credential {
        letters: "r",
        kind: Table,
    },
    Credential {
        letters: "d",
        kind: Table,
    },
    Credential {
        letters: "raud",
        kind: OnePartition,
    },
    Credential {
        letters: "raud",
        kind: OpenRange,
    },
    Credential {
        letters: "a",
        kind: OpenRange,
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    UpsertReplace,
    UpsertMerge,
    Replace,
    Merge,
    Delete,
    Get,
    Query,
}

impl Verb {
    const ALL: [Self; 8] = [
        Self::Insert,
        Self::UpsertReplace,
        Self::UpsertMerge,
        Self::Replace,
        Self::Merge,
        Self::Delete,
        Self::Get,
        Self::Query,
    ];

    const fn letters(self) -> &'static str {
        match self {
            Self::Insert => "a",
            Self::UpsertReplace | Self::UpsertMerge => "au",
            Self::Replace | Self::Merge => "u",
            Self::Delete => "d",
            Self::Get | Self::Query => "r",
        }
    }

    const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Query)
    }

    /// The method, the path and the body of the request.
    fn request(self, partition: &str, row: &str) -> (&'static str, String, String) {
        let address = format!(
            "abc(PartitionKey='{}',RowKey='{}')",
            encoded(partition),
            encoded(row)
        );
        let body = "{\"V\":2}".to_owned();
        match self {
            Self::Insert => (
                "POST",
                "abc".to_owned(),
                format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"V\":2}}"),
            ),
            Self::UpsertReplace | Self::Replace => ("PUT", address, body),
            Self::UpsertMerge | Self::Merge => ("MERGE", address, body),
            Self::Delete => ("DELETE", address, String::new()),
            Self::Get => ("GET", address, String::new()),
            Self::Query => {
                let filter = format!("PartitionKey eq '{partition}' and RowKey eq '{row}'");
                (
                    "GET",
                    format!("abc()?$filter={}", encoded(&filter)),
                    String::new(),
                )
            }
        }
    }

    const fn has_condition(self) -> bool {
        matches!(self, Self::Replace | Self::Merge | Self::Delete)
    }
}

impl Credential {
    fn has_range(self) -> bool {
        matches!(self.kind, OnePartition | OpenRange)
    }

    fn is_full(self) -> bool {
        self.letters == "raud" && !self.has_range()
    }

    fn covers(self, partition: &str) -> bool {
        match self.kind {
            AccountKey | Account | Table => true,
            OnePartition => partition == "p",
            OpenRange => partition == "p" || partition > "p" && !partition.starts_with("~~"),
        }
    }

    /// The rule, independent of the server's code.
    fn expected(
        self,
        verb: Verb,
        (kind, partition, _): (Kind, &str, &str),
        knows: bool,
    ) -> (u16, &'static str) {
        if !verb
            .letters()
            .chars()
            .all(|letter| self.letters.contains(letter))
        {
            return (403, "AuthorizationPermissionMismatch");
        }
        let is_hidden = kind != Kind::Entity && !knows || self.has_range() && kind == Kind::Control;
        if verb.reads() {
            return match (verb, is_hidden || !self.covers(partition)) {
                (_, false) => (200, ""),
                (Verb::Get, true) => (404, "ResourceNotFound"),
                (_, true) => (200, "nothing"),
            };
        }
        if !self.covers(partition) || kind == Kind::Control && !self.is_full() {
            return (403, "AuthorizationFailure");
        }
        match (kind == Kind::Entity || knows, verb) {
            (false, _) => (400, "InvalidInput"),
            (true, Verb::Insert) => (201, ""),
            (true, _) => (204, ""),
        }
    }

    async fn send(self, client: &Client, ask: Ask) -> Reply {
        let range = match self.kind {
            AccountKey => return client.owner(ask).await,
            Account => {
                let sas = account_sas(self.letters, "t", "sco");
                let joint = if ask.path.contains('?') { '&' } else { '?' };
                return client
                    .plain(Ask {
                        path: format!("{}{joint}{sas}", ask.path),
                        ..ask
                    })
                    .await;
            }
            Table => ["", "", "", ""],
            OnePartition => ["p", "", "p", ""],
            OpenRange => ["p", "", "", ""],
        };
        let sas = TableSas {
            range,
            ..TableSas::new(self.letters)
        }
        .query();
        let joint = if ask.path.contains('?') { '&' } else { '?' };
        client
            .plain(Ask {
                path: format!("{}{joint}{sas}", ask.path),
                ..ask
            })
            .await
    }
}

/// The request as the only one of a group.
fn in_group(verb: Verb, partition: &str, row: &str) -> Ask {
    let (method, path, json) = verb.request(partition, row);
    let condition = if verb.has_condition() {
        "If-Match: *\r\n"
    } else {
        ""
    };
    let body = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
         Content-Transfer-Encoding: binary\r\n\r\n{method} http://h/devstoreaccount1/{path} HTTP/1.1\r\nContent-Type: \
         application/json\r\nAccept: application/json\r\n{condition}Content-Length: {}\r\n\r\n{json}\r\n--c--\r\n--b--\r\n",
        json.len()
    );
    Ask {
        body,
        ..Ask::new("POST", "$batch").with("Content-Type", "multipart/mixed; boundary=b")
    }
}

fn alone(verb: Verb, partition: &str, row: &str) -> Ask {
    let (method, path, json) = verb.request(partition, row);
    let ask = Ask::new(method, path);
    let ask = if verb.has_condition() {
        ask.with("If-Match", "*")
    } else {
        ask
    };
    if json.is_empty() {
        ask.with("Accept", "application/json;odata=nometadata")
    } else {
        ask.json(json)
    }
}

/// The status and the code of the only response of a group.
fn refusal_in_group(reply: &Reply) -> (u16, String) {
    assert_eq!(reply.status, 202, "{reply:?}");
    let inner = reply.body.split("HTTP/1.1 ").nth(1).unwrap();
    let code = inner
        .split("x-ms-error-code: ")
        .nth(1)
        .map(|rest| rest.split("\r\n").next().unwrap());
    (
        inner[..3].parse().unwrap(),
        code.unwrap_or_default().to_owned(),
    )
}

async fn every_combination(store: Arc<dyn TableStore>, credentials: &[Credential]) {
    let table: TableName = "abc".parse().unwrap();
    store.create_table(&table).await.unwrap();
    let server = TestServer::serve(Arc::clone(&store)).await;
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    let client = Client { server, address };
    for (kind, partition, row) in ROWS {
        let key = Key::new(partition, row).unwrap();
        for (verb, knows, credential) in Verb::ALL.iter().flat_map(|verb| {
            [false, true]
                .into_iter()
                .flat_map(move |knows| credentials.iter().map(move |c| (*verb, knows, *c)))
        }) {
            let expected = credential.expected(verb, (kind, partition, row), knows);
            for grouped in [false, true] {
                if grouped && verb.reads() {
                    continue;
                }
                let _ = store
                    .write(
                        &table,
                        Operation::Delete(key.clone(), table_core::model::IfMatch::Any),
                    )
                    .await;
                if verb != Verb::Insert {
                    store
                        .write(
                            &table,
                            Operation::Insert(Entity::from(key.clone()).with("V", 1)),
                        )
                        .await
                        .unwrap();
                }
                let before = store.query_all(&table, &Query::new()).await.unwrap();
                let ask = if grouped {
                    in_group(verb, partition, row)
                } else {
                    alone(verb, partition, row)
                };
                let ask = if knows {
                    ask.with("x-table-manifest-aware", "1")
                } else {
                    ask
                };
                let reply = credential.send(&client, ask).await;
                let case = format!(
                    "{credential:?} {verb:?} {key} header {knows} group {grouped}: {reply:?}"
                );
                if grouped {
                    assert_eq!(
                        refusal_in_group(&reply),
                        (expected.0, expected.1.to_owned()),
                        "{case}"
                    );
                } else if verb == Verb::Query && reply.status == 200 {
                    let found = reply.json()["value"].as_array().unwrap().len();
                    assert_eq!(
                        (found == 0, expected),
                        (expected.1 == "nothing", (200, expected.1)),
                        "{case}"
                    );
                } else {
                    assert_eq!(reply.refusal(), expected, "{case}");
                }
                let after = store.query_all(&table, &Query::new()).await.unwrap();
                let is_written = expected.0 < 300 && !verb.reads();
                assert_eq!(before != after, is_written, "{case}");
            }
        }
        let _ = store
            .write(
                &table,
                Operation::Delete(key, table_core::model::IfMatch::Any),
            )
            .await;
    }
}

#[tokio::test]
async fn every_credential_writes_the_rows_that_it_may_in_memory() {
    every_combination(
        Arc::new(MemoryStore::with_profile(ServiceProfile::SERVED)),
        &CREDENTIALS,
    )
    .await;
}

#[tokio::test]
async fn every_credential_writes_the_rows_that_it_may_embedded() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(directory.path()).await.unwrap();
    // The server decides, not the store: one credential of each kind shows that the store takes part.
    let some = [CREDENTIALS[0], CREDENTIALS[4], CREDENTIALS[10]];
    every_combination(Arc::new(store), &some).await;
}

/// A query with the header, and without it, over all rows.
#[tokio::test]
async fn a_page_has_the_rows_that_the_credential_shows() {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::with_profile(ServiceProfile::SERVED));
    let table: TableName = "abc".parse().unwrap();
    store.create_table(&table).await.unwrap();
    for (_, partition, row) in ROWS {
        store
            .write(
                &table,
                Operation::Insert(Entity::new(partition, row).unwrap()),
            )
            .await
            .unwrap();
    }
    let server = TestServer::serve(Arc::clone(&store)).await;
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    let client = Client { server, address };
    for credential in CREDENTIALS
        .iter()
        .filter(|credential| credential.letters.contains('r'))
    {
        for knows in [false, true] {
            let shown = |(kind, partition, _): &(Kind, &str, &str)| {
                credential.covers(partition)
                    && (*kind == Kind::Entity
                        || knows && (*kind == Kind::Part || !credential.has_range()))
            };
            let mut expected: Vec<_> = ROWS
                .iter()
                .filter(|row| shown(row))
                .map(|row| row.2)
                .collect();
            for top in [1, 3, 1000] {
                let (mut rows, mut next) = (Vec::new(), String::new());
                loop {
                    let ask = Ask::new("GET", format!("abc()?$top={top}{next}"));
                    let ask = ask.with("Accept", "application/json;odata=nometadata");
                    let ask = if knows {
                        ask.with("x-table-manifest-aware", "1")
                    } else {
                        ask
                    };
                    let reply = credential.send(&client, ask).await;
                    let page = reply.json()["value"].as_array().unwrap().clone();
                    rows.extend(
                        page.iter()
                            .map(|entity| entity["RowKey"].as_str().unwrap().to_owned()),
                    );
                    let [first, second] = ["nextpartitionkey", "nextrowkey"].map(|name| {
                        reply
                            .header(&format!("x-ms-continuation-{name}"))
                            .to_owned()
                    });
                    if first.is_empty() {
                        break;
                    }
                    next = format!("&NextPartitionKey={first}");
                    if !second.is_empty() {
                        next.push_str(&format!("&NextRowKey={second}"));
                    }
                }
                rows.sort_unstable();
                expected.sort_unstable();
                assert_eq!(rows, expected, "{credential:?} header {knows} top {top}");
            }
        }
    }
}
