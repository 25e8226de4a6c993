"""Runs one command of the interoperability suite with the Python client.

The example `interop` (tests/examples/interop) starts this script, and sets INTEROP_ENDPOINT, INTEROP_ACCOUNT, INTEROP_KEY and INTEROP_SAMPLE, the
path of the sample. `read`, `write`, `read_orders` and `use` print `[{"check", "problem"}]`, `update` the new ETag, `sign` the three signatures, and
`write_orders` null.

client.py read TABLE | write TABLE | write_orders TABLE | read_orders TABLE | update TABLE PARTITION ROW ETAG
        | use TABLE TOKEN RANGE_TOKEN ACCOUNT_TOKEN | sign TABLE FIRST_PARTITION LAST_PARTITION
"""

import base64
import datetime
import itertools
import json
import math
import os
import sys
import uuid

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError, ResourceModifiedError
from azure.data.tables import (
    EdmType,
    EntityProperty,
    TableClient,
    TableServiceClient,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)

from shared import check

ENDPOINT = os.environ["INTEROP_ENDPOINT"]
KEY = AzureNamedKeyCredential(os.environ["INTEROP_ACCOUNT"], os.environ["INTEROP_KEY"])
TYPES = "types"

with open(os.environ["INTEROP_SAMPLE"], encoding="utf-8") as file:
    SAMPLE = json.load(file)

# The native value that a program passes to the client for each EDM type. The client infers the type of plain values; others are wrapped.
TO_NATIVE = {
    "Edm.Binary": base64.b64decode,
    "Edm.Boolean": bool,
    "Edm.DateTime": lambda text: EntityProperty(text, EdmType.DATETIME),
    "Edm.Double": float,
    "Edm.Guid": uuid.UUID,
    "Edm.Int32": int,
    "Edm.Int64": lambda text: EntityProperty(int(text), EdmType.INT64),
    "Edm.String": str,
}


def to_native_entity(entity):
    values = {name: TO_NATIVE[edm_type](value) for name, (edm_type, value) in entity["properties"].items()}
    return {"PartitionKey": entity["partition"], "RowKey": entity["row"], **values}


def keys_only(entity):
    return {"PartitionKey": entity["partition"], "RowKey": entity["row"]}


def to_sample_value(value):
    """The type and value that the client read, in the form of the sample."""
    match value:
        case bool():
            return ["Edm.Boolean", value]
        case int():
            return ["Edm.Int32", value]
        case float():
            return ["Edm.Double", value if math.isfinite(value) else non_finite(value)]
        case str():
            return ["Edm.String", value]
        case bytes():
            return ["Edm.Binary", base64.b64encode(value).decode()]
        case uuid.UUID():
            return ["Edm.Guid", str(value)]
        case datetime.datetime():
            return ["Edm.DateTime", with_seven_decimals(value.tables_service_value)]
        case (number, EdmType.INT64):
            return ["Edm.Int64", str(number)]
    return [type(value).__name__, repr(value)]


def non_finite(value):
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def with_seven_decimals(text):
    """A time with seven decimals, as the service writes it."""
    seconds, _, decimals = text.removesuffix("Z").partition(".")
    return f"{seconds}.{decimals:0<7}Z"


def differences(expected, found):
    if (found["PartitionKey"], found["RowKey"]) != (expected["partition"], expected["row"]):
        return [f"{found['PartitionKey']!r}, {found['RowKey']!r} is another entity"]
    properties = {n: to_sample_value(v) for n, v in found.items() if n not in ("PartitionKey", "RowKey")}
    wanted = expected["properties"]
    names = sorted(set(properties) | set(wanted))
    # The JSON of 1 and 1.0 differs; in Python they are equal.
    differing = [n for n in names if json.dumps(properties.get(n)) != json.dumps(wanted.get(n))]
    return [f"{n}: {wanted.get(n)} found as {properties.get(n)}"[:200] for n in differing]


def problems_of(expected, read):
    try:
        return differences(expected, read())
    except (HttpResponseError, KeyError, TypeError, ValueError) as error:
        return [f"{expected['partition']!r}, {expected['row']!r}: {error!r}"[:200]]


