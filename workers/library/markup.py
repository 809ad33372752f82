"""XML documents of any depth: values by their path, of the whole document or of each of its records.

An event parser passes over the document once and keeps only the values that are asked for. Document types are refused,
because their entities could name files or explode. Spark's ``from_xml`` needs a schema of each level and reads document
types, its ``xpath`` parses the document again for each value, and lxml keeps the whole tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from scheduler.model.bounds import RESULT_BYTES
from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import typed_columns
from .config import InvalidConfig, require_columns, settings
from .outside import typed
from .spark_text import columns_ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

XML_DOCUMENT = TaskType(
    name="xml_document", kind="transform", family="parse",
    doc="Reads an XML document in one pass: values by their path, for the document or for each of its records.",
    build="workers.library.markup:xml_document", effects=(),
    parameters=(
        Parameter("field", "string", "Column that holds the text; the others go on.", default="xml", pattern=r"\w+",
                  column="names"),
        Parameter("record", "string", "Path of the element that repeats, below the document's element, such as "
                  "Delivery/Vehicle: an event for each, which copies the other columns; none where that would be more "
                  "than 64 MiB. Without it there is one event for the document.",
                  pattern=r"[\w.-]+(/[\w.-]+)*"),
        Parameter("values", "list", "What to read, each “name=path” or “name:type=path”: a path of elements below the "
                  "record, the last may be an @attribute; the first of several counts. Prefixes are left out.",
                  required=True, items="string"),
    ),
    cost_us=250,
)
TASK_TYPES = (XML_DOCUMENT,)
_PATH = re.compile(r"(?:[\w.-]+/)*(?:@?[\w.-]+)")
DEEPEST = 200  # levels
_RECORD_BYTES = 64  # that a record takes at the least
_ELSEWHERE = "/"  # a path that is none, as are those below it


@dataclass(frozen=True, slots=True)
class MarkupFields:
    """The values to read: the record's path (empty: the document's element), and by path the value's place."""

    record: str
    places: Mapping[str, tuple[int, ...]]
    count: int


class _Refused(Exception):
    """The text is XML that is not read."""


