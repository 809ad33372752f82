"""Latency limits as a viewer sees them, with what controllers do about them.

Of a limit that is not met it is said what each of them did about it, or why not. One that intervals alone do not meet
may be met by open batches, which a team's settings may hold back: then it is said by how much they would, and what they
wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import dataflow as dataflow_of
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.stored_rounds import policy_of_team
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.latency_control.batch_modes import wanted_modes
from dashboard.operations.live_view.estate_view import view_for
from dashboard.plans.latency_prices import latency_prices
from dashboard.plans.latency_remarks import limit_remarks
from dashboard.plans.latency_remedies import cpu_in_words, latency_card_with_remedies, latency_with_remedies
from dashboard.plans.price_settings import tariff
from dashboard.teams.permissions import Viewer
from scheduler.controllers.batch_opening import BatchOpening
from scheduler.controllers.controller_port import Controller
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.loop_values import ACTS, ASKED, OFF
from scheduler.latency.limits_met import LATE, MISSED, WAITING
from scheduler.latency.wanted_modes import WantedModes
from scheduler.latency.ways import way_of
from scheduler.model.fragment import node_of
from scheduler.model.latency_limits import LatencyLimit, figure_in_words, in_words

OPENED = "open"  # the kind of remedy


def latency_told(viewer: Viewer, dataflow_id: UUID | str) -> dict[str, Any]:
    """A dataflow's limits, what became of each, and what would meet one that is not met as things are.

    ``remarks`` are of limits that are out of reach whatever else runs, as a plan would tell.
    """
    record = dataflow_of(viewer, dataflow_id)
    mode = _mode(record)
    answer = latency_with_remedies(viewer, dataflow_id, opens=mode == ACTS)
    return _with_names(viewer, _answer_of(record, answer, mode)) | {"remarks": list(limit_remarks(record))}


def latency_card_told(viewer: Viewer, record: DataflowRecord) -> dict[str, Any]:
    """The same with how the limits are written, for a dataflow's page."""
    mode = _mode(record)
    return _with_names(viewer, _answer_of(record, latency_card_with_remedies(viewer, record, opens=mode == ACTS), mode))


def latency_prices_told(viewer: Viewer, dataflow_id: UUID | str, *, scheduled: bool = False) -> dict[str, Any]:
    """The cost of other limits; where the team lets no batches be opened, with those that are open now."""
    mode = _mode(dataflow_of(viewer, dataflow_id))
    return latency_prices(viewer, dataflow_id, scheduled=scheduled, opens=mode != OFF)


def _mode(record: DataflowRecord) -> str:
    return policy_of_team(BatchOpening(), record.team).mode


def _answer_of(record: DataflowRecord, answer: dict[str, Any], mode: str) -> dict[str, Any]:
    if not any(_is_not_met(limit) for limit in answer["limits"]):
        return {**answer, "limits": [{**limit, "tried": []} for limit in answer["limits"]]}
    modes, by_controllers = wanted_modes() or WantedModes(), _by_controllers(record)
    limits = []
    for status, wish in zip(answer["limits"], record.latency_limits, strict=True):
        limit = {**status, "tried": [*_intervals(status), *by_controllers] if _is_not_met(status) else []}
        if limit["state"] != MISSED and _is_not_met(limit) and modes.meets(str(record.pk), limit["number"]):
            remedy = _remedy(record, wish, limit, modes, mode)
            limits.append({**limit, "remedies": [remedy, *limit["remedies"]]} if remedy else limit)
        else:
            limits.append(limit)
    return {**answer, "limits": limits}


