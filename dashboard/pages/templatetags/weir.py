"""Numbers, times and states as the pages show them; ``static/js/format.js`` formats the same way."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.core.state_words import words
from dashboard.operations.live_view.estate_view import NAMED_BY_ID, view_for
from dashboard.plans.models import PlanRecord
from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.model.latency_limits import figure_in_words, in_words
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.model.profile import counted_threads

register = template.Library()
NONE = "–"  # also for what a template does not find, which reaches a filter as ""

# Every state of a dataflow, proposal, fragment and slot, by how it is shown.
_CHIPS = {
    "ok": {"running", "done", "approved", "approve", "kept", "resolved", "sent", "met", "whole"},
    "busy": {
        "submitted", "computing", "executing", "pausing", "removing", "rolling_back", "starting", "draining", "waiting",
        "queued", "recovering", "retrying", "begun", "enacting", "checking", "withdrawing", "taking",
    },
    "warn": {"planned", "pending", "stale", "throttled", "low", "asked", "suggested", "unchecked", "warning"},
    "bad": {
        "failed", "rejected", "unplannable", "backoff", "gave_up", "silent", "lost", "reject", "stalled", "full",
        "away", "broken", "stuck", "critical", "dead", "missed", "impossible"},
}

_ENDED = {"done": "finished", "failed": "could not finish, still retrying", "rolled_back": "was rolled back"}
_DEEDS = {
    "dataflow.store": "stored", "dataflow.submit": "submitted", "dataflow.propose_removal": "proposed to remove",
    "dataflow.propose_remove": "proposed to remove",
    "plan.request": "asked for", "plan.freeze": "froze", "plan.fail": "could not make",
    "plan.forget": "dropped the details of plans up to",
    "plan.overtaken": "marked as outdated", "plan.carry_over": "carried over",
    "plan.renew": "brought up to date", "proposal.renew": "brought up to date, with its approvals,",
    "proposal.prepare": "prepared", "proposal.approve": "approved", "proposal.reject": "rejected",
    "proposal.cancel": "cancelled", "proposal.recompute": "asked to recompute", "proposal.roll_back": "rolled back",
    "dataflow.propose_change": "proposed a new version of", "dataflow.store_version": "stored a version of",
    "dataflow.take_version": "changed the version of",
    "dataflow.propose_pause": "proposed to pause", "dataflow.pause_at_once": "paused at once",
    "dataflow.propose_resume": "proposed to resume",
    "dataflow.propose_defragment": "proposed to defragment",
    "dataflow.propose_move": "proposed to move a query of", "dataflow.propose_set": "proposed other settings for",
    "dataflow.propose_schedule": "proposed a schedule for", "dataflow.try_again": "tried again the failed queries of",
    "source.look": "looked at a source with a secret of",
    "dataflow.write_again": "let a sink write again the kept events of",
    "dataflow.recommend_defragmentation": "recommended to defragment",
    "dataflow.recommend_deployment": "recommended to move a query of",
    "dataflow.recommend_chaining": "recommended to chain the queries of",
    "dataflow.recommend_open_batches": "recommended other batches for",
    "dataflow.recommend_isolation": "recommended to isolate a task of", "estate.set": "set the intervals of",
    "estate.choose_pacing": "chose how intervals are chosen in",
    "estate.choose_tenancy": "chose whether teams share slots in",
    "dataflow.choose_goals": "chose the goals of", "dataflow.recommend_adaptation": "recommended alternates of",
    "dataflow.choose_latency": "chose the latency limit of", "team.set_freshness": "set the freshness of",
    "savepoint.take": "began to take", "savepoint.delete": "deleted", "savepoint.follow": "recorded the state of",
    "proposal.choose_joining": "chose how to reuse state in", "team.set_defragmentation": "set the defragmentation of",
    "controller.set": "set the limits of", "controller.begin": "began", "controller.carry_out": "carried out",
    "controller.not_taken_back": "could not take back", "controller.asked": "asked about",
    "controller.enacting": "is carrying out", "controller.checking": "is checking the promise of",
    "controller.withdrawing": "is giving up", "controller.rolling_back": "is taking back",
    "controller.kept": "kept the promise of", "controller.rolled_back": "took back",
    "controller.broken": "found a broken promise in",
    "controller.unchecked": "could not check", "controller.declined": "dropped",
    "controller.stuck": "could not take back",
    "proposal.progress": "updated", "proposal.overtaken": "marked stale", "proposal.give_up": "stopped waiting for",
    "simulation.start": "started simulating", "simulation.cancel": "cancelled simulating",
    "node.register": "registered", "node.drain": "drained", "node.undrain": "stopped draining",
    "dataflow.move_off": "moved to another node a query of", "estate.drop_bundles": "removed retired bundles of",
    "profile.import": "imported the profile of", "profile.measure": "measured",
    "profile.supersede": "superseded the profile of", "profile.use": "started to use the profile of",
    "profile.set_aside": "set aside the profile of", "sweep.start": "asked to measure",
    "sweep.advance": "continued measuring", "sweep.pause": "paused measuring", "sweep.resume": "resumed measuring",
    "sweep.cancel": "cancelled measuring",
    "proposal.comment": "commented on", "proposal.edit_comment": "edited a comment on",
    "proposal.resolve": "resolved a thread on", "proposal.reopen": "reopened a thread on",
    "user.create": "added", "proposal.enact_held": "enacted the held plan of",
    "user.deactivate": "deactivated", "user.reactivate": "reactivated",
    "user.change_password": "changed the password of",
    "user.sign_on": "signed on", "user.link": "linked single sign-on to",
    "user.administers": "changed administration by",
    "team.agree_to_rules": "agreed to approval rules of", "team.decline_rules": "declined approval rules of",
    "team.set_rules": "set the approval rules of", "team.create": "created", "team.set_role": "set a role in",
    "team.remove_member": "removed a member of", "token.create": "created", "token.revoke": "revoked",
    "alert.acknowledge": "acknowledged", "alert.mute": "muted", "alert.unmute": "ended muting",
    "alert_rule.set": "changed the alert rules of", "alert_rule.reset": "reset the alert rules of",
    "bill.change": "changed the bill of", "controller.step": "carried out a step of",
    "dataflow.choose_when_behind": "chose what a slow reader does for", "dataflow.lose_events": "lost events of",
    "dataflow.pause_failing": "paused the failing dataflow", "dataflow.pause_slow": "paused the slow dataflow",
    "dataflow.release_alternate": "released a held alternate of", "dataflow.release_key": "released a held key of",
    "dataflow.switch_by_guard": "switched, by its guards, an alternate of", "delivery.again": "sent again",
    "events.post": "posted events to", "machine.decide": "decided about", "machine.fail": "failed to get",
    "machine.order": "ordered", "machine.recommend": "recommended", "machine.withdraw": "gave back",
    "notice_choices.set": "changed the notifications of", "plan.leave_standing": "let stand", "plan.settle": "settled",
    "proposal.adopt_near_miss": "adopted a near miss in", "proposal.see_mentions": "read the mentions in",
    "secret.set": "set", "secret.delete": "deleted", "stream.search": "searched the events of",
    "team.set_calendar": "set a calendar of", "team.delete_calendar": "deleted a calendar of",
    "team.set_containment": "set containment of", "team.set_when_behind": "chose what slow readers do for",
    "webhook.add": "added", "webhook.remove": "removed", "webhook.try": "sent a test to",
}


_CODE = re.compile(r"`([^`]+)`")
_IDS = re.compile(r" \([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)")


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.1f}M"
    if value >= 1e4:
        return f"{value / 1e3:.0f}k"
    if value >= 1e3:
        return f"{value / 1e3:.1f}k"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


@register.filter
def count(value: float | None) -> str:
    """``12 345``: thousands apart by a narrow space."""
    return NONE if value in (None, "") else f"{round(value):,}".replace(",", "\u202f")


register.filter("threads", counted_threads)
register.filter(words)


@register.filter
def rate(value: float | None) -> str:
    """Events per second, short."""
    return NONE if value in (None, "") else f"{_short(float(value))}/s"


@register.filter
def big(value: float | None) -> str:
    """A rate as a figure that stands alone: its unit stands beside it."""
    return NONE if value in (None, "") else _short(float(value))


@register.filter
def latency(ms: float | None) -> str:
    """A latency in the unit that suits it."""
    if ms in (None, ""):
        return NONE
    if ms < 1:
        return "<1 ms"
    if ms < 1000:
        return f"{round(ms)} ms"
    return f"{ms / 1000:.1f} s" if ms < 60000 else f"{round(ms / 60000)} min"


@register.filter
def plan_verb(plan: PlanRecord) -> str:
    """The effect of a plan, as a title: of what it sets, what that is."""
    if "policy" in plan.options:
        return "Set a policy of"
    if "alternate" in plan.options:
        return "Switch"
    if "real_time" in plan.options:
        return "Set the batches of"
    return PLAN_KINDS[plan.kind].verb


@register.filter
def steps_below(reached: Sequence[float], least: float) -> int:
    """The number of steps of a simulation in which throughput was below its band."""
    return sum(throughput < least - AdaptationProblem.tolerance - 1e-9 for throughput in reached)


@register.filter
def plan_noun(kind: str) -> str:
    """A proposal by its plan's kind: ``Removal``."""
    return PLAN_KINDS[kind].noun


