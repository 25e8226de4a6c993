"""What a person would write with azure-data-tables instead of `tables`: a table into a file, and a file into a table.

move.py import FILE TABLE | move.py export TABLE FILE       the file has lines of JSON
"""

import base64
import json
import os
import sys

from azure.data.tables import EdmType, EntityProperty, TableServiceClient

GROUP = 100
ANNOTATION = "@odata.type"


def read(line):
    members = json.loads(line)
    entity = {}
    for name, value in members.items():
        if name.endswith(ANNOTATION):
            continue
        of = members.get(name + ANNOTATION)
        entity[name] = EntityProperty(int(value) if of == "Edm.Int64" else value, EdmType(of)) if of else value
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
        of = None
        if isinstance(value, EntityProperty):
            value, of = value.value, value.edm_type.value
        elif isinstance(value, bytes):
            value, of = base64.b64encode(value).decode(), "Edm.Binary"
        elif hasattr(value, "isoformat"):
            value, of = value.isoformat(), "Edm.DateTime"
        elif type(value).__name__ == "UUID":
            value, of = str(value), "Edm.Guid"
        if of:
            members[name + ANNOTATION] = of
        members[name] = str(value) if of == "Edm.Int64" else value
    return json.dumps(members) + "\n"


service = TableServiceClient.from_connection_string(os.environ["AZURITE_CONNECTION_STRING"])
match sys.argv[1:]:
    case ["import", path, name]:
        table = service.create_table_if_not_exists(name)
        with open(path) as file:
            for group in groups(file):
                table.submit_transaction([("create", entity) for entity in group])
    case ["export", name, path]:
        with open(path, "w") as file:
            file.writelines(line(entity) for entity in service.get_table_client(name).list_entities())
    case _:
        sys.exit(__doc__)