def _with_names(viewer: Viewer, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with queries' names in its sentences, in place of their ids."""
    if not any(limit["tried"] or limit["remedies"] for limit in answer["limits"]):
        return answer
    view = view_for(viewer)
    return {**answer, "limits": [{
        **limit, "tried": [view.in_words(sentence) for sentence in limit["tried"]],
        "remedies": [{**remedy, "words": view.in_words(remedy["words"])} for remedy in limit["remedies"]],
    } for limit in answer["limits"]]}


def _is_not_met(limit: Mapping[str, Any]) -> bool:
    """True if a limit is not met, or seems impossible while drivers on its way still compile."""
    return limit["state"] in LATE or (limit["state"] == WAITING and limit["least_s"] is not None)


def _intervals(limit: Mapping[str, Any]) -> list[str]:
    """The intervals of batches on its way: that is what is tried first."""
    apart_ms = [part["trigger_ms"] for part in limit["path"] if not part["real_time"]]
    if not apart_ms:
        return []
    shortest, longest = (in_words(pick(apart_ms) / 1000) for pick in (min, max))
    return [f"Batches on its way are {shortest if shortest == longest else f'{shortest} to {longest}'} apart."]


def _by_controllers(record: DataflowRecord) -> list[str]:
    """The last decision of each controller that may help a limit about a dataflow, or why it did nothing."""
    return [_by_controller(record, controller) for controller in CONTROLLERS.values() if controller.helps_limits]


def _by_controller(record: DataflowRecord, controller: Controller) -> str:
    mode = policy_of_team(controller, record.team).mode
    if mode == OFF:
        return f"{controller.title} is off for {record.team.name}."
    loop_round = RoundRow.objects.filter(controller=controller.name, dataflow=record).first()
    reason = ReasonRow.objects.filter(controller=controller.name, dataflow=record).first()
    if loop_round is not None and (reason is None or loop_round.is_open or loop_round.begun > reason.until):
        return " ".join(filter(None, (
            f"{controller.title} ({loop_round.phase.replace('_', ' ')}): {loop_round.decision['why']}",
            loop_round.why)))
    return f"{controller.title}: {reason.why}" if reason else f"{controller.title} saw nothing to change."


def _remedy(
    record: DataflowRecord, limit: LatencyLimit, status: Mapping[str, Any], modes: WantedModes, mode: str
) -> dict[str, Any] | None:
    estate, name = current_estate(), str(record.pk)
    way = way_of(estate, name, limit) if name in estate.submitted else None
    opened = sorted(query for query, opens in modes.opens.items() if opens and way and query in way.writers)
    if not opened:
        return None
    then_s, _ = modes.limits[name, status["number"]]
    cores = sum(after - before for query, (before, after) in modes.cores.items() if query in way.writers)
    price = tariff()
    more = cores * max(price.slot_hour(node_of(estate.fragments[query].slot)) for query in opened)
    queries = opened[0] if len(opened) == 1 else f"{len(opened)} queries"
    words = (f"Would be met by open batches of {queries}: events then take about {figure_in_words(then_s, most=2)}, "
             f"for {cpu_in_words(cores, more, price.currency)}. "
             f"{_waits_for(record, opened, mode)}")
    return {
        "kind": OPENED, "words": words, "limit_s": status["limit_s"], "latency_s": round(then_s, 4),
        "cores": round(cores, 4), "per_hour": round(more, 6), "slots": 0, "slots_per_hour": 0.0, "fused": [],
        "moved": [], "currency": price.currency}


def _waits_for(record: DataflowRecord, queries: list[str], mode: str) -> str:
    """The obstacle to open batches."""
    title = BatchOpening.title
    for row in RoundRow.objects.filter(controller=BatchOpening.name, ended=None):
        if {change["subject"] for change in row.decision["changes"]}.isdisjoint(queries):
            continue
        return "That is proposed, and waits for its approvals." if row.phase == ASKED else "That is on its way."
    if mode == OFF:
        return f"The controller {title} is off for {record.team.name}."
    reason = ReasonRow.objects.filter(controller=BatchOpening.name, dataflow=record).first()
    if reason is not None:
        return f"The controller {title} said last: {reason.why}"
    if mode == ACTS:  # its approval counts for one: others, and rules that demand more, are asked all the same
        return "Weir opens them within half a minute, or asks those first who have to approve of that."
    return "Weir asks about that within half a minute."