@register.filter
def percent(fraction: float | None) -> str:
    """A fraction of one as a whole percentage."""
    return NONE if fraction in (None, "") else f"{round(fraction * 100)}%"


@register.filter
def share(fraction: float | None) -> str:
    """A share of a slot as a percentage: two digits where it is small, for much of memory is."""
    if fraction in (None, ""):
        return NONE
    value = fraction * 100
    if 0 < value < 0.01:
        return "<0.01%"
    return f"{value:.0f}%" if value >= 9.95 or value == 0 else f"{float(f'{value:.2g}'):g}%"


@register.filter
def memory(mb: float | None) -> str:
    """Megabytes, or gigabytes from 1024 of them on."""
    if mb in (None, ""):
        return NONE
    return f"{mb / 1024:.1f} GB" if mb >= 1024 else f"{round(mb)} MB"


@register.filter
def compact(value: Any) -> str:
    """A value as JSON on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def config(value: Any) -> str:
    """A config, or its canonical text, as JSON on one line; what is not set is left out."""
    document = json.loads(value) if isinstance(value, str) else value
    return json.dumps(
        {name: entry for name, entry in document.items() if entry is not None}, ensure_ascii=False, default=str
    )


@register.filter
def sentence(text: str) -> str:
    """An error's message as a sentence, before another one."""
    return text if not text or text[-1] in ".?!" else f"{text}."


