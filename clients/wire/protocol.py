"""The Postgres protocol as lines of text: what a client sends is made from a line, what a server answers becomes lines."""

import json
import re
import select
import socket
import struct

NAMES = {
    "R": "Authentication", "S": "ParameterStatus", "K": "BackendKeyData", "Z": "ReadyForQuery", "T": "RowDescription",
    "D": "DataRow", "C": "CommandComplete", "E": "Error", "N": "Notice", "1": "ParseComplete", "2": "BindComplete",
    "3": "CloseComplete", "t": "ParameterDescription", "n": "NoData", "s": "PortalSuspended", "I": "EmptyQueryResponse",
    "G": "CopyInResponse", "H": "CopyOutResponse", "d": "CopyData", "c": "CopyDone", "A": "Notification",
    "v": "NegotiateProtocolVersion",
}
# The first OID of what users make: which one it is differs from server to server.
FIRST_USER_OID = 16384
# File, line and routine of the server's source are its own affair.
HIDDEN_FIELDS = "FLR"
# The present is another one each time; what traces write out lies before it.
MOMENT = re.compile(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:\d\d)?)?")
PROTOCOL_3_0 = 196608
CANCEL_REQUEST = 80877102
# How long an answer may take on a machine that does much else, in seconds.
SILENCE_S = 20


def text(value):
    return value.encode() + b"\0"


def message(kind, body=b""):
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def shorts(values):
    return struct.pack("!h", len(values)) + b"".join(struct.pack("!h", value) for value in values)


def value_bytes(word):
    """The bytes of a written value: NULL, hexadecimal after 0x, or a JSON string."""
    if word == "NULL":
        return None
    if word.startswith("0x"):
        return bytes.fromhex(word[2:])
    return json.loads(word).encode()


def parse_message(rest):
    """`NAME [OID,...]: SQL`; a statement without a name has none before the colon."""
    head, sql = rest.split(":", 1)
    words = head.split()
    types = [int(oid) for word in words if word.startswith("[") for oid in word[1:-1].split(",")]
    name = words[0] if words and not words[0].startswith("[") else ""
    body = text(name) + text(sql.strip()) + struct.pack("!h", len(types)) + b"".join(struct.pack("!I", oid) for oid in types)
    return message("P", body)


WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


def bind_message(rest):
    """`[portal=P] [statement=S] [in=0,1] [out=1] VALUE...`"""
    named, values = {}, []
    for word in WORD.findall(rest):
        name, equals, value = word.partition("=")
        if equals and name in ("portal", "statement", "in", "out"):
            named[name] = value
        else:
            values.append(value_bytes(word))
    codes = {key: [int(code) for code in named[key].split(",")] if key in named else [] for key in ("in", "out")}
    body = text(named.get("portal", "")) + text(named.get("statement", "")) + shorts(codes["in"])
    body += struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message("B", body + shorts(codes["out"]))


def execute_message(rest):
    """`[PORTAL] [max=N]`"""
    words = rest.split()
    rows = [int(word[4:]) for word in words if word.startswith("max=")]
    names = [word for word in words if not word.startswith("max=")]
    return message("E", text(names[0] if names else "") + struct.pack("!i", rows[0] if rows else 0))


def target_message(kind, rest):
    """`statement [NAME]` or `portal [NAME]`"""
    what, _, name = rest.partition(" ")
    return message(kind, {"statement": b"S", "portal": b"P"}[what] + text(name))


CLIENT = {
    "query": lambda rest: message("Q", text(json.loads(rest) if rest.startswith('"') else rest)),
    "parse": parse_message,
    "bind": bind_message,
    "describe": lambda rest: target_message("D", rest),
    "execute": execute_message,
    "close": lambda rest: target_message("C", rest),
    "sync": lambda rest: message("S"),
    "flush": lambda rest: message("H"),
    "copy-data": lambda rest: message("d", value_bytes(rest)),
    "copy-done": lambda rest: message("c"),
    "copy-fail": lambda rest: message("f", text(rest)),
    "terminate": lambda rest: message("X"),
}


class Closed(Exception):
    """The server has closed the connection."""


class Silent(Exception):
    """The server answers nothing for so long that it never will."""


