"""Acknowledged writes of 64 Python clients survive SIGKILLs of the server.

    python3 interop/kills.py TABLES [KILLS] [CLIENTS]

TABLES is the program `tables`. The packages of requirements.txt must be importable (`interop/run` installs them below target/). Clients insert,
change and delete, each in a partition of its own, until the server is killed in the middle of their work. The server then starts again on its
directory, and every row must be as its last answered write left it. The run fails at the first row that is not.
"""

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
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().strip()


def connect(connection):
    # No retries: the test decides what an answer means.
    return TableServiceClient.from_connection_string(connection, retry_total=0).get_table_client("Kills")


class Writer(threading.Thread):
    """Writes until the first error. A row whose write has no answer is forgotten: both states are right."""

    def __init__(self, number, first, connection, known):
        super().__init__(daemon=True)
        self.number, self.first, self.connection, self.known, self.done = number, first, connection, known, 0

    def run(self):
        table = connect(self.connection)
        n = self.first
        while True:
            row = str(n % ROWS)
            self.known.pop(row, None)
            try:
                if n % 7 == 6:
                    table.delete_entity(f"p{self.number}", row)
                    self.known[row] = None
                else:
                    table.upsert_entity({"PartitionKey": f"p{self.number}", "RowKey": row, "N": n}, mode="replace")
                    self.known[row] = n
                self.done += 1
            except ResourceNotFoundError:
                pass
            except AzureError:
                return
            n += 1


def main():
    tables, kills, clients = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 64
    # For each client, its rows and the number of the last answered write; None after a deletion.
    known = [{} for _ in range(clients)]
    acknowledged = 0
    with tempfile.TemporaryDirectory() as directory:
        server, connection = start(tables, directory)
        TableServiceClient.from_connection_string(connection).create_table("Kills")
        for kill in range(kills):
            # No number is written twice, so an earlier value is never taken for a lost one.
            writers = [Writer(n, kill * 1_000_000, connection, known[n]) for n in range(clients)]
            for writer in writers:
                writer.start()
            while sum(writer.done for writer in writers) < 100 + 37 * (kill % 7):
                if server.poll() is not None:
                    sys.exit("FAILED: the server ended by itself")
                time.sleep(0.005)
            server.send_signal(signal.SIGKILL)
            server.wait()
            for writer in writers:
                writer.join()
            acknowledged += sum(writer.done for writer in writers)
            server, connection = start(tables, directory)
            table = connect(connection)
            stored = {(entity["PartitionKey"], entity["RowKey"]): entity["N"] for entity in table.list_entities()}
            for number, rows in enumerate(known):
                for row, last in rows.items():
                    if stored.get((f"p{number}", row)) != last:
                        sys.exit(f"FAILED: kill {kill}: p{number} {row} is {stored.get((f'p{number}', row))}, and the last answered write is {last}")
        server.stdin.close()
        server.wait()
    print(f"ok: {acknowledged} acknowledged writes of {clients} clients survived {kills} kills")


if __name__ == "__main__":
    main()
