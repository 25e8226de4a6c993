//! Cost of encrypted properties compared with the bare cipher: format, key derivation per write, and packing.
//!
//! `cargo bench -p table-encryption --bench cost`

use std::hint::black_box;
use std::sync::Arc;

use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Key as GcmKey};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, Keys};
use tokio::runtime::Runtime;

/// Number of properties, and bytes of each.
const SHAPES: [(usize, usize); 4] = [(1, 16), (1, 1024), (10, 16), (10, 1024)];

fn entity(properties: usize, bytes: usize, marked: bool) -> Entity {
    let empty = Entity::new("Sales", "empid_000223").expect("a legal key");
    (0..properties).fold(empty, |entity, n| {
        let (name, value) = (format!("Property{n}"), "x".repeat(bytes));
        if marked {
            entity.with_encrypted(&name, value)
        } else {
            entity.with(&name, value)
        }
    })
}

fn raw_cipher(c: &mut Criterion) {
    let mut group = c.benchmark_group("raw aes-gcm");
    for (properties, bytes) in SHAPES {
        group.bench_function(
            BenchmarkId::from_parameter(format!("{properties}x{bytes}")),
            |b| {
                let cipher = Aes256Gcm::new(&GcmKey::<Aes256Gcm>::from([7; 32]));
                let mut values = vec![vec![0_u8; bytes]; properties];
                b.iter(|| {
                    for (n, value) in values.iter_mut().enumerate() {
                        let nonce = [n as u8; 12].into();
                        black_box(
                            cipher
                                .encrypt_inout_detached(&nonce, b"", value.as_mut_slice().into())
                                .expect("small"),
                        );
                    }
                });
            },
        );
    }
    group.finish();
}

fn stores(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let table = TableName::new("People").expect("a name");
    let kek = AesKeyWrap::new("kek", &vec![1; 32].into()).expect("32 bytes");
    let encrypted =
        EncryptedStore::new(MemoryStore::new(), Keys::new(Arc::new(kek))).expect("keys");
    let plain = MemoryStore::new();
    let stores: [(&str, &dyn TableStore, bool); 2] =
        [("plain", &plain, false), ("encrypted", &encrypted, true)];
    for (name, store, marked) in stores {
        runtime
            .block_on(store.create_table(&table))
            .expect("a table");
        let mut group = c.benchmark_group(name);
        for (properties, bytes) in SHAPES {
            let shape = format!("{properties}x{bytes}");
            let entity = entity(properties, bytes, marked);
            group.bench_function(BenchmarkId::new("write", &shape), |b| {
                b.to_async(&runtime)
                    .iter(|| store.write(&table, Operation::InsertOrReplace(entity.clone())));
            });
            group.bench_function(BenchmarkId::new("read", &shape), |b| {
                b.to_async(&runtime)
                    .iter(|| store.get(&table, entity.key(), None));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, raw_cipher, stores);
criterion_main!(benches);
