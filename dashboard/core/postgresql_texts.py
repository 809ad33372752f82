"""Texts that PostgreSQL takes: it stores no U+0000, which SQLite does, and anybody may send.

A query's failure, a webhook's answer or a field of a request may hold one. Whoever stores such a text with those of
others must not fail for it: U+FFFD stands in its place, as for any other character that cannot be read.
"""

from __future__ import annotations

import re
from typing import Any

_ESCAPED = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")  # in JSON; behind a backslash that is itself escaped it is a text


def replace_what_it_refuses(*, connection: Any, **_: Any) -> None:
    """Let a new connection to PostgreSQL write texts and JSON so; a receiver of ``connection_created``."""
    if connection.vendor != "postgresql":
        return
    # Here, not above: psycopg is there where PostgreSQL is.
    from psycopg.types.json import Jsonb, JsonbDumper
    from psycopg.types.string import StrDumperUnknown

    class _Text(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", "\ufffd"))

    class _Json(JsonbDumper):
        def dump(self, obj: Any) -> Any:
            return _ESCAPED.sub(rb"\1\\ufffd", bytes(super().dump(obj) or b""))

    adapters = connection.connection.adapters
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(Jsonb, _Json)
