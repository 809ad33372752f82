"""Rules of approval as a form: what its fields say, and the fields of the rules that there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import QueryDict

from dashboard.operations.live_view.handover_pauses import expected_gap_ms, usual_gap_ms
from scheduler.approving import MINUTES_A_DAY, MOST_ENTRIES, InvalidRules, Rules, rules_of
from scheduler.model.effects import SECRETS, UNDECLARED, WORDS
from scheduler.model.plan_kinds import PLAN_KINDS

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WHOSE = (("any", "any dataflow"), ("own", "our dataflows"), ("others", "dataflows of others"))
ROLES = (("approver", "approvers"), ("admin", "admins"))
KINDS = tuple(
    (kind.name, "Submission" if kind.has_document else kind.noun) for kind in PLAN_KINDS.values())
EFFECTS = (*WORDS.items(), (SECRETS, "the team's secrets"), (UNDECLARED, "what they do not declare"))
HANDOVER_MS = 250.0  # beyond a batch: what a handover within a node may take, as preset
_CLOCK = re.compile(r"([01]\d|2[0-4]):([0-5]\d)")


def rules_from(form: QueryDict) -> Rules:
    """The rules that a form describes; ``InvalidRules`` says which part of it describes none."""
    return rules_of({
        "clauses": [_clause(form, f"clause-{number}-") for number in _numbers(form, "clause", "approvals")],
        "otherwise": _clause(form, "otherwise-"),
        "automatic": None if form.get("automatic") != "1" else {
            "kinds": form.getlist("automatic-kinds"),
            "most_money_per_hour": _number(form, "automatic-money", 0.0),
            "most_pause_ms": _number(form, "automatic-pause", preset_pause_ms()),
            "alone": form.get("automatic-alone") == "1", "effects": form.getlist("automatic-effects")},
        "windows": [_window(form, f"window-{number}-") for number in _numbers(form, "window", "begin")],
        "freezes": [_freeze(form, f"freeze-{number}-") for number in _numbers(form, "freeze", "since")],
    })


def preset_pause_ms() -> float:
    """The pause that the form begins with: an output comes once a batch, so it is a batch longer than a handover."""
    return HANDOVER_MS + settings.TRIGGER_MS


def fields_of(rules: Rules) -> dict[str, Any]:
    """The rules for the form's template: rows with numbers, and one that is empty for the next of each."""
    return {
        "clauses": [*({
            "kinds": clause.kinds, "whose": clause.whose, "above": clause.above_money_per_hour,
            "approvals": clause.approvals, "role": clause.role, "expires": clause.expires_after_h}
            for clause in rules.clauses), {}],
        "otherwise": {
            "approvals": rules.otherwise.approvals, "role": rules.otherwise.role,
            "expires": rules.otherwise.expires_after_h},
        "automatic": rules.automatic, "preset_pause_ms": preset_pause_ms(), "pauses": _pauses(),
        "windows": [*({
            "days": window.days, "begin": _clock(window.begin_min), "end": _clock(window.end_min)}
            for window in rules.windows), {}],
        "freezes": [*({
            "since": _local(freeze.since_ms), "until": _local(freeze.until_ms), "reason": freeze.reason}
            for freeze in rules.freezes), {}],
        "kind_choices": KINDS, "whose_choices": WHOSE, "role_choices": ROLES, "day_choices": tuple(enumerate(DAYS)),
        "effect_choices": EFFECTS,
    }


def in_words(rules: Rules) -> list[str]:
    """The rules in sentences, for those who may not change them and for earlier versions."""
    nouns = dict(KINDS)
    sentences = []
    if rules.automatic is not None:
        limit = rules.automatic
        sentences.append(
            f"Approved automatically: {_kinds(limit.kinds, nouns)} that cost at most {limit.most_money_per_hour:g} an "
            f"hour more and pause nothing for over {limit.most_pause_ms:g} ms"
            f"{' and that no other team notices' if limit.alone else ''}; "
            f"{_reached(limit.effects)}.")
    for clause in rules.clauses:
        above = "" if clause.above_money_per_hour is None else f" above {clause.above_money_per_hour:g} an hour"
        sentences.append(
            f"{_kinds(clause.kinds, nouns).capitalize()} of {dict(WHOSE)[clause.whose]}{above}: {_demanded(clause)}.")
    sentences.append(f"{'Everything else' if len(sentences) else 'Everything'}: {_demanded(rules.otherwise)}.")
    sentences += [
        f"Enacted only {', '.join(DAYS[day] for day in sorted(window.days))} from {_clock(window.begin_min)} to "
        f"{_clock(window.end_min)} UTC." for window in rules.windows]
    sentences += [
        f"Nothing is enacted from {_local(freeze.since_ms).replace('T', ' ')} to "
        f"{_local(freeze.until_ms).replace('T', ' ')} UTC{f': {freeze.reason}' if freeze.reason else ''}."
        for freeze in rules.freezes]
    return sentences


