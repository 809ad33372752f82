"""Columns for messages whose columns nobody has named yet, from what each format itself says of its fields."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.contracts.looks import ColumnProposal
from scheduler.model.bounds import MESSAGE_BYTES, MESSAGE_EVENTS, MESSAGE_VALUES
from workers.library.column_proposals import propose_columns
from workers.library.json_values import UnreadableMessage, items_of, parsed

from .arrow_streams import DecodingRoom, TooMuch, batches_of, rows_of
from .contract import Message
from .csv_records import lines_of, records_of, values_of
from .formats import MessageLayout, decode, layout_of


def proposal_for(messages: Sequence[Message], config: Mapping[str, Any]) -> ColumnProposal:
    """Columns that read the messages; none for formats that have no fields, and where no message can be taken apart.

    Parameters
    ----------
    config : mapping
        A source's, without columns. A message of CSV has no header: its columns are ``column_1`` and so on.
    """
    name = config.get("format") or "json"
    events = [event for message in messages for event in _fields_of(message, name)]
    return propose_columns(events, is_text=name == "csv", zone=config.get("time_zone"))


def with_proposal(config: Mapping[str, Any], proposal: ColumnProposal) -> dict[str, Any]:
    """The config with the proposed columns, but for those inside of others."""
    columns = [f"{column.name}:{column.type}" for column in proposal.columns if not column.path]
    if not columns:
        return dict(config)
    when = {"time_field": proposal.time_field, "time_unit": proposal.time_unit} if proposal.time_field else {}
    return {**config, "columns": columns, **when}


def layout_for(messages: Sequence[Message], config: Mapping[str, Any], *, now_ms: int
               ) -> tuple[ColumnProposal, MessageLayout]:
    """The proposal, and how messages are read by it. A proposed time that cannot be one (it is ahead of its arrival,
    say) is given up where all messages are without it."""
    proposal = proposal_for(messages, config)
    layout = layout_of(with_proposal(config, proposal))
    if proposal.time_field and not decode(messages, layout, now_ms=now_ms).rows:
        proposal = ColumnProposal(proposal.columns, "", "ms", proposal.zoneless, proposal.left_out)
        layout = layout_of(with_proposal(config, proposal))
    return proposal, layout


def _fields_of(message: Message, name: str) -> Iterator[Mapping[str, Any]]:
    """The events of a message, by field; what cannot be read is left out: whoever decodes hears of it."""
    if message.values is not None:
        yield message.values
        return
    try:
        yield from (event for event in _READERS.get(name, _no_items)(message.body) if isinstance(event, Mapping))
    except (UnreadableMessage, TooMuch, ValueError, OSError):
        return


def _no_items(body: bytes) -> Iterator[Any]:
    return iter(())


def _json(body: bytes) -> Iterator[Any]:
    for item, _ in items_of(body):
        yield item


def _ndjson(body: bytes) -> Iterator[Any]:
    for _, _, line in lines_of(io.BytesIO(body)):
        if line is not None and line.strip():
            try:
                yield parsed(line)
            except UnreadableMessage:
                continue


def _csv(body: bytes) -> Iterator[Any]:
    for _, _, record in records_of(io.BytesIO(body)):
        if record is not None and record.strip():
            try:
                values = values_of(record)
            except UnreadableMessage:
                continue
            yield {f"column_{number}": value or None for number, value in enumerate(values, start=1)}


def _arrow(body: bytes) -> Iterator[Any]:
    room = DecodingRoom(MESSAGE_EVENTS.most, MESSAGE_VALUES.most, MESSAGE_BYTES.most)
    for batch in batches_of(io.BytesIO(body), room):
        yield from rows_of(batch)


_READERS = {"json": _json, "ndjson": _ndjson, "csv": _csv, "arrow": _arrow}
