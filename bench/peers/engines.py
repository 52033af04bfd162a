"""The engines: how each is run for its time, and for its results."""

import dataclasses
import os
import pathlib
import tempfile

import common

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "thalweg" / "peers"


def each(queries, run):
    """Runs all, whatever fails; errors by query."""
    errors = {}
    for query in queries:
        try:
            run(query)
        except RuntimeError as error:
            errors[query] = error
    return errors


@dataclasses.dataclass(frozen=True)
class Thalweg:
    """`thalweg run`, as `make bench` has it, or giving windows when they close, as Flink does. Results are those of a materialized view."""

    binary: str
    workers: int
    on_close: bool = False
    needs: str = ""

    @property
    def name(self):
        return "thalweg-on-close" if self.on_close else "thalweg"

    def query(self, query):
        closes = " EMIT ON WINDOW CLOSE" if self.on_close and query in common.WINDOWS else ""
        return common.query(query) + closes

    def time(self, query, files):
        return common.measure(self.binary, self.workers, self.script(query, files) + common.sink(query, self.query(query)))

    def results(self, queries, files, out):
        """Writes a file for each query. Errors by query."""
        return each(queries, lambda query: self.result(query, files, out))

    def result(self, query, files, out):
        view = f"CREATE MATERIALIZED VIEW result AS {self.query(query)};\nSELECT * FROM result;\n"
        with (out / f"{query}.jsonl").open("wb") as file:
            common.measure(self.binary, self.workers, self.script(query, files) + view, ("--format", "json"), file)

    def script(self, query, files):
        return common.sources("file", 0, self.workers, files) + common.side_input(common.query(query))


class Peer:
    """A program in an environment of its own. Times are of a process for each query, results of one for all."""

    def time(self, query, files):
        return self.run(query, files)

    def results(self, queries, files, out):
        """Writes a file for each query. Errors by query."""
        try:
            self.run(",".join(queries), files, "--results", str(out))
            return {}
        except RuntimeError:
            # One of them fails, or the process does for all: one by one it is known which.
            return each(queries, lambda query: self.run(query, files, "--results", str(out)))

    def run(self, queries, files, *more):
        python = ROOT / self.needs / "bin" / "python"
        command = [str(python), str(HERE / self.program), "--files", str(files), "--queries", queries, *self.options(), *more]
        with tempfile.TemporaryDirectory(prefix="thalweg-peer.") as folder:
            return common.watch(command, self.environment(folder))

    def environment(self, folder):
        return dict(os.environ)


@dataclasses.dataclass(frozen=True)
class Flink(Peer):
    workers: int
    variant: str
    heap: str
    needs = "flink"
    program = "run_flink.py"

    @property
    def name(self):
        return "flink" if self.variant == "plain" else f"flink-{self.variant}"

    def options(self):
        lookup = str(ROOT / "side-input.jar")
        return ["--lookup", lookup, "--variant", self.variant, "--parallelism", str(self.workers)]

    def environment(self, folder):
        return {**os.environ, "JVM_ARGS": f"-Xmx{self.heap}", "FLINK_LOG_DIR": folder}


@dataclasses.dataclass(frozen=True)
class Batch(Peer):
    workers: int
    name: str
    program = "run_batch.py"

    @property
    def needs(self):
        return self.name

    def options(self):
        return ["--engine", self.name, "--threads", str(self.workers)]


def all_engines(binary, workers, heap):
    """By name."""
    engines = [
        Thalweg(binary, workers),
        Thalweg(binary, workers, on_close=True),
        Flink(workers, "plain", heap),
        Flink(workers, "minibatch", heap),
        Batch(workers, "duckdb"),
        Batch(workers, "datafusion"),
    ]
    return {engine.name: engine for engine in engines}
