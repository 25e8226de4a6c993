"""Files of Apache Parquet between `tables` and pyarrow, in both directions. Prints a line for each check; ends with 1 if a check fails.

parquet.py TABLES       TABLES is the program
"""

import base64
import datetime
import decimal
import json
import pathlib
import subprocess
import sys
import tempfile
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from shared import expect, run

if len(sys.argv) != 2:
    sys.exit(__doc__)
PROGRAM = sys.argv[1]
UTC = datetime.timezone.utc


def tables(*arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


FAILED = []


def report(name, job):
    """Prints the result of a job. The script goes on after a failure."""
    problem = run(name, job)["problem"]
    print(f"ok: {name}" if problem is None else f"FAILED: {name}: {problem}")
    if problem is not None:
        FAILED.append(name)


def check(name, found, expected):
    report(name, lambda: expect(found, expected))


def lines(*entities):
    return "".join(json.dumps(entity) + "\n" for entity in entities)


def written_by_tables(directory):
    """pyarrow reads the values that `tables` wrote, in the types of Arrow."""
    every = {
        "PartitionKey": "p", "RowKey": "1", "Text": "ä\n", "Flag": True, "Small": -7,
        "Big@odata.type": "Edm.Int64", "Big": str(2**53 + 1),
        "Real@odata.type": "Edm.Double", "Real": 0.1,
        "Time@odata.type": "Edm.DateTime", "Time": "2013-01-01T05:15:00.123456Z",
        "Ticks@odata.type": "Edm.DateTime", "Ticks": "2013-01-01T05:15:00.1234567Z",
        "Far@odata.type": "Edm.DateTime", "Far": "9999-12-31T23:59:59.999999Z",
        "Bytes@odata.type": "Edm.Binary", "Bytes": base64.b64encode(b"\x00\xff").decode(),
        "Id@odata.type": "Edm.Guid", "Id": "6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1",
        "Mixed": 1,
    }
    second = {"PartitionKey": "p", "RowKey": "2", "Mixed": "one"}
    source, file = directory / "all.jsonl", directory / "all.parquet"
    source.write_text(lines(every, second), encoding="utf-8")
    store = f"embedded:{directory / 'store'}"
    tables("import", store, "Rows", "--from", source)
    tables("export", store, "Rows", "--to", file)
    table = pq.read_table(file)
    types = {field.name: str(field.type) for field in table.schema}
    identifier = types.pop("Id")
    check("types of columns", types, {
        "PartitionKey": "string", "RowKey": "string", "Text": "string", "Flag": "bool", "Small": "int32", "Big": "int64",
        "Real": "double", "Time": "timestamp[us, tz=UTC]", "Ticks": "timestamp[ns, tz=UTC]", "Far": "timestamp[us, tz=UTC]",
        "Bytes": "binary", "Mixed@Int32": "int32", "Mixed@String": "string",
    })
    check("the type of a Guid", "uuid" in identifier or identifier == "fixed_size_binary[16]", True)
    nanos = table.column("Ticks").cast(pa.int64()).to_pylist()
    seconds = int(datetime.datetime(2013, 1, 1, 5, 15, tzinfo=UTC).timestamp())
    check("a time of 100 ns", nanos, [seconds * 10**9 + 123_456_700, None])
    first, last = table.drop_columns(["Ticks"]).to_pylist()
    value = first.pop("Id")
    check("a Guid", value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value), uuid.UUID(every["Id"]))
    check("every value", first, {
        "PartitionKey": "p", "RowKey": "1", "Text": "ä\n", "Flag": True, "Small": -7, "Big": 2**53 + 1, "Real": 0.1,
        "Time": datetime.datetime(2013, 1, 1, 5, 15, 0, 123_456, tzinfo=UTC),
        "Far": datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        "Bytes": b"\x00\xff", "Mixed@Int32": 1, "Mixed@String": None,
    })
    check("absent values", {name: value for name, value in last.items() if value is not None},
          {"PartitionKey": "p", "RowKey": "2", "Mixed@String": "one"})


