"""Inputs: bids from JSON lines, CSV, Parquet and Kafka, and what reading them costs a batch engine."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from common import COLUMNS, HERE, measure, query, sink, watch

from . import at_least, plain

SIZES = (1_000_000, 5_000_000)
FORMATS = {"JSON": "JSON", "CSV": "CSV (header = 'true')", "Parquet": "PARQUET"}
COLUMN_TEXT = COLUMNS["bid"]
SERVICES = HERE.parent / "tests" / "services"

# All columns or those that q2 reads, drawn and dropped.
DATAFUSION = """
import os, pathlib, sys, datafusion, pyarrow
kind, folder, query = sys.argv[1:]
context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
types = {"bigint": pyarrow.int64(), "text": pyarrow.string(), "timestamp": pyarrow.timestamp("us")}
schema = pyarrow.schema([(c.split(" ")[0].strip('"'), types[c.split(" ")[1]]) for c in sys.stdin.read().split(", ")])
if kind == "JSON":
    context.register_json("bid", folder, schema=schema, file_extension=pathlib.Path(next(os.scandir(folder)).name).suffix)
elif kind == "CSV":
    context.register_csv("bid", folder, schema=schema, file_extension=".csv", has_header=True)
else:
    context.register_parquet("bid", folder, file_extension=".parquet")
for _ in context.sql(query).execute_stream():
    pass
"""


def run(binary, scale):
    sizes = [int(size * scale) for size in SIZES]
    with tempfile.TemporaryDirectory(prefix="thalweg-bench.") as folder:
        folder = pathlib.Path(folder)
        for size in sizes:
            write_files(binary, size, folder / str(size))
        file_rates = {}
        for kind, encode in FORMATS.items():
            for name in ("q0", "q2"):
                options = "connector = 'file', path = '{folder}/{kind}'".replace("{kind}", kind)
                rate = slope(sizes, lambda size: own(binary, name, options.replace("{folder}", str(folder / str(size))), encode).cpu_seconds)
                file_rates[kind, name] = rate
                yield from beside_datafusion(kind, name, rate, folder, sizes)
        yield from kafka(binary, folder, sizes, file_rates["JSON", "q0"])


def bids(size):
    return size * 46 // 50


def slope(sizes, cpu_seconds):
    """Bids by CPU-second from the smaller to the larger size, each the better of two runs."""
    costs = [min(cpu_seconds(size) for _ in range(2)) for size in sizes]
    return (bids(sizes[1]) - bids(sizes[0])) / (costs[1] - costs[0])


def own(binary, name, options, encode):
    watermark = 'WATERMARK FOR "dateTime" AS "dateTime" - INTERVAL \'4 seconds\''
    script = f"CREATE SOURCE bid ({COLUMN_TEXT}, {watermark}) WITH ({options}) FORMAT PLAIN ENCODE {encode};\n"
    return measure(binary, 2, script + sink(name, query(name)))


def write_files(binary, size, folder):
    """The bids in each format, in two files."""
    script = f"CREATE SOURCE bid ({COLUMN_TEXT}) WITH (connector = 'nexmark', table = 'bid', events = {size});\n"
    for kind, encode in FORMATS.items():
        for half in (0, 1):
            script += (
                f"CREATE SINK {kind.lower()}_{half} AS SELECT * FROM bid WHERE (extract(epoch FROM \"dateTime\")::bigint / 10) % 2 = {half} "
                f"WITH (connector = 'file', path = '{folder / kind}', type = 'append-only', compression = 'none') FORMAT PLAIN ENCODE {encode};\n"
            )
    measure(binary, 1, script, ["--checkpoint-interval", "1h"])


def beside_datafusion(kind, name, rate, folder, sizes):
    """A figure, by that of DataFusion's batch if it is there."""
    wanted = {("JSON", "q0"): 2_500_000, ("JSON", "q2"): 4_000_000}.get((kind, name))
    what = f"{name} from {kind}"
    yield at_least(what, rate, wanted, "bids a CPU-second") if wanted else plain(what, rate, "bids a CPU-second")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    python = cache / "thalweg" / "peers" / "datafusion" / "bin" / "python"
    if not python.exists():
        print("DataFusion is not there to compare with: bench/peers/setup.sh datafusion", file=sys.stderr)
        return
    columns = "*" if name == "q0" else "auction, price"
    where = "" if name == "q0" else " WHERE auction % 123 = 0"

    def batch(size):
        text = f"{folder / str(size) / kind}/"
        script = [str(python), "-c", DATAFUSION, kind, text, f"SELECT {columns} FROM bid{where}"]
        return watch_with_input(script, COLUMN_TEXT).cpu_seconds

    peer = slope(sizes, batch)
    yield plain(f"{what}, by DataFusion's batch", rate / peer, "times", 2)


def watch_with_input(command, text):
    """As `watch`, of a program that reads a text."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        return watch(["sh", "-c", f'exec "$@" <{file.name}', "sh", *command], None)


def kafka(binary, folder, sizes, file_rate):
    """The same lines as records of a real broker; only our own process is counted."""
    if not (pathlib.Path.home() / ".cache" / "thalweg" / "services" / "kafka").exists():
        print("Kafka is not there: tests/setup.sh services", file=sys.stderr)
        return
    data = folder / "kafka"
    address = subprocess.run([SERVICES / "kafka.sh", "start", data], capture_output=True, text=True, check=True).stdout.strip()
    try:
        for partitions in (1, 4):
            for size in sizes:
                topic = f"bids-{size}-{partitions}"
                subprocess.run([SERVICES / "kafka.sh", "topic", data, topic, str(partitions)], check=True)
                script = (
                    f"CREATE SOURCE bid ({COLUMN_TEXT}) WITH (connector = 'file', path = '{folder / str(size) / 'JSON'}') FORMAT PLAIN ENCODE JSON;\n"
                    f"CREATE SINK out AS SELECT * FROM bid WITH (connector = 'kafka', topic = '{topic}', "
                    f"properties.bootstrap.server = '{address}', type = 'append-only') FORMAT PLAIN ENCODE JSON;\n"
                )
                measure(binary, 2, script)

            def read(size):
                options = (
                    f"connector = 'kafka', topic = 'bids-{size}-{partitions}', properties.bootstrap.server = '{address}', scan.bounded.mode = 'latest'"
                )
                return own(binary, "q0", options, "JSON").cpu_seconds

            rate = slope(sizes, read)
            yield plain(f"q0 from Kafka, partitions: {partitions}", rate, "bids a CPU-second")
            yield at_least("of the rate from files", rate / file_rate * 100, 60, "%")
    finally:
        subprocess.run([SERVICES / "kafka.sh", "kill", data], check=False)
        shutil.rmtree(data, ignore_errors=True)
