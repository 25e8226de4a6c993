"""Runs operations of a Python program on this library's server, with the synchronous and the asynchronous client. Prints `[{"check", "problem"}]`.

The example `interop` (tests/examples/interop) starts this script, and sets INTEROP_CONNECTION, INTEROP_ENDPOINT, INTEROP_ACCOUNT and INTEROP_KEY. The
asynchronous client normally uses aiohttp; this script gives it `AsyncioRequestsTransport`, so aiohttp is not needed.
"""

import asyncio
import datetime
import json
import os
import uuid

from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.core.pipeline.transport import AsyncioRequestsTransport
from azure.data.tables import (
    TableAccessPolicy,
    TableClient,
    TableCorsRule,
    TableSasPermissions,
    TableServiceClient,
    TableTransactionError,
    UpdateMode,
    generate_table_sas,
)
from azure.data.tables.aio import TableServiceClient as AsyncServiceClient

from shared import expect, refused, run

CONNECTION = os.environ["INTEROP_CONNECTION"]
ENDPOINT = os.environ["INTEROP_ENDPOINT"]
KEY = AzureNamedKeyCredential(os.environ["INTEROP_ACCOUNT"], os.environ["INTEROP_KEY"])
CHECKS = []


def name():
    return "Py" + uuid.uuid4().hex


def in_one_hour():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)


def with_sas(table, token):
    return TableClient(ENDPOINT, table.table_name, credential=AzureSasCredential(token))


def check(function):
    CHECKS.append(function)
    return function


def entity(row, **more):
    return {"PartitionKey": "p", "RowKey": str(row), **more}


@check
def tables(service):
    names = sorted(name() for _ in range(3))
    for each in names:
        service.create_table(each)
    refused(ResourceExistsError, lambda: service.create_table(names[0]), 409)
    service.create_table_if_not_exists(names[0])
    listed = [table.name for table in service.list_tables()]
    expect([each for each in names if each not in listed], [])
    found = service.query_tables("TableName eq @name", parameters={"name": names[1]})
    expect([table.name for table in found], [names[1]])
    pages = list(service.list_tables(results_per_page=2).by_page())
    assert len(pages) > 1, f"{len(pages)} pages of 2 tables for {len(listed)} tables"
    for each in names:
        service.delete_table(each)
    service.delete_table(names[0])  # The client ignores "not found".
    expect([table.name for table in service.list_tables() if table.name in names], [])


@check
def entities(service):
    table = service.create_table(name())
    made = table.create_entity(entity(1, Age=41, Name="Ken"))
    refused(ResourceExistsError, lambda: table.create_entity(entity(1)), 409)
    read = table.get_entity("p", "1")
    expect(read["Age"], 41)
    expect(read["Name"], "Ken")
    expect(read.metadata["etag"], made["etag"])
    assert read.metadata["timestamp"] is not None, "no timestamp"
    table.update_entity(entity(1, Age=42), mode=UpdateMode.MERGE)
    expect(dict(table.get_entity("p", "1", select=["Age", "Name"])), {"Age": 42, "Name": "Ken"})
    stale = {"etag": made["etag"], "match_condition": MatchConditions.IfNotModified}
    refused(ResourceModifiedError, lambda: table.update_entity(entity(1), mode=UpdateMode.REPLACE, **stale), 412)
    table.upsert_entity(entity(1, Age=43), mode=UpdateMode.REPLACE)
    expect(dict(table.get_entity("p", "1")), entity(1, Age=43))
    expect(dict(table.get_entity("p", "1", select=["Age"])), {"Age": 43})
    refused(ResourceModifiedError, lambda: table.delete_entity("p", "1", **stale), 412)
    table.delete_entity("p", "1")
    refused(ResourceNotFoundError, lambda: table.get_entity("p", "1"), 404)
    refused(ResourceNotFoundError, lambda: table.update_entity(entity(1), mode=UpdateMode.REPLACE), 404)


@check
def queries(service):
    table = service.create_table(name())
    table.submit_transaction([("create", entity(f"{n:03}", N=n, Odd=n % 2 == 1)) for n in range(100)])
    expect(len(list(table.list_entities())), 100)
    found = table.query_entities("N ge @low and Odd eq true", parameters={"low": 90}, select=["N"])
    expect([dict(each) for each in found], [{"N": n} for n in (91, 93, 95, 97, 99)])
    pages = table.list_entities(results_per_page=30).by_page()
    sizes, token = [], None
    for page in pages:
        sizes.append(len(list(page)))
        token = token or pages.continuation_token
    expect(sizes, [30, 30, 30, 10])
    rest = [len(list(page)) for page in table.list_entities(results_per_page=30).by_page(token)]
    expect(rest, [30, 30, 10])
    refused(HttpResponseError, lambda: list(table.query_entities("N ge")), 400, "InvalidInput")


