"""What a Python program does with this library's server, by the synchronous and the asynchronous client. Prints what
came of it as JSON. The asynchronous one needs aiohttp, which is not installed here; it runs over the transport below.
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

CONNECTION = os.environ["INTEROP_CONNECTION"]
ENDPOINT = os.environ["INTEROP_ENDPOINT"]
KEY = AzureNamedKeyCredential(os.environ["INTEROP_ACCOUNT"], os.environ["INTEROP_KEY"])
CHECKS = []


def name():
    return "Py" + uuid.uuid4().hex


def refused(kind, job, status=None):
    """The error that the service's answer must make."""
    try:
        job()
    except kind as error:
        assert status is None or error.status_code == status, f"{error.status_code}: {error}"
        return error
    raise AssertionError(f"not refused as {kind.__name__}")


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
    assert set(names) <= set(listed), listed
    found = service.query_tables("TableName eq @name", parameters={"name": names[1]})
    assert [table.name for table in found] == [names[1]]
    pages = list(service.list_tables(results_per_page=2).by_page())
    assert len(pages) > 1
    for each in names:
        service.delete_table(each)
    service.delete_table(names[0])  # The client takes "not found" for done.
    assert not set(names) & {table.name for table in service.list_tables()}


@check
def entities(service):
    table = service.create_table(name())
    made = table.create_entity(entity(1, Age=41, Name="Ken"))
    refused(ResourceExistsError, lambda: table.create_entity(entity(1)), 409)
    read = table.get_entity("p", "1")
    assert (read["Age"], read.metadata["etag"]) == (41, made["etag"]), read
    assert read.metadata["timestamp"] is not None
    table.update_entity(entity(1, Age=42), mode=UpdateMode.MERGE)
    assert table.get_entity("p", "1")["Name"] == "Ken"
    stale = {"etag": made["etag"], "match_condition": MatchConditions.IfNotModified}
    refused(ResourceModifiedError, lambda: table.update_entity(entity(1), mode=UpdateMode.REPLACE, **stale), 412)
    table.upsert_entity(entity(1, Age=43), mode=UpdateMode.REPLACE)
    assert "Name" not in table.get_entity("p", "1")
    assert dict(table.get_entity("p", "1", select=["Age"])) == {"Age": 43}
    refused(ResourceModifiedError, lambda: table.delete_entity("p", "1", **stale), 412)
    table.delete_entity("p", "1")
    refused(ResourceNotFoundError, lambda: table.get_entity("p", "1"), 404)
    refused(ResourceNotFoundError, lambda: table.update_entity(entity(1), mode=UpdateMode.REPLACE), 404)


@check
def queries(service):
    table = service.create_table(name())
    table.submit_transaction([("create", entity(f"{n:03}", N=n, Odd=n % 2 == 1)) for n in range(100)])
    assert len(list(table.list_entities())) == 100
    found = table.query_entities("N ge @low and Odd eq true", parameters={"low": 90}, select=["N"])
    assert [each["N"] for each in found] == [91, 93, 95, 97, 99]
    pages = table.list_entities(results_per_page=30).by_page()
    sizes, token = [], None
    for page in pages:
        sizes.append(len(list(page)))
        token = token or pages.continuation_token
    assert sizes == [30, 30, 30, 10], sizes
    rest = [len(list(page)) for page in table.list_entities(results_per_page=30).by_page(token)]
    assert rest == [30, 30, 10], rest
    refused(HttpResponseError, lambda: list(table.query_entities("N ge")), 400)


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
    assert len(answers) == 4 and all(answer["etag"] for answer in answers), answers
    operations = [("create", entity("x")), ("create", entity("old"))]
    error = refused(TableTransactionError, lambda: table.submit_transaction(operations))
    assert (error.index, error.error_code) == (1, "EntityAlreadyExists"), (error.index, error.error_code)
    twice = [("upsert", entity("x")), ("upsert", entity("x"))]
    error = refused(TableTransactionError, lambda: table.submit_transaction(twice))
    assert (error.index, error.error_code) == (1, "InvalidDuplicateRow"), (error.index, error.error_code)
    missing = [("delete", entity("nobody"))]
    error = refused(TableTransactionError, lambda: table.submit_transaction(missing))
    assert error.error_code == "ResourceNotFound", error.error_code
    refused(ResourceNotFoundError, lambda: table.get_entity("p", "x"), 404)
    elsewhere = TableClient(ENDPOINT, name(), credential=KEY)
    error = refused(HttpResponseError, lambda: elsewhere.submit_transaction([("create", entity(1))]))
    assert error.error_code == "TableNotFound", error