def many_groups(directory):
    """Several row groups have every row once."""
    count = 300_000
    source, file = directory / "many.csv", directory / "many.parquet"
    with source.open("w", encoding="utf-8") as out:
        out.write("PartitionKey,RowKey,N\n")
        out.writelines(f"p{n % 7},{n:07},{n}\n" for n in range(count))
    store = f"embedded:{directory / 'many'}"
    tables("import", store, "Rows", "--from", source, "--quiet")
    tables("export", store, "Rows", "--to", file, "--quiet")
    read = pq.ParquetFile(file)
    check("several row groups", read.num_row_groups > 1, True)
    check(f"{count} rows in {read.num_row_groups} row groups", sorted(read.read(["N"]).column("N").to_pylist()), list(range(count)))


def written_by_pyarrow(directory):
    """`tables` reads the values that pyarrow wrote, with each compression."""
    table = pa.table({
        "PartitionKey": ["p", "p"],
        "RowKey": ["1", "2"],
        "Small": pa.array([-7, None], pa.int8()),
        "Unsigned": pa.array([2**32 - 1, None], pa.uint32()),
        "Big": pa.array([2**53 + 1, None], pa.int64()),
        "Real": pa.array([0.5, None], pa.float32()),
        "Day": pa.array([datetime.date(2013, 1, 1), None], pa.date32()),
        "Millis": pa.array([datetime.datetime(2013, 1, 1, 5, 15, 0, 123_000), None], pa.timestamp("ms")),
        "Nanos": pa.array([1_000_000_100, None], pa.timestamp("ns", tz="UTC")),
        "Words": pa.array(["one", "one"]).dictionary_encode(),
        "Bytes": pa.array([b"\x00\xff", None], pa.binary()),
        "Nothing": pa.nulls(2),
    })
    expected = {
        "PartitionKey": "p", "RowKey": "1", "Small": -7, "Unsigned@odata.type": "Edm.Int64", "Unsigned": str(2**32 - 1),
        "Big@odata.type": "Edm.Int64", "Big": str(2**53 + 1), "Real": 0.5, "Day@odata.type": "Edm.DateTime",
        "Day": "2013-01-01T00:00:00.0Z", "Millis@odata.type": "Edm.DateTime", "Millis": "2013-01-01T05:15:00.123Z",
        "Nanos@odata.type": "Edm.DateTime", "Nanos": "1970-01-01T00:00:01.0000001Z", "Words": "one",
        "Bytes@odata.type": "Edm.Binary", "Bytes": "AP8=",
    }
    instants = {"Day", "Millis", "Nanos"}

    def normal(entity):
        def without_trailing_zeros(name, value):
            return value.rstrip("Z").rstrip("0").rstrip(".") if name in instants else value

        return {name: without_trailing_zeros(name, value) for name, value in entity.items() if name != "Real@odata.type"}

    for number, compression in enumerate(["none", "snappy", "gzip", "lz4", "zstd"]):
        file, store = directory / f"{compression}.parquet", f"embedded:{directory / f'of{number}'}"
        pq.write_table(table, file, compression=compression, data_page_version="2.0" if number % 2 else "1.0")
        tables("import", store, "Rows", "--from", file)
        found = [json.loads(line) for line in tables("export", store, "Rows", "--to", "-", "--format", "jsonl").stdout.splitlines()]
        check(f"values of pyarrow, {compression}", [normal(entity) for entity in found],
              [normal(expected), {"PartitionKey": "p", "RowKey": "2", "Words": "one"}])


def refused(directory):
    """Columns that no property can hold are refused, and nothing is written."""
    keys = {"PartitionKey": ["p"], "RowKey": ["1"]}
    for name, column in [
        ("lists", pa.array([[1, 2]])),
        ("structures", pa.array([{"a": 1}])),
        ("decimals", pa.array([decimal.Decimal("1.50")])),
        ("times of day", pa.array([datetime.time(5, 15)])),
    ]:
        file, store = directory / "refused.parquet", directory / "none"
        pq.write_table(pa.table({**keys, "X": column}), file)
        done = tables("import", f"embedded:{store}", "Rows", "--from", file, code=2)
        check(f"{name} are refused with the name of the column", "'X'" in done.stderr, True)
        check(f"{name} are refused before a store is created", store.exists(), False)


with tempfile.TemporaryDirectory() as directory:
    directory = pathlib.Path(directory)
    for part in (written_by_tables, many_groups, written_by_pyarrow, refused):
        problem = run(part.__name__, lambda: part(directory))["problem"]
        if problem is not None:
            print(f"FAILED: {part.__name__}: {problem}")
            FAILED.append(part.__name__)
sys.exit(1 if FAILED else 0)
