"""Avro by a schema registry: what fits its schema is read as it was written, and what does not is told."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.bounds import DECIMAL_BYTES
from workers.engine.connectors import avro
from workers.engine.connectors.avro import HEADER, Registry, SchemaLimits
from workers.engine.connectors.contract import SourceAway, SourceRefused
from workers.engine.connectors.formats import UnreadableMessage
from workers.library.config import InvalidConfig


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def record_of_nulls(count: int) -> dict[str, Any]:
    """A record of one byte and many values."""
    return {"type": "record", "name": "w", "fields": [
        {"name": "v", "type": "boolean"}, *({"name": f"n{number}", "type": "null"} for number in range(count))]}


def doubled(times: int) -> dict[str, Any]:
    """A record of no bytes that holds 2 to that power of records."""
    inner: dict[str, Any] = {"type": "record", "name": "ns.d0", "fields": []}
    for number in range(1, times):
        inner = {"type": "record", "name": f"ns.d{number}", "fields": [
            {"name": "a", "type": inner}, {"name": "b", "type": f"ns.d{number - 1}"}]}
    return inner


def deep_by_names(levels: int) -> list[Any]:
    """Records that hold one another by their names, in a text that is not deep."""
    return [{"type": "record", "name": f"r{number}", "fields": [
        {"name": "a", "type": f"r{number - 1}" if number else "int"}]} for number in range(levels)]


def deep(levels: int) -> Any:
    kind: Any = "long"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return record(("n", kind))


ORDERS = record(("id", "long"), ("customer", ["null", "string"]), ("total", "double"), ("paid", "boolean"))
TYPED = record(
    ("at", {"type": "long", "logicalType": "timestamp-millis"}), ("day", {"type": "int", "logicalType": "date"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}), ("raw", "bytes"),
    ("tags", {"type": "array", "items": "string"}), ("kind", {"type": "enum", "name": "k", "symbols": ["A", "B"]}))
BOMB = record(("n", {"type": "array", "items": "null"}))
HIDDEN_BOMB = record(("n", {"type": "array", "items": {"type": "record", "name": "e", "fields": [
    {"name": "x", "type": {"type": "fixed", "name": "f", "size": 0}}]}}))
TREE = {"type": "record", "name": "t", "fields": [
    {"name": "v", "type": "int"}, {"name": "below", "type": {"type": "array", "items": "t"}}]}
CHAIN = {"type": "record", "name": "c", "fields": [{"name": "next", "type": ["null", "c"]}]}
ENDLESS = {"type": "record", "name": "c", "fields": [{"name": "next", "type": "c"}]}
HOLLOW = record(("n", {"type": "array", "items": {"type": "record", "name": "h", "fields": [
    {"name": "u", "type": ["null", {"type": "fixed", "name": "f", "size": -900}]}, *record_of_nulls(200)["fields"]]}}))
WIDE = record(("n", {"type": "array", "items": record_of_nulls(200)}))
SCHEMAS = {
    1: {"schema": json.dumps(ORDERS)}, 2: {"schema": json.dumps(record(("id", "long"), ("more", "string")))},
    3: {"schema": json.dumps(TYPED)}, 4: {"schemaType": "PROTOBUF", "schema": "message M {}"},
    5: {"schema": json.dumps(ORDERS), "references": [{"name": "x", "subject": "x", "version": 1}]},
    6: {"schema": json.dumps(BOMB)}, 7: {"schema": "{"}, 8: {"schema": '"long"'},
    9: {"schema": json.dumps(HIDDEN_BOMB)}, 10: {"schema": json.dumps(TREE)},
    11: {"schema": json.dumps(CHAIN)}, 12: {"schema": json.dumps(ENDLESS)}, 13: {"schema": json.dumps(WIDE)},
    14: {"schema": json.dumps(doubled(40))}, 15: {"schema": json.dumps(deep_by_names(3_000))},
    16: {"schema": json.dumps(deep(300))},
    17: {"schema": json.dumps(record(("n", {"type": "map", "values": "null"})))},
    18: {"schema": json.dumps(record(("n", {"type": "array", "items": "boolean"})))},
    19: {"schema": json.dumps({**ORDERS, "namespace": "n" * 501})},
    20: {"schema": json.dumps(record(("f", {"type": "fixed", "size": 1, "name": "n" * 501})))},
    21: {"schema": json.dumps(HOLLOW)},
    22: {"schema": json.dumps(record(("f", {"type": "fixed", "size": "1", "name": "f"})))},
    23: {"schema": json.dumps(record(("f", {"type": "fixed", "size": None, "name": "f"})))},
    24: {"schemaType": "X" * 100_000, "schema": "{}"}}


class Server(HTTPServer):
    """A registry; ``status`` or ``raw`` in place of an answer, where it is set."""

    status = 0
    raw = b""
    asked: list[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(f"{self.path} {self.headers.get('Authorization', '')}".strip())
            document = SCHEMAS.get(int(self.path.rpartition("/")[2]))
            body = server.raw or json.dumps(document or {"error_code": 40403}).encode()
            self.send_response(server.status or (200 if document else 404))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = Server(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", f"127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def registry(server: Server) -> Iterator[Registry]:
    opened = Registry(address(server))
    yield opened
    opened.close()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def framed(number: int, values: Any, schema: Any = None) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema or json.loads(SCHEMAS[number]["schema"]), values)
    return HEADER.pack(0, number) + content.getvalue()


def test_each_record_is_read_by_the_schema_that_it_was_written_with(server: Server, registry: Registry) -> None:
    order = {"id": 2**53 + 1, "customer": "Zoë", "total": 0.1, "paid": True}
    for _ in range(3):
        assert registry.values_of(framed(1, order)) == order
        assert registry.values_of(framed(2, {"id": 1, "more": "x"})) == {"id": 1, "more": "x"}
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2"], "each is asked for once"
    at = datetime(2026, 5, 1, 12, 0, 0, 250_000, UTC)
    assert registry.values_of(framed(3, {
        "at": at, "day": date(2026, 5, 1), "price": Decimal("12.30"), "raw": b"\x00\xff", "tags": ["a"], "kind": "B"})
    ) == {"at": at, "day": "2026-05-01", "price": "12.30", "raw": "AP8=", "tags": ["a"], "kind": "B"}
    assert registry.values_of(framed(17, {"n": {"a": None}})) == {"n": {"a": None}}
    chain: dict[str, Any] = {"next": {"next": {"next": None}}}
    assert registry.values_of(framed(11, chain)) == chain
    tree = {"v": 1, "below": [{"v": 2, "below": []}]}
    assert registry.values_of(framed(10, tree)) == tree


def test_of_many_schemas_those_that_fit_are_kept_and_others_asked_for_again(
    registry: Registry, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {number: len(SCHEMAS[number]["schema"]) for number in (1, 2)}
    monkeypatch.setattr(avro, "MOST_SCHEMA_BYTES", sum(sizes.values()) - 1)
    values = {1: {"id": 1, "customer": None, "total": 1.0, "paid": True}, 2: {"id": 1, "more": "x"}}
    for number in (1, 1, 2, 2, 1):
        assert registry.values_of(framed(number, values[number])) == values[number]
    assert server.asked == [f"/schemas/ids/{number}" for number in (1, 2, 1)]
    monkeypatch.setattr(avro, "MOST_SCHEMA_BYTES", 0)
    assert registry.values_of(framed(2, values[2])) == values[2], "what is too large by itself is used, and not kept"


@pytest.mark.parametrize(("body", "why"), [
    (b'{"id": 1}', "not framed"), (b"\0\0\0", "not framed"), (HEADER.pack(0, 99) + b"x", "does not know"),
    (HEADER.pack(0, 4) + b"x", "PROTOBUF"), (HEADER.pack(0, 5) + b"x", "refers to other schemas"),
    (HEADER.pack(0, 7) + b"x", "no Avro schema"), (HEADER.pack(0, 1) + b"\x02", "does not fit"),
    (HEADER.pack(0, 8) + b"\x02", "is no record"),
    (HEADER.pack(0, 6) + bytes.fromhex("feffffffffffffff7f00"), "takes no bytes may come"),
    (HEADER.pack(0, 9) + bytes.fromhex("feffffffffffffff7f00"), "takes no bytes may come"),
    (HEADER.pack(0, 11) + b"\2" * 100_000 + b"\0", "does not fit"),  # read in C it ended the process
    (HEADER.pack(0, 12) + b"\2", "takes no bytes may come"),
    (HEADER.pack(0, 13) + b"x" * 20_000, "more than 2,500,000 values"),
    (HEADER.pack(0, 14), "more than 2,500,000 values"),
    (HEADER.pack(0, 15) + b"\2" * 4, "more than 64 levels"), (HEADER.pack(0, 16) + b"\0", "more than 64 levels"),
    (HEADER.pack(0, 18) + b"\1" * 2_600_000, "more than 2,500,000 values"),
    *((HEADER.pack(0, number) + b"\0", "more than 500 characters") for number in (19, 20)),
    *((HEADER.pack(0, number) + b"\x02" + b"\0" * 20_000, "no number of bytes") for number in (21, 22, 23)),
    (HEADER.pack(0, 24), "no Avro")], ids=range(23))
def test_what_cannot_be_read_says_why(registry: Registry, body: bytes, why: str) -> None:
    for _ in range(2):
        with pytest.raises(UnreadableMessage, match=why) as raised:
            registry.values_of(body)
        assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("fixed", [False, True], ids=["bytes", "fixed"])
@pytest.mark.parametrize("within_itself", [False, True], ids=["read in C", "read carefully"])
def test_a_decimal_that_would_take_long_to_read_is_told(
    registry: Registry, fixed: bool, within_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = DECIMAL_BYTES.most
    for number, length in ((900, most), (901, most + 1)):
        kind = {"type": "fixed", "name": "f", "size": length} if fixed else {"type": "bytes"}
        decimal = ("d", kind | {"logicalType": "decimal", "precision": 600, "scale": 0})
        schema = record(decimal, *[("r", ["null", "r"])] * within_itself)
        monkeypatch.setitem(SCHEMAS, number, {"schema": json.dumps(schema)})
        digits = b"\x7f" * length
        plain = record(("d", {"type": "fixed", "name": "f", "size": length} if fixed else "bytes"))
        body = framed(number, {"d": digits}, plain) + b"\0" * within_itself
        if length == most:
            # Avro's own precision: so many digits, and no more of them than the schema says.
            assert registry.values_of(body)["d"] == str(Context(prec=600).create_decimal(int.from_bytes(digits, "big")))
        else:
            with pytest.raises(UnreadableMessage, match=f"decimal of more than {most} bytes"):
                registry.values_of(body)


def test_bytes_behind_a_record_are_told(registry: Registry) -> None:
    with pytest.raises(UnreadableMessage, match="bytes behind"):
        registry.values_of(framed(2, {"id": 1, "more": "x"}) + b"!")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_record_is_read_or_told_and_nothing_else(data: st.DataObject) -> None:
    registry = Registry.__new__(Registry)
    schema = fastavro.parse_schema(ORDERS)
    registry._schemas = {1: (schema, SchemaLimits(schema))}
    body = bytearray(framed(1, {"id": 7, "customer": "c", "total": 1.5, "paid": False}))
    at = data.draw(st.integers(HEADER.size, len(body) - 1))
    body[at:at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        assert set(registry.values_of(bytes(body))) == {"id", "customer", "total", "paid"}
    except UnreadableMessage as told:
        assert "schema 1" in str(told)


def test_a_registry_that_is_away_is_waited_for_and_one_that_refuses_is_told(server: Server) -> None:
    registry = Registry(address(server), user="ana", password="s3cret")
    for status, error in ((500, SourceAway), (401, SourceRefused), (403, SourceRefused)):
        server.status = status
        with pytest.raises(error) as raised:
            registry.values_of(framed(1, {"id": 1, "customer": None, "total": 1.0, "paid": True}))
        assert "s3cret" not in raised.value.full_message and raised.value.remedy
    assert server.asked[0].split()[1] == "Basic" and registry.values_of
    server.status, server.raw = 0, b"[" * 100_000
    with pytest.raises(SourceAway, match="no schema"):
        registry.values_of(framed(1, {"id": 1, "customer": None, "total": 1.0, "paid": True}))
    server.raw = b""
    assert registry.values_of(framed(1, {"id": 1, "customer": None, "total": 1.0, "paid": True}))["id"] == 1
    registry.close()


@pytest.mark.parametrize(("status", "raw"), [
    (400, b"{}"), (422, b"{}"), (0, json.dumps({"schema": json.dumps(ORDERS | {"doc": "x" * (1 << 20)})}).encode())])
def test_what_is_wrong_with_one_schema_holds_up_no_other_message(
    server: Server, registry: Registry, status: int, raw: bytes
) -> None:
    """Some registries say 400 of a number that is none; whoever registers a large schema stopped all readers."""
    server.status, server.raw = status, raw
    with pytest.raises(UnreadableMessage, match="has schema 4294967295"):
        registry.values_of(HEADER.pack(0, 2**32 - 1) + b"x")
    server.status, server.raw = 0, b""
    assert registry.values_of(framed(2, {"id": 1, "more": "x"})) == {"id": 1, "more": "x"}


@pytest.mark.parametrize("number", [99, 4, 5, 7, 9], ids=["unknown", "Protobuf", "references", "no Avro", "endless"])
def test_a_schema_by_which_nothing_can_be_read_is_asked_for_once_in_a_while(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Each message of such a number asked the registry, and held up all others meanwhile."""
    now_s = [100.0]
    registry = Registry(address(server), clock=lambda: now_s[0])
    reasons = set()
    for later_s in (0.0, 0.0, avro.UNREADABLE_S - 1, 1.0, 0.0):
        now_s[0] += later_s
        with pytest.raises(UnreadableMessage, match="schema") as raised:
            registry.values_of(HEADER.pack(0, number) + b"x")
        reasons.add(str(raised.value))
    assert server.asked == [f"/schemas/ids/{number}"] * 2 and len(reasons) == 1
    monkeypatch.setitem(SCHEMAS, number, SCHEMAS[2])  # it was registered meanwhile
    now_s[0] += avro.UNREADABLE_S
    assert registry.values_of(HEADER.pack(0, number) + framed(2, {"id": 1, "more": "x"})[HEADER.size:]) == {
        "id": 1, "more": "x"}
    registry.close()


def test_of_many_unknown_numbers_the_latest_are_remembered(
    server: Server, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro, "MOST_UNREADABLE", 2)
    for number in (97, 98, 99, 99, 98, 97):
        with pytest.raises(UnreadableMessage, match="does not know"):
            registry.values_of(HEADER.pack(0, number) + b"x")
    assert server.asked == [f"/schemas/ids/{number}" for number in (97, 98, 99, 97)]


def test_a_registry_that_the_operator_does_not_allow_is_not_asked(server: Server) -> None:
    with pytest.raises(InvalidConfig, match="may not reach"):
        Registry("http://127.0.0.1:1")
