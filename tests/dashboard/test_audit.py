"""The audit trail is structural: no service writes without it."""

from __future__ import annotations

import ast

import pytest

from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.services import approve_proposal
from dashboard.audit.models import AuditEntry
from dashboard.audit.trail import audited
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.config.environment import ROOT
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.estate_writer import store_plan
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import Role, Team
from dashboard.teams.services import create_team, create_token, create_user, remove_member, revoke_token, set_role
from tests.dashboard.building import World, document, planned, running

SERVICES = sorted(
    path for path in (ROOT / "dashboard").rglob("*.py")
    if (path.name == "services.py" or path.parent.name == "services") and path.name != "__init__.py")
WRITES = {
    "save", "create", "bulk_create", "update", "bulk_update", "delete", "get_or_create", "update_or_create", "set",
    "add", "remove", "clear",
}
# Modules outside services that write rows, and why no command is around every one of them.
WRITERS = {
    "dashboard/audit/trail.py": "writes the trail",
    "dashboard/audit/models.py": "refuses to change the trail",
    "dashboard/catalog/dataflow_states.py": "checked when it runs: inside a command only",
    "dashboard/approvals/proposal_states.py": "checked when it runs: inside a command only",
    "dashboard/operations/estate_store/generation.py": "checked when it runs: inside a command only",
    "dashboard/operations/estate_store/estate_writer.py": "checked when it runs: inside a command only",
    "dashboard/operations/live_view/telemetry.py": "measurements, no state",
    "dashboard/operations/live_view/missed_nodes.py": "measurements; what moves for it are plans",
    "dashboard/history/query_lines.py": "follows from plans",
    "dashboard/history/annotations.py": "measurements, no state",
    "dashboard/history/series_ids.py": "measurements, no state",
    "dashboard/history/downsampling.py": "measurements, no state",
    "dashboard/history/history_store.py": "measurements, no state",
    "dashboard/alerts/evaluating.py": "what rules make of measurements; what people do with alerts are commands",
    "dashboard/alerts/notices.py": "which of these was told",
    "dashboard/outbox/sending.py": "messages and what became of them; what they are about has its own row",
    "dashboard/approvals/policy_retention.py": "what is over, and of tasks that are gone",
    "dashboard/simulations/simulation_driver.py": "how far they are; who starts and cancels them enters a command",
    "dashboard/outbox/digests.py": "messages that were held back, in one",
    "dashboard/lineage/emitting.py": "how far events were emitted",
    "dashboard/operations/diagnosis/slow_queries.py": "measurements, no state",
    "dashboard/operations/policies/guard_watches.py": "measurements; what guards make of them are plans",
    "dashboard/operations/live_view/handover_pauses.py": "measurements, no state",
    "dashboard/operations/estate_store/losses.py": "measurements; that a dataflow begins to lose is a command",
    "dashboard/bills/charging.py": "measurements, no state",
    "dashboard/bills/rollup.py": "the same sums in fewer rows",
    "dashboard/core/ended_sessions.py": "of sessions that have ended",
    "dashboard/operations/live_view/cost_learning.py": "measurements, no state",
    "dashboard/operations/live_view/task_meters.py": "measurements, no state",
    "dashboard/operations/latency_control/pacer.py":
        "follows limits and measurements; that somebody chose a limit is a command",
    "dashboard/operations/latency_control/limit_statuses.py": "notes what became of limits",
    "dashboard/schedules/outcome_store.py": "measurements, no state",
    "dashboard/bills/task_needs.py": "follows the states of dataflows, whose commands leave rows",
    "dashboard/bills/price_history.py": "follows the settings",
    "dashboard/operations/estate_store/reservations.py": "checked when it runs: inside a command only",
    "dashboard/profiles/observations.py": "measurements, no state",
    "dashboard/controllers/stored_rounds.py": "checked when it runs: inside a command only",
    "dashboard/controllers/sweeping.py": "inside its own command",
    "dashboard/operations/estate_store/estate_choices.py": "inside its own command",
    "dashboard/operations/estate_store/fragment_settings.py": "checked when it runs: inside a command only",
    "dashboard/operations/estate_store/policy_versions.py": "checked when it runs: inside a command only",
    "dashboard/operations/policies/posted_events.py": "inside its own command",
    "dashboard/savepoint_records/savepoint_following.py": "inside its own command",
    "dashboard/operations/latency_control/batch_modes.py": "notes what would be chosen",
    "dashboard/profiles/stored_profiles.py": "checked when it runs: inside a command only",
    "dashboard/teams/logins.py": "counts failed log-ins",
    "dashboard/api/auth.py": "when a token was last used",
}
# Public functions of services that run inside the command of their caller, and take its audit to prove it.
TAKES_AUDIT = "audit"