@check
def transactions(service):
    table = service.create_table(name())
    table.create_entity(entity("old", A=1))
    old = table.get_entity("p", "old")
    answers = table.submit_transaction([
        ("create", entity("new")),
        ("update", old, {"mode": "replace", "etag": old.metadata["etag"], "match_condition": MatchConditions.IfNotModified}),
        ("upsert", entity("more", B=1)),
        ("upsert", entity("more2", B=1), {"mode": "replace"}),
    ])
    expect(len(answers), 4)
    assert all(answer["etag"] for answer in answers), f"an answer without an ETag: {answers}"
    expect(dict(table.get_entity("p", "old")), entity("old", A=1))
    expect(dict(table.get_entity("p", "more2")), entity("more2", B=1))
    operations = [("create", entity("x")), ("create", entity("old"))]
    error = refused(TableTransactionError, lambda: table.submit_transaction(operations))
    expect(error.error_code, "EntityAlreadyExists")
    expect(error.index, 1)
    twice = [("upsert", entity("x")), ("upsert", entity("x"))]
    error = refused(TableTransactionError, lambda: table.submit_transaction(twice))
    expect(error.error_code, "InvalidDuplicateRow")
    expect(error.index, 1)
    missing = [("delete", entity("missing"))]
    error = refused(TableTransactionError, lambda: table.submit_transaction(missing), code="ResourceNotFound")
    expect(error.index, 0)
    refused(ResourceNotFoundError, lambda: table.get_entity("p", "x"), 404)
    missing_table = TableClient(ENDPOINT, name(), credential=KEY)
    refused(HttpResponseError, lambda: missing_table.submit_transaction([("create", entity(1))]), code="TableNotFound")


@check
def policies(service):
    table = service.create_table(name())
    table.create_entity(entity(1))
    table.set_table_access_policy({"readers": TableAccessPolicy(expiry=in_one_hour(), permission="r"), "empty": None})
    expect(table.get_table_access_policy()["readers"].permission, "r")
    token = generate_table_sas(KEY, table.table_name, policy_id="readers")
    reader = with_sas(table, token)
    expect(reader.get_entity("p", "1")["RowKey"], "1")
    refused(HttpResponseError, lambda: reader.create_entity(entity(2)), 403)
    table.set_table_access_policy({})
    refused(HttpResponseError, lambda: reader.get_entity("p", "1"), 403)


@check
def ranges(service):
    table = service.create_table(name())
    for row in "abc":
        table.create_entity(entity(row))
    keys = {"start_pk": "p", "start_rk": "b", "end_pk": "p", "end_rk": "b"}
    rights = TableSasPermissions(read=True, delete=True)
    token = generate_table_sas(KEY, table.table_name, permission=rights, expiry=in_one_hour(), **keys)
    reader = with_sas(table, token)
    expect([each["RowKey"] for each in reader.list_entities()], ["b"])
    refused(ResourceNotFoundError, lambda: reader.get_entity("p", "a"), 404)
    refused(HttpResponseError, lambda: reader.delete_entity("p", "a"), 403)
    reader.delete_entity("p", "b")
    expect([each["RowKey"] for each in table.list_entities()], ["a", "c"])


@check
def service_properties(service):
    rule = TableCorsRule(["https://a.example"], allowed_methods=["GET"], max_age_in_seconds=5)
    service.set_service_properties(cors=[rule])
    found = service.get_service_properties()["cors"]
    expect([(each.allowed_origins, each.allowed_methods, each.max_age_in_seconds) for each in found], [(["https://a.example"], ["GET"], 5)])
    service.set_service_properties(cors=[])
    expect(service.get_service_properties()["cors"], [])
    # No statistics: the client has no address for a secondary whose account is in the path.


@check
def wrong_account_key(service):
    wrong = AzureNamedKeyCredential(os.environ["INTEROP_ACCOUNT"], "d3Jvbmc=")
    with_wrong_key = TableServiceClient(ENDPOINT, credential=wrong)
    refused(HttpResponseError, lambda: list(with_wrong_key.list_tables()), 403, "AuthenticationFailed")


async def asynchronous():
    async with AsyncServiceClient.from_connection_string(CONNECTION, transport=AsyncioRequestsTransport()) as service:
        table = await service.create_table(name())
        await table.submit_transaction([("create", entity(n, N=n)) for n in range(10)])
        found = [each["N"] async for each in table.query_entities("N lt 3")]
        expect(found, [0, 1, 2])
        pages = [len([each async for each in page]) async for page in table.list_entities(results_per_page=4).by_page()]
        expect(pages, [4, 4, 2])
        await asyncio.gather(*(table.upsert_entity(entity(n, M=n)) for n in range(10)))
        expect((await table.get_entity("p", "7"))["M"], 7)
        await service.delete_table(table.table_name)


def main():
    with TableServiceClient.from_connection_string(CONNECTION) as service:
        results = [run(job.__name__, lambda job=job: job(service)) for job in CHECKS]
    results.append(run("asynchronous", lambda: asyncio.run(asynchronous())))
    print(json.dumps(results))


main()
