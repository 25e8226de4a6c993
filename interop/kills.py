"""Acknowledged writes of Python clients survive SIGKILLs of the server.

Clients insert, change and delete, each in a partition of its own, until the server is killed in the middle of their work. The server then starts
again on its directory, and every row must be as its last answered write left it. The run fails at the first row that is not.

`interop/run` or `interop/cli python` installs the client; PYTHONPATH must name its folder.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableServiceClient

ROWS = 50


def start(tables, directory):
    command = [tables, "serve", f"embedded:{directory}", "--listen", "127.0.0.1:0", "--until-eof"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    connection = server.stdout.readline().strip()
    if not connection:
        sys.exit(f"FAILED: the server ended with {server.wait()} before it listened")
    return server, connection


def connect(connection):
    # No retries: each write has one request, whose answer decides.
    return TableServiceClient.from_connection_string(connection, retry_total=0).get_table_client("Kills")


class Writer(threading.Thread):
    """Writes until the first error.

    A row is removed from `known` before its write: if the write is not answered, the old and the new state are both correct.
    """

    def __init__(self, number, first, connection, known):
        super().__init__(daemon=True)
        self.number, self.first, self.connection, self.known = number, first, connection, known
        self.done, self.error = 0, None

    def run(self):
        table = connect(self.connection)
        n = self.first
        while self.error is None:
            try:
                self.write(table, n)
                self.done += 1
            except AzureError as error:
                self.error = error
            n += 1

    def write(self, table, n):
        row = str(n % ROWS)
        self.known.pop(row, None)
        if n % 7 == 6:
            try:
                table.delete_entity(f"p{self.number}", row)
            except ResourceNotFoundError as error:
                # The row does not exist. Without the table, the server has lost an acknowledged write.
                if error.error_code != "ResourceNotFound":
                    raise
            self.known[row] = None
        else:
            table.upsert_entity({"PartitionKey": f"p{self.number}", "RowKey": row, "N": n}, mode="replace")
            self.known[row] = n


def wait_for_writes(writers, count, server, kill):
    """Waits until the clients have this number of answers."""
    while sum(writer.done for writer in writers) < count:
        if server.poll() is not None:
            sys.exit("FAILED: the server ended by itself")
        stopped = [writer.error for writer in writers if writer.error is not None]
        if stopped:
            sys.exit(f"FAILED: kill {kill}: {len(stopped)} clients stopped before the kill, the first by {stopped[0]!r}")
        time.sleep(0.005)


def compare(connection, known, kill):
    stored = {(entity["PartitionKey"], entity["RowKey"]): entity["N"] for entity in connect(connection).list_entities()}
    for number, rows in enumerate(known):
        for row, last in rows.items():
            found = stored.get((f"p{number}", row))
            if found != last:
                sys.exit(f"FAILED: kill {kill}: p{number} {row} is {found}, and the last answered write is {last}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", help="the program `tables`")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=64)
    arguments = parser.parse_args()
    kills, clients = arguments.kills, arguments.clients
    # For each client, its rows and the number of the last answered write; None after a deletion.
    known = [{} for _ in range(clients)]
    acknowledged = 0
    with tempfile.TemporaryDirectory() as directory:
        server, connection = start(arguments.tables, directory)
        try:
            TableServiceClient.from_connection_string(connection).create_table("Kills")
            for kill in range(kills):
                # Every number is written once, so an earlier value is never taken for a lost one.
                writers = [Writer(n, kill * 1_000_000, connection, known[n]) for n in range(clients)]
                for writer in writers:
                    writer.start()
                wait_for_writes(writers, 100 + 37 * (kill % 7), server, kill)
                server.send_signal(signal.SIGKILL)
                server.wait()
                for writer in writers:
                    writer.join()
                acknowledged += sum(writer.done for writer in writers)
                server, connection = start(arguments.tables, directory)
                compare(connection, known, kill)
        finally:
            server.kill()
            server.wait()
    print(f"ok: {acknowledged} acknowledged writes of {clients} clients survived {kills} kills")


if __name__ == "__main__":
    main()
