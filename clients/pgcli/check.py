"""pgcli: the queries by which it knows what to complete, and a session of statements as a person types them.

check.py HOST PORT
"""

import subprocess
import sys
from importlib.metadata import version

from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgcompleter import PGCompleter
from pgcli.pgexecute import PGExecute
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

STATEMENTS = """
DROP TABLE IF EXISTS cli_orders CASCADE;
CREATE TABLE cli_orders (id bigint PRIMARY KEY, customer text);
CREATE MATERIALIZED VIEW cli_totals AS SELECT customer, count(*) AS n FROM cli_orders GROUP BY customer;
INSERT INTO cli_orders VALUES (1, 'ann'), (2, 'ann');
SELECT * FROM cli_totals;
SELECT nosuch FROM cli_orders;
\\d cli_orders
\\dm
"""
EXPECTED = ["SELECT 1", "ann", 'column "nosuch" does not exist', "bigint", '"cli_orders_pkey" PRIMARY KEY', "cli_totals"]


def completions(executor, text):
    """What pgcli offers behind this text, once it knows the server's names."""
    completer = PGCompleter(smart_completion=True, pgspecial=None)
    refresher = CompletionRefresher()
    for refresh in refresher.refreshers.values():
        refresh(completer, executor)
    document = Document(text=text, cursor_position=len(text))
    return {completion.text for completion in completer.get_completions(document, CompleteEvent())}


def main(host, port):
    session = subprocess.run(
        [sys.executable, "-m", "pgcli.main", "-h", host, "-p", str(port), "-U", "pgcli", "-d", "thalweg", "--less-chatty", "-w"],
        input=STATEMENTS, text=True, capture_output=True, timeout=100,
    )
    for expected in EXPECTED:
        assert expected in session.stdout + session.stderr, f"{expected} is not in\n{session.stdout}{session.stderr}"

    executor = PGExecute(database="thalweg", user="pgcli", host=host, port=port)
    assert {"cli_orders", "cli_totals"} <= completions(executor, "SELECT * FROM cli_"), completions(executor, "SELECT * FROM cli_")
    assert {"customer", "n"} <= completions(executor, "SELECT * FROM cli_totals WHERE "), "the columns are not known"
    list(executor.run("DROP TABLE cli_orders CASCADE"))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("pgcli", version("pgcli"), "ok")
