"""A server that is measured: started on free ports, asked over the wire, watched from outside."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import psycopg

TICKS = os.sysconf("SC_CLK_TCK")
READY = "thalweg is ready"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Server:
    """A `thalweg serve` with data of its own, which goes when the block is left."""

    def __init__(self, binary, workers=2, flags=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="thalweg-bench."))
        self.port = free_port()
        self.command = [binary, "serve", "--data-dir", str(self.folder / "data"), "--workers", str(workers)]
        self.command += ["--pg-listen", f"127.0.0.1:{self.port}", "--http-listen", "127.0.0.1:0", *flags]
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        """Starts it; the seconds until it says that it is ready."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("THALWEG_")}
        log = self.folder / "log"
        started = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=file, env=environment)
        while READY not in log.read_text(errors="replace"):
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {log.read_text(errors='replace').strip()}")
            time.sleep(0.002)
        return time.monotonic() - started

    def kill(self):
        """Ends it at once, without a word."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def connect(self):
        return psycopg.connect(self.address(), autocommit=True)

    def address(self):
        return f"host=127.0.0.1 port={self.port} user=thalweg dbname=thalweg"

    def run(self, *statements):
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query):
        with self.connect() as connection:
            return connection.execute(query).fetchall()

    def value(self, query):
        return self.rows(query)[0][0]

    def wait_for(self, query, timeout=1800):
        """Asks until the one value of the answer is true."""
        deadline = time.monotonic() + timeout
        with self.connect() as connection:
            while not connection.execute(query).fetchone()[0]:
                self.check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"still not true after {timeout} s: {query}")
                time.sleep(0.05)

    def wait_until_read(self, job):
        """Waits until a job has read its inputs to their end."""
        self.wait_for(f"SELECT count(*) = 1 FROM thalweg.jobs WHERE name = '{job}' AND state = 'finished'")

    def check(self):
        """Fails if the process has ended or a job has failed."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended: {(self.folder / 'log').read_text(errors='replace').strip()}")
        if failed := self.rows("SELECT name, reason FROM thalweg.jobs WHERE state IN ('failed', 'retrying')"):
            raise RuntimeError(f"jobs have failed: {failed}")

    def cpu_seconds(self):
        """Processor time of all its threads so far, in the kernel too."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mb(self, what="VmRSS"):
        """Resident memory now, or with `VmHWM` the most that it was."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"no {what} of the process")

    def written_bytes(self):
        """What it has had the kernel write to disk so far, the checkpoints' files among it."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/io").read_text().splitlines():
            if line.startswith("write_bytes:"):
                return int(line.split()[1])
        raise RuntimeError("no count of written bytes")