def _pauses() -> list[dict[str, Any]]:
    """The pauses of outputs by what handovers took here, in ms: usually, and at most in 19 of 20."""
    return [
        {"where": where, "usual_ms": settings.TRIGGER_MS + usual_gap_ms(between_nodes=between_nodes),
         "most_ms": settings.TRIGGER_MS + expected_gap_ms(between_nodes=between_nodes)}
        for where, between_nodes in (("within a node", False), ("between nodes", True))]


def _reached(effects: tuple[str, ...]) -> str:
    """The outside effects that automatic approval covers."""
    if not effects:
        return "none that starts tasks with outside effects or secrets"
    return f"with tasks that reach {' or '.join(dict(EFFECTS)[effect] for effect in effects)}"


def _demanded(clause: Any) -> str:
    role = dict(ROLES)[clause.role]
    expires = "" if clause.expires_after_h is None else f", each for {clause.expires_after_h:g} hours"
    return f"{clause.approvals} of its {role}{expires}"


def _kinds(kinds: tuple[str, ...], nouns: Mapping[str, str]) -> str:
    return " or ".join(nouns[kind].lower() for kind in kinds) + " plans" if kinds else "all plans"


def _numbers(form: QueryDict, prefix: str, needed: str) -> list[int]:
    """The rows of one kind that are filled in and not to be left out, in their order."""
    return [
        number for number in range(MOST_ENTRIES + 1)
        if form.get(f"{prefix}-{number}-{needed}", "").strip() and form.get(f"{prefix}-{number}-drop") != "1"]


def _clause(form: QueryDict, prefix: str) -> dict[str, Any]:
    return {
        "kinds": form.getlist(f"{prefix}kinds"), "whose": form.get(f"{prefix}whose") or "any",
        "above_money_per_hour": _number(form, f"{prefix}above", None),
        "approvals": int(_number(form, f"{prefix}approvals", 1.0)), "role": form.get(f"{prefix}role") or "approver",
        "expires_after_h": _number(form, f"{prefix}expires", None)}


def _window(form: QueryDict, prefix: str) -> dict[str, Any]:
    return {
        "days": [int(day) for day in form.getlist(f"{prefix}days") if len(day) == 1 and day.isdecimal()],
        "begin_min": _minutes(form, f"{prefix}begin"), "end_min": _minutes(form, f"{prefix}end") or MINUTES_A_DAY}


def _freeze(form: QueryDict, prefix: str) -> dict[str, Any]:
    return {
        "since_ms": _ms(form, f"{prefix}since"), "until_ms": _ms(form, f"{prefix}until"),
        "reason": form.get(f"{prefix}reason", "").replace("\0", "").strip()[:120]}


def _number(form: QueryDict, name: str, default: float | None) -> Any:
    text = form.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -1e9 < value < 1e9:
        raise InvalidRules(f"{text[:20]!r} is no number.", remedy="Write it with digits.", place=name)
    return value


def _minutes(form: QueryDict, name: str) -> int:
    clock = _CLOCK.fullmatch(form.get(name, "").strip()[:5])
    if clock is None:
        raise InvalidRules("A window needs the time at which it begins and ends.", remedy="Write 08:30.", place=name)
    return int(clock[1]) * 60 + int(clock[2])


def _ms(form: QueryDict, name: str) -> int:
    try:
        moment = datetime.fromisoformat(form.get(name, "").strip())
    except ValueError as error:
        raise InvalidRules(
            "A freeze needs the times at which it begins and ends.", remedy="Choose both.", place=name) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _local(ms: int) -> str:
    """A time as the form's fields have it, in UTC."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M")
