"""Writes and reads encrypted entities of the legacy format v1 with `azure-cosmosdb-table`. Prints `[{"check", "problem"}]`.

The example `interop` (tests/examples/interop) starts this script, and sets INTEROP_ENDPOINT, INTEROP_ACCOUNT and INTEROP_KEY. DIRECTORY is the folder
of the RSA key, which `keys` creates.

encryption_v1.py keys DIRECTORY | write TABLE DIRECTORY | read TABLE DIRECTORY
"""

import json
import os
import sys
import warnings

warnings.simplefilter("ignore")

from azure.cosmosdb.table.models import EdmType, Entity, EntityProperty
from azure.cosmosdb.table.tableservice import TableService
from cryptography.hazmat.primitives import hashes, keywrap, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from shared import expect, run

OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
# PartitionKey, RowKey, and the encrypted values.
ROWS = [
    ("Sales", "223", {"Name": "Ken", "Mail": "jonesj@contoso.com"}),
    ("ñandú", "a b", {"Name": "日本", "Mail": ""}),
    ("p", "it's", {"Name": "x" * 1000}),
]


class Aes:
    """A key of 32 bytes by RFC 3394."""

    def __init__(self):
        self.key = bytes(range(1, 33))

    def get_kid(self):
        return "local:aes"

    def get_key_wrap_algorithm(self):
        return "A256KW"

    def wrap_key(self, key):
        return keywrap.aes_key_wrap(self.key, key)

    def unwrap_key(self, key, algorithm):
        assert algorithm == "A256KW", algorithm
        return keywrap.aes_key_unwrap(self.key, key)


class Rsa:
    """A key by OAEP, under the algorithm name of the client's own samples."""

    def __init__(self, directory):
        with open(os.path.join(directory, "rsa.der"), "rb") as file:
            self.key = serialization.load_der_private_key(file.read(), None)

    def get_kid(self):
        return "local:rsa"

    def get_key_wrap_algorithm(self):
        return "RSA"

    def wrap_key(self, key):
        return self.key.public_key().encrypt(key, OAEP)

    def unwrap_key(self, key, algorithm):
        assert algorithm == "RSA", algorithm
        return self.key.decrypt(key, OAEP)


def service():
    endpoint = os.environ["INTEROP_ENDPOINT"].rstrip("/")
    account, key = os.environ["INTEROP_ACCOUNT"], os.environ["INTEROP_KEY"]
    return TableService(
        connection_string=f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};TableEndpoint={endpoint}"
    )


def write_keys(directory):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    der = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with open(os.path.join(directory, "rsa.der"), "wb") as file:
        file.write(der)


def write(table, key):
    tables = service()
    tables.create_table(table)
    tables.key_encryption_key = key
    for partition, row, values in ROWS:
        entity = Entity(PartitionKey=partition, RowKey=row, Age=41)
        for name, value in values.items():
            entity[name] = EntityProperty(EdmType.STRING, value, encrypt=True)
        tables.insert_entity(table, entity)


def read(table, key):
    tables = service()
    tables.key_encryption_key = key
    tables.require_encryption = True
    found = {(e.PartitionKey, e.RowKey): e for e in tables.query_entities(table)}
    for partition, row, values in ROWS:
        for entity in (found[partition, row], tables.get_entity(table, partition, row)):
            seen = {name: entity[name] for name in values}
            expect((partition, row, seen), (partition, row, values))
            expect((entity["Age"].type, entity["Age"].value), (EdmType.INT32, 41))
    expect(len(found), len(ROWS))
    tables.key_encryption_key = None
    tables.key_resolver_function = lambda kid: key if kid == key.get_kid() else None
    # The client adds the two metadata properties to the projection of a query, but not of a point read.
    needed = "PartitionKey,RowKey,_ClientEncryptionMetadata1,_ClientEncryptionMetadata2"
    some = tables.get_entity(table, *ROWS[0][:2], select=f"Name,{needed}")
    expect(some["Name"], "Ken")


def main(command, *arguments):
    if command == "keys":
        write_keys(*arguments)
        return []
    table, directory = arguments
    kinds = {"Aes": Aes(), "Rsa": Rsa(directory)}
    job = {"write": write, "read": read}[command]
    return [run(f"entities under {kind}", lambda: job(table + kind, key)) for kind, key in kinds.items()]


json.dump(main(*sys.argv[1:]), sys.stdout)
