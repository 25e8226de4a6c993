"""The baseline of `interop/cli python`: a table into lines of JSON and back, as a short script with azure-data-tables.

baseline.py import FILE TABLE | baseline.py export TABLE FILE | baseline.py compare FILE FILE...

`import` and `export` need the environment variable AZURITE_CONNECTION_STRING. `compare` fails unless all files have the rows of the first one.
"""

import base64
import datetime
import json
import os
import sys
import uuid

from azure.data.tables import EdmType, EntityProperty, TableServiceClient

GROUP = 100
ANNOTATION = "@odata.type"


def read(line):
    members = json.loads(line)
    entity = {}
    for name, value in members.items():
        if name.endswith(ANNOTATION):
            continue
        edm_type = members.get(name + ANNOTATION)
        entity[name] = EntityProperty(int(value) if edm_type == "Edm.Int64" else value, EdmType(edm_type)) if edm_type else value
    return entity


def groups(file):
    group = []
    for line in file:
        entity = read(line)
        if group and (len(group) == GROUP or group[0]["PartitionKey"] != entity["PartitionKey"]):
            yield group
            group = []
        group.append(entity)
    if group:
        yield group


def line(entity):
    members = {}
    for name, value in entity.items():
        edm_type = None
        if isinstance(value, EntityProperty):
            value, edm_type = value.value, value.edm_type.value
        elif isinstance(value, bytes):
            value, edm_type = base64.b64encode(value).decode(), "Edm.Binary"
        elif isinstance(value, datetime.datetime):
            # The client's type of times keeps the text of the service: Python's times have six decimals.
            value, edm_type = value.tables_service_value, "Edm.DateTime"
        elif isinstance(value, uuid.UUID):
            value, edm_type = str(value), "Edm.Guid"
        if edm_type:
            members[name + ANNOTATION] = edm_type
        members[name] = str(value) if edm_type == "Edm.Int64" else value
    return json.dumps(members) + "\n"


def rows(path):
    """The rows of a file by their keys. The annotation of a Double is optional."""
    with open(path, encoding="utf-8") as file:
        entities = [{k: v for k, v in json.loads(line).items() if v != "Edm.Double"} for line in file]
    return {(entity["PartitionKey"], entity["RowKey"]): entity for entity in entities}


def compare(first, *others):
    expected = rows(first)
    for path in others:
        found = rows(path)
        differing = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
        if differing:
            key = min(differing)
            sys.exit(f"FAILED: {path} differs from {first} in {len(differing)} rows: {found.get(key)} instead of {expected.get(key)}")


def service():
    return TableServiceClient.from_connection_string(os.environ["AZURITE_CONNECTION_STRING"])


match sys.argv[1:]:
    case ["compare", first, *others]:
        compare(first, *others)
    case ["import", path, name]:
        table = service().create_table_if_not_exists(name)
        with open(path, encoding="utf-8") as file:
            for group in groups(file):
                table.submit_transaction([("create", entity) for entity in group])
    case ["export", name, path]:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line(entity) for entity in service().get_table_client(name).list_entities())
    case _:
        sys.exit(__doc__)