def is_single(entity):
    return entity["partition"] in (TYPES, entity["row"])


def by_filter(table, entity):
    keys = {"p": entity["partition"], "r": entity["row"]}
    found = table.query_entities("PartitionKey eq @p and RowKey eq @r", parameters=keys)
    return next(iter(found), {"PartitionKey": "nothing", "RowKey": "found"})


def check_whole_table(table):
    pages = table.list_entities(results_per_page=100)
    found = {(e["PartitionKey"], e["RowKey"]): e for e in pages}
    expected = {(e["partition"], e["row"]): e for e in SAMPLE}
    problems = [f"{key} is missing" for key in set(expected) - set(found)]
    problems += [f"{key} is unexpected" for key in set(found) - set(expected)]
    for key in set(found) & set(expected):
        problems += differences(expected[key], found[key])
    return problems


def read(table):
    singles = [e for e in SAMPLE if is_single(e)]
    types = [e for e in singles if e["partition"] == TYPES]
    keys = [e for e in singles if e["partition"] != TYPES]

    def point(entity):
        return problems_of(entity, lambda: table.get_entity(entity["partition"], entity["row"]))

    def filtered(entity):
        return problems_of(entity, lambda: by_filter(table, entity))

    checks = [check(e["row"], point(e)) for e in types]
    checks.append(check("point reads", [p for e in keys for p in point(e)]))
    checks.append(check("filters", [p for e in keys for p in filtered(e)]))
    try:
        checks.append(check("whole table", check_whole_table(table)))
    except (HttpResponseError, KeyError, TypeError, ValueError) as error:
        checks.append(check("whole table", [repr(error)[:200]]))
    return checks


def write_one(table, number, entity):
    match number % 4:
        case 0:
            table.create_entity(to_native_entity(entity))
        case 1:
            table.upsert_entity(to_native_entity(entity), mode=UpdateMode.REPLACE)
        case rest:
            etag = table.create_entity(keys_only(entity))["etag"]
            mode = UpdateMode.MERGE if rest == 2 else UpdateMode.REPLACE
            unchanged = MatchConditions.IfNotModified
            table.update_entity(to_native_entity(entity), mode=mode, etag=etag, match_condition=unchanged)


def write_group(table, partition, entities):
    gone = {"PartitionKey": partition, "RowKey": "gone"}
    table.submit_transaction([("create", e) for e in [*map(keys_only, entities), gone]])
    modes = itertools.product(("upsert", "update"), ({"mode": UpdateMode.MERGE}, {"mode": UpdateMode.REPLACE}))
    changes = [(verb, to_native_entity(e), mode) for e, (verb, mode) in zip(entities, itertools.cycle(modes))]
    table.submit_transaction([*changes, ("delete", gone)])


def write(table):
    table.create_table()
    grouped = {}
    problems = {"single operations": [], "group transactions": []}

    def attempt(kind, which, job):
        try:
            job()
        except (HttpResponseError, TypeError, ValueError) as error:
            problems[kind].append(f"{which!r}: {error!r}"[:200])

    for number, entity in enumerate(filter(is_single, SAMPLE)):
        key = (entity["partition"], entity["row"])
        attempt("single operations", key, lambda: write_one(table, number, entity))
    for entity in itertools.filterfalse(is_single, SAMPLE):
        grouped.setdefault(entity["partition"], []).append(entity)
    for partition, entities in grouped.items():
        attempt("group transactions", partition, lambda: write_group(table, partition, entities))
    return [check(kind, found) for kind, found in problems.items()]


# The values of the orders (`tests/examples/interop/orders.rs`) that this client writes and reads alike.
ORDER = {
    "Price": 120.0,
    "Status": "Open",
    "Priority": 2,
    "Placed": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc),
    "Customer": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
    "Tags": '["new"]',
}
CLOSED = {**ORDER, "Price": 0.5, "Priority": 9, "Paid": True, "Picture": b"\x01\x02"}


