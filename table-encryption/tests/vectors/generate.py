"""Writes the known answers of docs/encryption-format.md, from the text of that document alone.

    python3 generate.py        needs the package `cryptography`
"""

import hashlib
import hmac
import json
import pathlib
import struct
import uuid

from cryptography.hazmat.primitives import hashes, keywrap
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

BINARY, BOOLEAN, DATETIME, DOUBLE, GUID, INT32, INT64, STRING = range(8)
KEK = bytes.fromhex("bea4114b9e4a07da664683ad2bad76412043e8bc90a4117d47c30fd4b4196d11")
HERE = pathlib.Path(__file__).parent


def lp(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(data)) + data


def derive(data_key, salt, scope, length):
    return HKDF(hashes.SHA256(), length, salt, scope).derive(data_key)


def wrapping(data_key, key_id):
    wrapped = keywrap.aes_key_wrap(KEK, b"tblenc2\0" + data_key)
    algorithm, key_id = b"A256KW", key_id.encode()
    return (
        bytes([len(algorithm)]) + algorithm
        + struct.pack(">H", len(key_id)) + key_id
        + struct.pack(">H", len(wrapped)) + wrapped
    )


def plaintext(kind, value):
    return {
        BINARY: lambda: bytes.fromhex(value),
        BOOLEAN: lambda: bytes([value]),
        DATETIME: lambda: struct.pack(">q", value),
        DOUBLE: lambda: struct.pack(">d", value),
        GUID: lambda: uuid.UUID(value).bytes,
        INT32: lambda: struct.pack(">i", value),
        INT64: lambda: struct.pack(">q", value),
        STRING: lambda: value.encode(),
    }[kind]()


def entity(name, table, partition, row, properties, data_key, salt, key_id="local:kek1"):
    scope = lp("table-encryption v2") + b"\x01" + lp(table) + lp(partition) + lp(row)
    okm = derive(data_key, salt, scope, 96)
    commitment, mac_key, gcm = okm[:32], okm[32:64], AESGCM(okm[64:])
    header = b"\x02\x01" + wrapping(data_key, key_id) + salt + commitment
    header += struct.pack(">H", len(properties))
    stored = []
    for i, (prop, kind, value) in enumerate(sorted(properties, key=lambda p: p[0].encode())):
        sealed = gcm.encrypt(struct.pack(">QI", 0, i), plaintext(kind, value), scope + lp(prop) + bytes([kind]))
        body, tag = sealed[:-16], sealed[-16:]
        header += struct.pack(">H", len(prop.encode())) + prop.encode() + bytes([kind]) + tag
        stored.append({"name": prop, "type": kind, "value": value, "plaintext": plaintext(kind, value).hex(),
                       "ciphertext": body.hex()})
    header += hmac.new(mac_key, header, hashlib.sha256).digest()
    return {"name": name, "table": table, "partition": partition, "row": row, "key_id": key_id, "kek": KEK.hex(),
            "data_key": data_key.hex(), "salt": salt.hex(), "properties": stored, "header": header.hex()}


def blob(name, table, partition, row, blob_name, content, data_key, salt, chunk):
    scope = lp("table-encryption v2 blob") + b"\x01" + lp(table) + lp(partition) + lp(row) + lp(blob_name)
    scope += struct.pack(">I", chunk)
    okm = derive(data_key, salt, scope, 64)
    gcm = AESGCM(okm[32:])
    out = b"TEB2\x01" + wrapping(data_key, "local:kek1") + salt + okm[:32] + struct.pack(">I", chunk)
    chunks = [content[i:i + chunk] for i in range(0, len(content), chunk)] or [b""]
    for i, part in enumerate(chunks):
        nonce = bytes(7) + struct.pack(">I", i) + bytes([i + 1 == len(chunks)])
        out += gcm.encrypt(nonce, part, scope)
    return {"name": name, "table": table, "partition": partition, "row": row, "blob": blob_name, "chunk": chunk,
            "kek": KEK.hex(), "data_key": data_key.hex(), "salt": salt.hex(), "content": content.hex(),
            "sealed": out.hex()}