def xml_document(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The event's other columns with the values; text that cannot be read gives nulls, or no record."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    values = settings(XML_DOCUMENT, config)
    kinds, fields = _columns(values), wanted_values(values)
    field = values["field"]
    require_columns(inputs.columns, [field], task_type="xml_document", remedy="Set field to the column of the text.")
    added = StructType.fromDDL(columns_ddl(kinds))
    stay = [name for name in inputs.columns if name != field and name not in kinds]
    schema = StructType([*(inputs.schema[name] for name in stay), *added.fields])
    arrow, types = to_arrow_schema(added, timezone="UTC"), tuple(kinds.values())

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            places: list[int] = []
            rows: list[list[str | None]] = []
            beside = batch.select(stay)
            for event, text in enumerate(batch.column(field).to_pylist()):
                records = read_records(text, fields, most=most_records(beside.slice(event, 1).nbytes))
                places += [event] * len(records)
                rows += records
            columns = [
                pa.array([typed(row[index], kind) for row in rows], arrow.field(index).type)
                for index, kind in enumerate(types)
            ]
            copied = beside.take(pa.array(places, pa.int64()))
            yield pa.RecordBatch.from_arrays([*copied.columns, *columns], names=[*stay, *arrow.names])

    return inputs.mapInArrow(read, schema)


def xml_document_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(XML_DOCUMENT, config)
    _columns(values)
    wanted_values(values)


def xml_document_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's but for the text, and the values."""
    inputs.require_text(values["field"], parameter="field")
    return inputs.without([values["field"]]).renewed(_columns(values))


def most_records(beside_bytes: int) -> int:
    """The most records that a document may have, by the bytes that each copies of what else its event has."""
    return RESULT_BYTES.most // (_RECORD_BYTES + beside_bytes)


def read_records(text: str | None, fields: MarkupFields, *, most: int = 1_000_000) -> list[list[str | None]]:
    """The values of each record in a document, in its order.

    Without a record's path there is one for the document, its values null where the text cannot be read; with one,
    text that cannot be read, or has more than ``most``, has none.
    """
    reader = _Reader(fields, most)
    try:
        if text is None:
            raise _Refused
        reader.read(text)
    except (expat.ExpatError, _Refused, UnicodeEncodeError):
        return [] if fields.record else [[None] * fields.count]
    return reader.records


class _Reader:
    """Follows the parser through a document; paths are told below the record, outside of one below the root."""

    def __init__(self, fields: MarkupFields, most: int = 1_000_000) -> None:
        self.records: list[list[str | None]] = []
        self._fields, self._most = fields, max(1, most)
        self._outside: list[str] = []  # paths of the open elements up to the record
        self._inside: list[str] = []  # paths of those within it
        self._record: list[str | None] | None = None
        self._text: list[list[str] | None] = []  # of each open element within the record, where it is asked for
        self._longest = max(map(len, [fields.record, *fields.places]))

    def read(self, text: str) -> None:
        parser = expat.ParserCreate("utf-8")  # whatever the text declares: it is text already, and this its bytes
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = self._characters, self._refuse
        parser.Parse(text.encode(), True)

    def _refuse(self, *_: Any) -> None:
        raise _Refused

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        name = name.rpartition(":")[2]
        if self._record is None:
            path = self._path(self._outside[-1], name) if self._outside else ""
            if path != self._fields.record:
                self._outside.append(path)
                if len(self._outside) > DEEPEST:
                    raise _Refused
                return
            if len(self.records) >= self._most:
                raise _Refused
            self._record = [None] * self._fields.count
            self.records.append(self._record)
            path = ""
        else:
            path = self._path(self._inside[-1], name)
        self._inside.append(path)
        if len(self._inside) > DEEPEST:
            raise _Refused
        self._text.append([] if path in self._fields.places else None)
        for attribute, value in attributes.items():
            attribute = f"@{attribute.rpartition(':')[2]}"
            self._keep(f"{path}/{attribute}" if path else attribute, value)

    def _path(self, outer: str, name: str) -> str:
        """The path of an element; one that is longer than any that is asked for is not kept, for each element below it
        would copy it: 8 MB took minutes."""
        path = f"{outer}/{name}" if outer else name
        return path if len(path) <= self._longest else _ELSEWHERE

    def _characters(self, data: str) -> None:
        if self._text and (parts := self._text[-1]) is not None:
            parts.append(data)

    def _end(self, _: str) -> None:
        if self._record is None:
            self._outside.pop()
            return
        path, parts = self._inside.pop(), self._text.pop()
        if parts is not None:
            self._keep(path, "".join(parts).strip())
        if not self._inside:
            self._record = None

    def _keep(self, path: str, value: str) -> None:
        for index in self._fields.places.get(path, ()):
            if self._record is not None and self._record[index] is None:
                self._record[index] = value


def _columns(values: Mapping[str, Any]) -> dict[str, str]:
    return typed_columns([str(value).partition("=")[0] for value in values["values"]])


def wanted_values(values: Mapping[str, Any]) -> MarkupFields:
    """The values that a config asks for; ``InvalidConfig`` where an entry names no path."""
    places: dict[str, tuple[int, ...]] = {}
    entries: Sequence[str] = values["values"]
    for index, entry in enumerate(entries):
        path = str(entry).partition("=")[2]
        if _PATH.fullmatch(path) is None:
            raise InvalidConfig(
                f"“{entry}” does not say where a value stands.",
                remedy="Write “name=Child/Element”, “name:type=Child/Element” or “name=Child/@attribute”.",
                value=entry)
        places[path] = (*places.get(path, ()), index)
    if not entries:
        raise InvalidConfig("xml_document reads no value.", remedy="Name in “values” what to read.")
    return MarkupFields(values["record"] or "", places, len(entries))
