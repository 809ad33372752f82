"""Plans and estates as canonical JSON, and back: what is stored, hashed and sent is one text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from .canonical import canonical_encoder
from .errors import AlteredPlan
from .estate import Estate, Submitted
from .fragment import Fragment, RunningBundle, RunningTask
from .placement import Bound, ThreadShortage
from .plan import BillChange, Plan, Price, Step
from .promise import BundlePromise, Load, ProfileUsed, Promise
from .refinement import Refinement
from .renumbering import placed_late, renumbered, with_slots
from .settings_of_fragments import FragmentSettings
from .usage import Users

BEFORE_ALL = -1  # a generation before the first: nothing in any estate is numbered for it
# Left out where empty, so that what was stored and signed before they existed stays as it is.
_LEFT_OUT_WHERE_EMPTY = {
    Estate: ("teams_apart",),
    Fragment: ("channels", "inherits", "joins", "resting", "bundles", "origin", "team"),
    Plan: (
        "touched_teams", "touched_count", "rested", "resumed", "fresh", "refined", "otherwise", "promise", "notes",
        "bill_changes", "replaced", "settings_before", "settings_after", "why"),
    FragmentSettings: ("trigger_ms", "real_time", "alternates", "policies", "restores"),
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
        plan = _plan_from_data(dict(json.loads(text) if isinstance(text, str) else text))
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


def _plan_from_data(data: Mapping[str, Any]) -> Plan:
    return Plan(
        **data
        | {
            "dataflow": submitted_from_data(data["dataflow"]),
            "reused": tuple(data["reused"]),
            "started": tuple(running_task_from_data(task) for task in data["started"]),
            "stopped": tuple(running_task_from_data(task) for task in data["stopped"]),
            "steps": tuple(Step(**step) for step in data["steps"]),
            "fragments_before": _fragments_from_data(data["fragments_before"]),
            "fragments_after": _fragments_from_data(data["fragments_after"]),
            "touched": tuple(data["touched"]),
            "price": None if data["price"] is None else _price_from_data(data["price"]),
            "bill_changes": tuple(BillChange(**entry) for entry in data.get("bill_changes", ())),
            "refined": tuple(Refinement(**entry) for entry in data.get("refined", ())),
            "otherwise": _price_from_data(data["otherwise"]) if "otherwise" in data else None,
        }
        | {name: tuple(data[name]) for name in ("touched_teams", "rested", "resumed", "fresh", "notes") if name in data}
        | ({"replaced": submitted_from_data(data["replaced"])} if "replaced" in data else {})
        | ({"promise": promise_from_data(data["promise"])} if "promise" in data else {})
        | {name: _settings_from_data(data[name]) for name in ("settings_before", "settings_after") if name in data}
    )


def _price_from_data(data: Mapping[str, Any]) -> Price:
    return Price(**{**data, "not_measured": tuple(data.get("not_measured", ()))})


def running_task_from_data(data: Mapping[str, Any]) -> RunningTask:
    """A running task from its JSON object."""
    return RunningTask(**{**data, "parents": tuple(data["parents"])})


def submitted_from_data(data: Mapping[str, Any]) -> Submitted:
    """A submitted dataflow's entry from its JSON object."""
    return Submitted(**{**data, **{name: tuple(data.get(name, ())) for name in ("sinks", "unchained")}})


def fragment_from_data(data: Mapping[str, Any]) -> Fragment:
    """A fragment from its JSON object."""
    outlets = {task: tuple(readers) for task, readers in data["outlets"].items()}
    return Fragment(**{
        **data, "tasks": tuple(data["tasks"]), "outlets": outlets, "inherits": tuple(data.get("inherits", ())),
        "bundles": bundles_from_data(data.get("bundles", ())),
    })


def bundles_from_data(data: Iterable[Mapping[str, Any]]) -> tuple[RunningBundle, ...]:
    """A fragment's bundles from their JSON objects."""
    return tuple(
        RunningBundle(**{
            **bundle, "inherits": tuple(bundle.get("inherits", ())),
            "key_ranges": tuple(map(tuple, bundle.get("key_ranges", ()))),
            "takes": tuple((giver, tuple(map(tuple, ranges))) for giver, ranges in bundle.get("takes", ()))})
        for bundle in data)


def promise_from_data(data: Mapping[str, Any]) -> Promise:
    """What a schedule promises, from its JSON object."""
    bounds = {name: Bound(**data[name]) for name in ("slots_bound", "traffic_bound") if name in data}
    return Promise(**{
        **data, **bounds, "pair": tuple(data["pair"]),
        "bundles": tuple(BundlePromise(**entry) for entry in data["bundles"]),
        "profiles": tuple(ProfileUsed(**entry) for entry in data["profiles"]),
        "others": {slot: Load(**load) for slot, load in data["others"].items()},
        "crowded": {slot: _shortage_from_data(entry) for slot, entry in data.get("crowded", {}).items()},
    })


def _shortage_from_data(data: Mapping[str, Any]) -> ThreadShortage:
    earlier = _EARLIER_NAMES[ThreadShortage]
    return ThreadShortage(**{name: data[name if name in data else earlier[name]] for name in ThreadShortage.__slots__})


def _fragments_from_data(data: Mapping[str, Any]) -> dict[str, Fragment]:
    return {fragment_id: fragment_from_data(fragment) for fragment_id, fragment in data.items()}


def _settings_from_data(data: Mapping[str, Any]) -> dict[str, FragmentSettings]:
    return {fragment_id: FragmentSettings(**entry) for fragment_id, entry in data.items()}


def _as_object(value: Any) -> dict[str, Any]:
    """What a value of the model is in JSON: one level of it, the encoder asks again for those within."""
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