def blind(index, kind, value, key):
    message = lp("table-encryption v2 blind index") + lp(index) + bytes([kind]) + lp(plaintext(kind, value))
    return {"index": index, "type": kind, "plaintext": plaintext(kind, value).hex(), "key": key.hex(),
            "token": hmac.new(key, message, hashlib.sha256).hexdigest()}


def cbc(key, iv, data):
    pad = 16 - len(data) % 16
    encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return encryptor.update(data + bytes([pad]) * pad) + encryptor.finalize()


def legacy(name, java, spaced):
    """The legacy format by its rules; the values of the first were also produced by azure-cosmosdb-table 1.0.6."""
    import base64
    b64 = lambda data: base64.b64encode(data).decode()
    cek, iv = bytes(range(32)), bytes(range(0x64, 0x74))
    keys = "pkrk" if java else "rkpk"
    property_iv = lambda prop: hashlib.sha256(iv + (keys + prop).encode()).digest()[:16]
    values = {"name": "jonesj@contoso.com", "mail": "ñandú"}
    names = list(values)
    listed = "[" + ", ".join(names) + "]" if java else json.dumps(names, separators=(", " if spaced else ",", ":"))
    library = {"EncryptionLibrary": "Java 5.0.0"} if java else {"EncryptionLibrary": "Python 1.0.6" if spaced else ".NET 9.3.2"}
    metadata1 = {
        "WrappedContentKey": {"KeyId": "local:key1", "EncryptedKey": b64(keywrap.aes_key_wrap(KEK, cek)),
                              "Algorithm": "A256KW"},
        "EncryptionAgent": {"Protocol": "1.0", "EncryptionAlgorithm": "AES_CBC_256"},
        "ContentEncryptionIV": b64(iv),
        "KeyWrappingMetadata": library,
    }
    return {"name": name, "partition": "pk", "row": "rk", "kek": KEK.hex(), "key_id": "local:key1",
            "values": values, "metadata1": json.dumps(metadata1, separators=(", ", ": ") if spaced else (",", ":")),
            "metadata2": b64(cbc(cek, property_iv("_ClientEncryptionMetadata2"), listed.encode())),
            "properties": {n: b64(cbc(cek, property_iv(n), v.encode())) for n, v in values.items()}}


def every_type():
    return [
        ("Photo", BINARY, "00ff10"), ("Empty", BINARY, ""), ("Married", BOOLEAN, 1), ("Born", DATETIME, 634925952000000001),
        ("Salary", DOUBLE, -0.5), ("Badge", GUID, "c0ffee00-1234-4678-9abc-def012345678"), ("Grade", INT32, -7),
        ("Account", INT64, 2**53 + 1), ("NationalId", STRING, "760519-1234"), ("Ñandú", STRING, "ñandú 日本"),
    ]


KEY, SALT = bytes(range(32)), bytes(range(0x40, 0x60))
INDEX_KEY = bytes(range(0x80, 0xA0))
v2 = {
    "entities": [
        entity("every type", "employees", "Sales", "empid_000223", every_type(), KEY, SALT),
        entity("nothing encrypted", "employees", "Sales", "empid_000224", [], KEY, SALT),
        entity("difficult keys", "Employees", "", "日本 +ab", [("A", STRING, "x"), ("B", STRING, "x")], KEY, SALT[::-1],
               "https://vault.example/keys/kek/1"),
    ],
    "blobs": [
        blob("empty", "documents", "p", "r", "Body", b"", KEY, SALT, 16),
        blob("one full chunk", "documents", "p", "r", "Body", bytes(range(16)), KEY, SALT, 16),
        blob("three chunks", "documents", "p", "r", "Body", bytes(range(40)), KEY, SALT, 16),
    ],
    "blind": [
        blind("email", STRING, "jonesj@contoso.com", INDEX_KEY),
        blind("salary", STRING, "jonesj@contoso.com", INDEX_KEY),
        blind("grade", INT32, -7, INDEX_KEY),
    ],
}
v1 = [legacy("Python", False, True), legacy(".NET", False, False), legacy("Java", True, False)]
for file, content in [("v2.json", v2), ("v1.json", v1)]:
    (HERE / file).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