def write_orders(table):
    """Writes rows from native values; the client infers the EDM types. The second row has former names of a property and of a value."""
    table.create_table()

    def create(row, count, values):
        table.create_entity({"PartitionKey": "all", "RowKey": f"{row:010}", "Count": count, **values})

    create(1, 3, ORDER)
    closed = {name: value for name, value in CLOSED.items() if name != "Status"}
    create(2, EntityProperty(5_000_000_000, EdmType.INT64), {**closed, "State": "closed"})
    create(3, EntityProperty(3, EdmType.INT64), {**ORDER, "Status": "Reopened"})


def read_orders(table):
    """Reads the rows of the typed program as native values."""
    order = {**ORDER, "Count": (3, EdmType.INT64), "Paid": False}
    closed = {**order, **CLOSED, "Count": (5_000_000_000, EdmType.INT64), "Status": "Closed"}
    wanted = [order, closed, {**order, "Status": "Reopened"}]

    def problems(row, values):
        found = dict(table.get_entity("all", row))
        keys = (found.pop("PartitionKey"), found.pop("RowKey"))
        names = sorted(set(found) | set(values))
        # True == 1 == 1.0 in Python, so the types are compared, too. The client's own types extend the native types.
        same = [n for n in names if n in found and n in values and found[n] == values[n] and isinstance(found[n], type(values[n]))]
        differing = [f"{n}: {values.get(n)!r} found as {found.get(n)!r}" for n in names if n not in same]
        return differing if keys == ("all", row) else [f"{keys} is another entity"]

    def attempt(row, values):
        try:
            return problems(row, values)
        except HttpResponseError as error:
            return [repr(error)[:200]]

    return [check(f"order {n}", attempt(f"{n:010}", values)) for n, values in enumerate(wanted, 1)]


def update(table, partition, row, etag):
    """Writes under the ETag that the other client received and returns the new ETag. Fails if the old ETag is still accepted."""
    change = {"PartitionKey": partition, "RowKey": row, "Writer": "Python"}

    def replace():
        return table.update_entity(change, mode=UpdateMode.REPLACE, etag=etag, match_condition=MatchConditions.IfNotModified)

    new = replace()["etag"]
    try:
        replace()
    except ResourceModifiedError:
        return new
    raise AssertionError("a write under the old ETag was not refused")


def may_read(table):
    expected = next(e for e in SAMPLE if e["partition"] == e["row"] == "it's")
    return problems_of(expected, lambda: table.get_entity("it's", "it's"))


def may_not_write(table):
    try:
        table.create_entity({"PartitionKey": "a", "RowKey": "guest"})
    except HttpResponseError as error:
        return [] if error.status_code == 403 else [repr(error)]
    return ["was not refused"]


def lists(token, name):
    service = TableServiceClient(ENDPOINT, credential=AzureSasCredential(token))
    try:
        return [] if name in [t.name for t in service.list_tables()] else ["not listed"]
    except HttpResponseError as error:
        return [repr(error)]


def use(table, table_token, range_token, account_token):
    def with_sas(token):
        return TableClient(ENDPOINT, table.table_name, credential=AzureSasCredential(token))

    return [
        check("table SAS: a read is allowed", may_read(with_sas(table_token))),
        check("table SAS: a write is refused", may_not_write(with_sas(table_token))),
        check("range SAS: a read is allowed", may_read(with_sas(range_token))),
        check("account SAS: a list is allowed", lists(account_token, table.table_name)),
        check("account SAS: a write is refused", may_not_write(with_sas(account_token))),
    ]


def sign(table, first, last):
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    name = table.table_name
    return {
        "table": generate_table_sas(KEY, name, permission="r", expiry=expiry),
        "range": generate_table_sas(KEY, name, permission="r", expiry=expiry, start_pk=first, end_pk=last),
        "account": generate_account_sas(KEY, resource_types="sco", permission="rl", expiry=expiry),
    }


def main():
    command, name, *arguments = sys.argv[1:]
    commands = [read, write, write_orders, read_orders, update, use, sign]
    run = {function.__name__: function for function in commands}[command]
    with TableClient(ENDPOINT, name, credential=KEY) as table:
        json.dump(run(table, *arguments), sys.stdout)


main()