class Connection:
    """A connection past its startup message; `cancel` knows its key."""

    def __init__(self, host, port, settings):
        self.where, self.rest, self.key = (host, port), b"", None
        self.waiting = []
        self.socket = socket.create_connection(self.where, timeout=SILENCE_S)
        body = struct.pack("!i", PROTOCOL_3_0)
        for name, value in {"user": "postgres", "database": "postgres", "application_name": "wire", **settings}.items():
            body += text(name) + text(value)
        body += b"\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)

    def send(self, line):
        verb, _, rest = line.partition(" ")
        self.socket.sendall(CLIENT[verb](rest))

    def receive(self):
        """The type and body of the next message."""
        if self.waiting:
            return self.waiting.pop(0)
        head = self.bytes(5)
        return chr(head[0]), self.bytes(struct.unpack("!i", head[1:])[0] - 4)

    def fails_within(self, seconds):
        """Whether an error is among what comes before the server is silent for so long; `receive` still gives all of it."""
        come, failed = [], False
        while not failed and (self.rest or select.select([self.socket], [], [], seconds)[0]):
            come.append(self.receive())
            failed = come[-1][0] == "E"
        self.waiting += come
        return failed

    def bytes(self, count):
        while len(self.rest) < count:
            try:
                more = self.socket.recv(1 << 16)
            except TimeoutError:
                raise Silent from None
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed
            self.rest += more
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def cancel(self):
        """Asks on a connection of its own that the statement be cancelled; what that connection answers."""
        with socket.create_connection(self.where, timeout=SILENCE_S) as other:
            other.sendall(struct.pack("!iiii", 16, CANCEL_REQUEST, *self.key))
            return other.recv(64)

    def close(self):
        self.socket.close()


def shown(value):
    """A value's bytes as they are written in traces."""
    if value is None:
        return "NULL"
    try:
        decoded = value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()
    if any(ord(c) < 32 and c not in "\n\t\r" for c in decoded):
        return "0x" + value.hex()
    return json.dumps(MOMENT.sub("(moment)", decoded), ensure_ascii=False)


def lines_of(kind, body):
    """A server's message as lines; the first says what it is, others belong to it and are indented."""
    name = NAMES.get(kind, kind)
    describe = {"Z": ready, "C": complete, "S": parameter, "T": row_description, "D": data_row, "E": fields, "N": fields,
                "t": parameter_types, "G": copy_response, "H": copy_response, "d": copy_data, "R": code, "A": notification}
    more = describe.get(kind, lambda body: [""])(body)
    return [f"{name} {more[0]}".strip()] + [f"  {line}" for line in more[1:]]


def ready(body):
    return [body.decode()]


def complete(body):
    return [body[:-1].decode()]


def parameter(body):
    name, value = body.split(b"\0")[:2]
    return [f"{name.decode()}={value.decode()}"]


def code(body):
    return [str(struct.unpack("!i", body[:4])[0])]


def row_description(body):
    count, at, lines = struct.unpack("!h", body[:2])[0], 2, [""]
    for _ in range(count):
        end = body.index(b"\0", at)
        table, column, oid, length, modifier, form = struct.unpack("!IhIhih", body[end + 1:end + 19])
        origin = f" table={'user' if table >= FIRST_USER_OID else table} column={column}" if table else ""
        oid = "user" if oid >= FIRST_USER_OID else oid
        lines.append(f"{body[at:end].decode()} oid={oid} length={length} modifier={modifier} format={form}{origin}")
        at = end + 19
    return lines


def values_of(body):
    """The values of a DataRow."""
    count, at, values = struct.unpack("!h", body[:2])[0], 2, []
    for _ in range(count):
        length = struct.unpack("!i", body[at:at + 4])[0]
        at += 4
        values.append(None if length < 0 else body[at:at + length])
        at += max(length, 0)
    return values


def data_row(body):
    return [" ".join(shown(value) for value in values_of(body))]


def error_fields(body):
    """The fields of an error or notice by their letters."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def fields(body):
    found = error_fields(body)
    severity, state, primary = found.pop("S"), found.pop("C"), found.pop("M")
    # The severity is shown once where both forms agree. Where it happened matters where it is a place in the client's data.
    if found.get("V") == severity:
        del found["V"]
    if not found.get("W", "").startswith("COPY"):
        found.pop("W", None)
    rest = [f"{letter}: {MOMENT.sub('(moment)', value)}" for letter, value in sorted(found.items()) if letter not in HIDDEN_FIELDS]
    return [f"{severity} {state} {primary}"] + [line.replace("\n", "\\n") for line in rest]


def parameter_types(body):
    count = struct.unpack("!h", body[:2])[0]
    return [" ".join("user" if oid >= FIRST_USER_OID else str(oid) for oid in struct.unpack(f"!{count}I", body[2:2 + 4 * count]))]


def copy_response(body):
    form, count = struct.unpack("!bh", body[:3])
    return [f"format={form} columns={count}"]


def copy_data(body):
    return [shown(body)]


def notification(body):
    channel, payload = body[4:].split(b"\0")[:2]
    return [f"{channel.decode()} {payload.decode()}"]