@check
def policies(service):
    table = service.create_table(name())
    table.create_entity(entity(1))
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    table.set_table_access_policy({"readers": TableAccessPolicy(expiry=later, permission="r"), "empty": None})
    assert table.get_table_access_policy()["readers"].permission == "r"
    token = generate_table_sas(KEY, table.table_name, policy_id="readers")
    guest = TableClient(ENDPOINT, table.table_name, credential=AzureSasCredential(token))
    assert guest.get_entity("p", "1")["RowKey"] == "1"
    refused(HttpResponseError, lambda: guest.create_entity(entity(2)), 403)
    table.set_table_access_policy({})
    refused(HttpResponseError, lambda: guest.get_entity("p", "1"), 403)


@check
def ranges(service):
    table = service.create_table(name())
    for row in "abc":
        table.create_entity(entity(row))
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    keys = {"start_pk": "p", "start_rk": "b", "end_pk": "p", "end_rk": "b"}
    rights = TableSasPermissions(read=True, delete=True)
    token = generate_table_sas(KEY, table.table_name, permission=rights, expiry=later, **keys)
    guest = TableClient(ENDPOINT, table.table_name, credential=AzureSasCredential(token))
    assert [each["RowKey"] for each in guest.list_entities()] == ["b"]
    refused(ResourceNotFoundError, lambda: guest.get_entity("p", "a"), 404)
    refused(HttpResponseError, lambda: guest.delete_entity("p", "a"), 403)
    guest.delete_entity("p", "b")


@check
def properties(service):
    rule = TableCorsRule(["https://a.example"], allowed_methods=["GET"], max_age_in_seconds=5)
    service.set_service_properties(cors=[rule])
    found = service.get_service_properties()["cors"]
    assert [(each.allowed_origins, each.max_age_in_seconds) for each in found] == [(["https://a.example"], 5)]
    service.set_service_properties(cors=[])
    assert service.get_service_properties()["cors"] == []
    # No statistics: the client has no address for a secondary whose account is in the path.


@check
def strangers(service):
    wrong = AzureNamedKeyCredential(os.environ["INTEROP_ACCOUNT"], "d3Jvbmc=")
    stranger = TableServiceClient(ENDPOINT, credential=wrong)
    refused(HttpResponseError, lambda: list(stranger.list_tables()), 403)


async def asynchronous():
    async with AsyncServiceClient.from_connection_string(CONNECTION, transport=AsyncioRequestsTransport()) as service:
        table = await service.create_table(name())
        await table.submit_transaction([("create", entity(n, N=n)) for n in range(10)])
        found = [each["N"] async for each in table.query_entities("N lt 3")]
        assert found == [0, 1, 2], found
        pages = [len([each async for each in page]) async for page in table.list_entities(results_per_page=4).by_page()]
        assert pages == [4, 4, 2], pages
        await asyncio.gather(*(table.upsert_entity(entity(n, M=n)) for n in range(10)))
        assert (await table.get_entity("p", "7"))["M"] == 7
        await service.delete_table(table.table_name)


def outcome(which, job):
    try:
        job()
        return {"check": which, "problem": None}
    except Exception as error:  # Whatever is wrong is the check's outcome.
        return {"check": which, "problem": f"{type(error).__name__}: {error}"[:300]}


def main():
    with TableServiceClient.from_connection_string(CONNECTION) as service:
        outcomes = [outcome(job.__name__, lambda job=job: job(service)) for job in CHECKS]
    outcomes.append(outcome("asynchronous", lambda: asyncio.run(asynchronous())))
    print(json.dumps(outcomes))


main()
