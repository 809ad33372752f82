"""Plans and estates as canonical JSON, and back: what is stored, hashed and sent is one text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .canonical import canonical_encoder
from .errors import AlteredPlan
from .estate import Estate, Submitted
from .fragment import Fragment, RunningBundle, RunningTask
from .placement import ThreadShortage
from .plan import Plan, Price, Step
from .promise import Promise
from .renumbering import placed_late, renumbered, with_slots
from .settings_of_fragments import SETTINGS, FragmentSettings
from .usage import Users

BEFORE_ALL = -1  # a generation before the first: nothing in any estate is numbered for it
# Left out where empty, so that what was stored and signed before they existed stays as it is.
_LEFT_OUT_WHERE_EMPTY = {
    Estate: ("teams_apart",),
    Fragment: ("channels", "inherits", "joins", "resting", "bundles", "origin", "team"),
    Plan: (
        "touched_teams", "touched_count", "rested", "resumed", "fresh", "refined", "otherwise", "promise", "notes",
        "bill_changes", "replaced", "settings_before", "settings_after", "why"),
    FragmentSettings: SETTINGS,
    Price: (
        "cores_error", "measured_queries", "machine", "not_measured", "slots_kept", "slots_per_hour_delta",
        "money_per_hour_alone", "alone_error", "rests_on", "since_ms"),
    Promise: ("latencies_s", "slots_bound", "traffic_bound", "crowded"),
    RunningBundle: ("root", "inherits", "origin", "key_ranges", "takes"),
    RunningTask: ("rate_per_s",),
    Step: ("bundle", "of_key", "alternate"),
    Submitted: ("paused", "scheduled", "unchained"),
    Users: ("unchained",),
}
# What was stored and signed under a name that was changed since.
_EARLIER_NAMES: dict[type, dict[str, str]] = {ThreadShortage: {"driver_threads": "there"}}


def to_json(value: Any) -> str:
    """Canonical JSON of any value of the model: dataclasses become objects, tuples lists."""
    return _ENCODER.encode(value)


def plan_digest(plan: Plan, encoder: json.JSONEncoder | None = None) -> str:
    """SHA-256 over what a plan means: everything in it but its digest, and what is settled as it is taken in.

    That is the number of the generation, in what it starts as well, and where that is placed without a schedule. So
    the same plan has the same digest at whichever generation of the estate (`scheduler.rebasing`).
    """
    anywhere = with_slots(plan, dict.fromkeys(placed_late(plan), ""))
    return _digest(renumbered(anywhere, BEFORE_ALL), encoder)


def _digest(plan: Plan, encoder: json.JSONEncoder | None = None) -> str:
    """SHA-256 over everything in a plan but its digest."""
    data = _as_object(plan)
    del data["digest"]
    return hashlib.sha256((encoder or _ENCODER).encode(data).encode()).hexdigest()


def freeze_plan(plan: Plan) -> Plan:
    """The plan with its digest: what reviewers approve."""
    return replace(plan, digest=plan_digest(plan))


def plan_to_json(plan: Plan) -> str:
    """The plan, digest included, as canonical JSON."""
    return to_json(plan)


def plan_from_json(text: str | Mapping[str, Any]) -> Plan:
    """The plan of that JSON (or of the object already parsed from it).

    Raises
    ------
    AlteredPlan
        What is stored is not what was frozen: the digest does not fit, or it is no plan of this version.
    """
    try:
        plan: Plan = value_of(Plan, json.loads(text) if isinstance(text, str) else text)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AlteredPlan(
            f"The stored plan cannot be read: {error!r}",
            remedy="Compute it again; if it was made by a later version of Weir, run that one.") from error
    # Plans that were frozen before digests were of what they mean have one of everything; and some have earlier names.
    if not any(plan.digest in (plan_digest(plan, encoder), _digest(plan, encoder)) for encoder in _ENCODERS):
        raise AlteredPlan(
            "The stored plan is not the plan that was frozen", remedy="Compute it again.", digest=plan.digest
        )
    return plan


def value_of(kind: Any, data: Any) -> Any:
    """The value of a type of the model, a dataclass or one of those within it, from its JSON.

    Numbers stay what they are in the text, whole or not: a digest is over the text.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError
        It is none.
    """
    read = _reader(kind)
    return data if read is None else read(data)


@cache
def _reader(kind: Any) -> Callable[[Any], Any] | None:
    """The function that reads values of a type; None where JSON has the values as they are."""
    inner = get_args(kind)
    if is_dataclass(kind):
        readers = {name: reader for name, hint in get_type_hints(kind).items() if (reader := _reader(hint)) is not None}
        earlier_names = _EARLIER_NAMES.get(kind, {})

        def read(data: Mapping[str, Any]) -> Any:
            values = dict(data)
            for name, earlier in earlier_names.items():
                if earlier in values:
                    values[name] = values.pop(earlier)
            for name, reader in readers.items():
                if name in values:
                    values[name] = reader(values[name])
            return kind(**values)

        return read
    if get_origin(kind) is UnionType:
        reader = next(filter(None, map(_reader, inner)), None)
        return reader and (lambda data: None if data is None else reader(data))
    if get_origin(kind) is tuple:
        if inner[-1] is not Ellipsis:
            return lambda data: tuple(value_of(part, item) for part, item in zip(inner, data, strict=True))
        reader = _reader(inner[0])
        return tuple if reader is None else lambda data: tuple(map(reader, data))
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        reader = _reader(inner[1])
        return reader and (lambda data: {name: reader(item) for name, item in data.items()})
    return None


def _as_object(value: Any) -> dict[str, Any]:
    """The JSON form of a value of the model: one level of it, the encoder asks again for those within."""
    if is_dataclass(value):
        optional = _LEFT_OUT_WHERE_EMPTY.get(type(value), ())
        values = {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: value for name, value in values.items() if value or name not in optional}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _as_object_earlier(value: Any) -> dict[str, Any]:
    names = _EARLIER_NAMES.get(type(value), {})
    return {names.get(name, name): content for name, content in _as_object(value).items()}


_ENCODER = canonical_encoder(_as_object)
_ENCODERS = (_ENCODER, canonical_encoder(_as_object_earlier))