@register.filter
def code(text: str) -> SafeString:
    """A sentence in which commands and settings, which stand between back-ticks, are set as code."""
    parts = _CODE.split(str(text or ""))
    return format_html_join("", "{}{}", (
        (part, "") if number % 2 == 0 else ("", format_html("<code>{}</code>", part))
        for number, part in enumerate(parts)))


@register.filter
def without_ids(text: str) -> str:
    """The holder of a slot, without the id that only programs need."""
    return _IDS.sub("", str(text or ""))


@register.simple_tag(takes_context=True)
def with_names(context: template.Context, text: str) -> str:
    """A sentence of a controller or an alert, with the names that the viewer may know in place of ids."""
    request, text = context.get("request"), str(text or "")
    if request is None or not NAMED_BY_ID.search(text):
        return text
    if not hasattr(request, "names_of"):
        request.names_of = view_for(request.viewer)
    return request.names_of.in_words(text)


@register.filter
def did(verb: str) -> str:
    """``proposal.approve`` as what somebody did."""
    if verb in _DEEDS:
        return _DEEDS[verb]
    subject, _, deed = verb.partition(".")
    return f"{deed} {subject}".replace("_", " ").strip()


@register.simple_tag(name="field")
def field_attributes(name: str, value: Any) -> SafeString:
    """The attributes that tell programs which figure an element shows and its value, not rounded for reading."""
    return format_html('data-field="{}" data-value="{}"', name, "" if value is None else value)


@register.filter
def ended(status: str) -> str:
    """The outcome of a proposal, as the end of a sentence that begins with it."""
    return _ENDED.get(status, words(status))


def tone(status: str) -> str:
    """The tone of a state's chip, of four."""
    return next((name for name, states in _CHIPS.items() if status in states), "still")


@register.filter
def lateness(value: float | None) -> str:
    """A latency in seconds as people write it: ``400 ms``, ``2 s``."""
    return "–" if value is None else figure_in_words(value)


@register.filter
def milliseconds(value: float) -> str:
    """An interval in ms as people write it."""
    return in_words(value / 1000)


@register.simple_tag
def chip(status: str, severity: str = "") -> SafeString:
    """A state as a chip: colour, mark and word. Of a finding the colour is its severity's."""
    shown = {"note": "plain"}.get(severity, severity) or tone(status)
    return format_html('<span class="chip chip-{}" data-status="{}">{}</span>', shown, status, words(status))


@register.simple_tag
def when(moment: datetime | str | None) -> SafeString:
    """A moment as ``<time>``; the page's script shows how long ago, the title the moment itself."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if moment is None:
        return format_html("{}", NONE)
    moment = moment.astimezone(UTC)
    exact = moment.strftime("%d %b %Y, %H:%M:%S UTC")
    return format_html('<time datetime="{}" data-ago title="{}">{}</time>', moment.isoformat(), exact, exact)


@register.simple_tag
def weir_paths(running: int, apart: int) -> dict[str, str]:
    """The water over the weir as SVG paths; ``static/js/figures.js`` draws the same."""
    bed, top, width, crest = 80, 8, 400, 190
    up, down = (bed - ((bed - top) * tasks / apart if apart else 0) for tasks in (apart, running))
    fall = f"C{crest + 26} {up:.1f} {crest + 22} {down:.1f} {crest + 52} {down:.1f}"
    return {
        "up": f"M0 {up:.1f}H{crest}V{bed}H0Z",
        "down": f"M{crest} {up:.1f}{fall}H{width}V{bed}H{crest}Z",
        "line": f"M0 {up:.1f}H{crest}{fall}H{width}",
    }