def functions(path):
    tree = ast.parse(path.read_text())
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def enters_audited(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(item.context_expr, ast.Call) and getattr(item.context_expr.func, "id", "") == "audited"
        for node in ast.walk(function) if isinstance(node, ast.With) for item in node.items)


def calls(function: ast.AST) -> set[str]:
    callees = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {called.id for called in callees if isinstance(called, ast.Name)}


def database_writes(tree: ast.AST) -> list[str]:
    return [
        ast.unparse(node.func) for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES
        and ("objects" in ast.unparse(node.func) or node.func.attr in {"save", "bulk_create"})]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_public_service_that_writes_enters_a_command(path):
    by_name = {function.name: function for function in functions(path)}

    def writes(name: str, seen: frozenset[str] = frozenset()) -> bool:
        function = by_name[name]
        inner = (calls(function) & set(by_name)) - seen - {name}
        return bool(database_writes(function)) or any(writes(called, seen | {name}) for called in inner)

    for name, function in by_name.items():
        if name.startswith("_") or not (writes(name) or enters_audited(function)):
            continue
        takes_audit = TAKES_AUDIT in {argument.arg for argument in function.args.args}
        delegates = not database_writes(function) and all(
            enters_audited(by_name[called]) for called in calls(function) & set(by_name) if writes(called))
        assert enters_audited(function) or takes_audit or delegates, f"{path.name}: {name} writes outside a command"


def test_services_were_found():
    assert {path.parent.name for path in SERVICES} == {
        "catalog", "operations", "plans", "controllers", "services", "alerts", "outbox", "simulations"}


def test_nothing_else_of_the_site_writes():
    writers = {}
    for path in (ROOT / "dashboard").rglob("*.py"):
        name = str(path.relative_to(ROOT))
        # Benches fill a temporary database of their own.
        if path in SERVICES or {"migrations", "benches"} & set(path.parts) or name in WRITERS:
            continue
        if writes := database_writes(ast.parse(path.read_text())):
            writers[name] = writes
    assert writers == {}


def test_what_is_moved_outside_a_command_is_refused(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    for act in (
        lambda: move_dataflow(proposal.dataflow, "running"), lambda: move_proposal(proposal, "executing"),
        lambda: store_plan(plan_of(proposal.plan)),
    ):
        with pytest.raises(RuntimeError):
            act()


def test_a_command_that_fails_leaves_neither_change_nor_row(world: World):
    entries = AuditEntry.objects.count()
    with pytest.raises(ZeroDivisionError), audited(actor=world.root, verb="test", subject=world.city):
        Team.objects.filter(pk=world.city.pk).update(name="Changed")
        raise ZeroDivisionError
    world.city.refresh_from_db()
    assert (world.city.name, AuditEntry.objects.count()) == ("City", entries)


def test_the_row_commits_with_the_change_or_not_at_all(world: World, monkeypatch):
    """Where the row cannot be written, the approval does not happen."""
    proposal = planned(world.carla, world.city, document("traffic"))

    def broken(*_, **__):
        raise OSError

    monkeypatch.setattr(AuditEntry.objects, "bulk_create", broken)
    with pytest.raises(OSError):
        approve_proposal(actor=world.ana, proposal_id=proposal.pk, digest=proposal.plan.digest)
    assert (load_estate().generation, proposal.reviews.count()) == (1, 0)


def test_a_command_without_a_subject_is_a_defect(db):
    with pytest.raises(ValueError, match="subject"), audited(actor=None, verb="test"):
        pass


def test_rows_are_neither_changed_nor_deleted(world: World):
    entry = AuditEntry.objects.first()
    for act in (
        entry.save, entry.delete, AuditEntry.objects.all().delete, lambda: AuditEntry.objects.update(verb="x"),
    ):
        with pytest.raises(TypeError):
            act()


def test_every_step_of_a_dataflow_is_in_the_trail(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    entries = AuditEntry.objects.exclude(subject_type="noderow").order_by("id")
    assert list(entries.values_list("verb", "actor__username")) == [
        ("dataflow.store", "carla"), ("plan.request", "carla"), ("dataflow.submit", "carla"), ("plan.freeze", None),
        ("proposal.prepare", None), ("proposal.approve", "ana"), ("proposal.progress", None)]


def test_changes_of_teams_and_people_are_in_the_trail(world: World):
    user = create_user(username="new", password="a-long-password-7", actor=world.root)
    team = create_team(slug="lab", name="Lab", actor=world.root)
    set_role(user=user, team=team, role=Role.VIEWER, actor=world.root)
    remove_member(user=user, team=team, actor=user)
    token, _ = create_token(actor=user, name="ci")
    revoke_token(actor=user, token_id=token.pk)
    verbs = AuditEntry.objects.exclude(subject_type="noderow").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == [
        "user.create", "team.create", "team.set_role", "team.remove_member", "token.create", "token.revoke"]
