"""Importing profiles, and what planning looks them up in."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.audit.models import AuditEntry
from dashboard.operations.models import NodeRow
from dashboard.profiles import selectors, stored_profiles
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.services.choosing import set_aside_profile, use_profile
from dashboard.profiles.services.importing import import_profiles
from dashboard.profiles.stored_profiles import entry_of, profile_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.dataflow import Task
from scheduler.model.errors import InvalidProfile, MissingProfile, PermissionDenied
from scheduler.model.profile_csv import OPTIONAL, REQUIRED, ProfileEntry, read_profiles, write_entries
from tests.dashboard.building import World
from tests.dashboard.concurrency import at_once
from tests.dashboard.test_statements import statements
from tests.pages.markup import Markup
from tests.profiles.building import HEADER
from tests.scheduler.shared_data import shared_data


def test_what_is_imported_is_what_planning_finds(world: World):
    text = shared_data("performance_models/performance_model.csv").read_text()
    records = import_profiles(actor=world.carla, text=text)
    assert {record.task_type: profile_of(record) for record in records} == {
        profile.task_type: profile for profile in read_profiles(text)}
    blob = Task("b", "blob", {})
    assert selectors.profiles_for([blob]).of([blob])["b"].peak.rate_per_s == 30
    with pytest.raises(MissingProfile):
        selectors.profiles_for([blob]).of([Task("x", "xmlparse", {})])  # only types that were asked for are read
    assert read_profiles(write_entries(
        ProfileEntry(profile_of(record)) for record in selectors.profiles(viewer_of(world.vera)))) == tuple(
        sorted(read_profiles(text), key=lambda profile: profile.task_type))


def test_what_a_measurement_left_open_is_taken_along(world: World):
    text = f"{HEADER},rough,at_least\na,1,10,10,10,0,0\na,2,20,20,10,1,0\na,4,40,40,10,1,1\n"
    [record] = import_profiles(actor=world.carla, text=text)
    assert (record.rough, record.at_least) == ([2, 4], [4])
    [again] = import_profiles(actor=world.carla, text=write_entries([entry_of(record)]))
    assert (again.rough, again.at_least) == ([2, 4], [4])


def test_another_import_supersedes_what_is_of_the_same_kind_and_nothing_else(world: World):
    import_profiles(actor=world.carla, text=f"{HEADER},machine\na,1,10,10,10,m1\na,1,20,10,10,m2\nb,1,5,1,1,m1\n")
    import_profiles(actor=world.carla, text=f"{HEADER},machine\na,1,11,10,10,m1\n")
    active = ProfileRecord.objects.filter(active=True)
    assert sorted((record.task_type, record.machine, record.points.get().rate_per_s) for record in active) == [
        ("a", "m1", 11), ("a", "m2", 20), ("b", "m1", 5)]
    assert selectors.profiles_for(machine="m2").find(Task("t", "a", {})).peak.rate_per_s == 20
    assert selectors.profiles_for(machine="m1").find(Task("t", "a", {})).peak.rate_per_s == 11
    verbs = AuditEntry.objects.filter(subject_type="profilerecord").values_list("verb", flat=True)
    assert sorted(verbs) == ["profile.import"] * 4 + ["profile.supersede"]


def test_a_file_of_many_profiles_asks_as_often_as_one_of_few(world: World):
    def asked_for(count: int) -> int:
        rows = "".join(f"t{number},{threads},{count},10,10\n" for number in range(count) for threads in (1, 2))
        return statements(lambda: import_profiles(actor=world.carla, text=f"{HEADER}\n{rows}"))

    assert asked_for(2) == asked_for(30)
    assert ProfileRecord.objects.filter(active=True).count() == 30


@pytest.mark.parametrize("part", [1, 2])
def test_no_more_profiles_are_in_use_than_plans_may_read(world: World, monkeypatch, part: int):
    monkeypatch.setitem(stored_profiles.MOST_IN_USE, "profiles", 2 * part)
    monkeypatch.setattr(stored_profiles, "PART_OF_PERSON", part)
    for rate in (1, 2):  # the second takes no more room
        _, last = import_profiles(actor=world.carla, text=f"{HEADER}\na,1,{rate},1,1\nb,1,{rate},1,1\n")
    more = f"{HEADER}\nc,1,1,1,1\n"
    with pytest.raises(InvalidProfile, match="3 profiles"):
        import_profiles(actor=world.carla, text=more)
    set_aside_profile(actor=world.carla, profile_id=last.pk)
    import_profiles(actor=world.carla, text=more)
    with pytest.raises(InvalidProfile, match="3 profiles"):
        use_profile(actor=world.mo, profile_id=last.pk)
    if part > 1:  # others have room
        import_profiles(actor=world.mo, text=f"{HEADER}\nd,1,1,1,1\n")


@pytest.mark.parametrize(("what", "most"), [("points", 4), ("characters of configs", 40)])
def test_what_is_in_use_has_no_more_points_and_text_than_plans_may_read(world: World, monkeypatch, what, most):
    """Each plan reads them: 2,000 profiles, as many as one engineer may import, had 20 million points, or 2 GB of
    configs."""
    monkeypatch.setitem(stored_profiles.MOST_IN_USE, what, most)
    monkeypatch.setattr(stored_profiles, "PART_OF_PERSON", 2)

    def text(name: str) -> str:
        config = f'"{{""of"":""{name}""}}"'
        return f"{HEADER},config\n{name},1,1,1,1,{config}\n{name},2,1,1,1,{config}\n"

    [first] = import_profiles(actor=world.carla, text=text("a-name"))
    with pytest.raises(InvalidProfile, match=f"{what} of profiles that carla has imported"):
        import_profiles(actor=world.carla, text=text("others"))
    import_profiles(actor=world.mo, text=text("others"))
    with pytest.raises(InvalidProfile, match=f"{what} of profiles would be in use"):
        import_profiles(actor=world.ana, text=text("fourth"))
    set_aside_profile(actor=world.carla, profile_id=first.pk)
    import_profiles(actor=world.ana, text=text("fourth"))
    with pytest.raises(InvalidProfile, match=f"{what} of profiles would be in use"):
        use_profile(actor=world.carla, profile_id=first.pk)


def test_the_very_config_comes_first_however_it_is_written(world: World):
    rows = 'block_average,1,10,10,10,\nblock_average,1,20,10,10,"{""window"":30.0}"\n'
    import_profiles(actor=world.carla, text=f"{HEADER},config\n{rows}")
    profiles = selectors.profiles_for()
    assert profiles.find(Task("t", "block_average", {"window": 30})).peak.rate_per_s == 20
    assert profiles.find(Task("t", "block_average", {"window": 10})).peak.rate_per_s == 10


@pytest.mark.parametrize(("rows", "places"), [
    ("a,x,1,10,10", [(2, 2)]), ("a,1,1,10,10\na,1,2,10,10", [(3, None)]), ("a\0,1,1,1,1", [(2, 2)]),
    ("a,1,0,10,10\n,1,1,1,1", [(2, 3), (3, 1)]), ("a,1,1,900,10\nb,0,1,1,1\nc,1,1,1,-1", [(2, 4), (3, 2), (4, 5)]),
])
def test_every_mistake_has_its_place_and_nothing_is_imported(world: World, rows, places):
    with pytest.raises(InvalidProfile) as caught:
        import_profiles(actor=world.carla, text=f"{HEADER}\n{rows}\n")
    assert [(problem["line"], problem["column"]) for problem in caught.value.facts["problems"]] == places
    assert not ProfileRecord.objects.exists()


@pytest.mark.parametrize("rows", [
    "a,1,1,1,1,{1},1", "a,1,1,1,1,[],1", 'a,1,1,1,1,"{""b"":1}",1\na,1,1,1,1,"{ ""b"": 1 }",1',
    "=a,1,1,1,1,,1", "a,1,1,1,1,,1\na,1,2,1,1,,2", f"{'a' * 101},1,1,1,1,,1",
    "a,9999999999,1,1,1,,1", "a,1,1,1,1,,99999999999999999999", "a,1,1,1,1,,0", "a,1,1,1,1,,-1",
    'a,1,1,1,1,"{""b"":NaN}",1', 'a,1,1,1,1,"{""b"":1e999}",1',
    'a,1,1,1,1,"' + '{""b"":' * 5000 + "1" + "}" * 5000 + '",1',
    "\n".join(f"a{number},1,1,1,1,,1" for number in range(1001)),
    "\n".join(f"a,{number},1,1,1,,1" for number in range(1, 10_002)),
])
def test_what_cannot_be_stored_is_refused(world: World, rows):
    with pytest.raises(InvalidProfile):
        import_profiles(actor=world.carla, text=f"{HEADER},config,version\n{rows}\n")
    assert not ProfileRecord.objects.exists()


@pytest.mark.parametrize(("rows", "places", "says"), [
    (f"b,1,1,1,1,,1\n{'a' * 101},1,1,1,1,,1", [(3, 1)], "longer than 100"),
    ("=a,1,1,1,1,,1\nb,1,1,1,1,,0", [(2, 1), (3, 7)], "looks like a formula"),
    ("＝a,1,1,1,1,,1", [(2, 1)], "looks like a formula"),
    ("a,9999999999,1,1,1,,1", [(2, 2)], "from 1 to 100,000"),
    ("a,1,1,1,1,,1\na,1,2,1,1,,2", [(3, 7)], "differ in their version"),
    ('a,1,1,1,1,"{""b"":1}",1\na,1,1,1,1,"{ ""b"": 1 }",1', [(3, 6)], "spelled in two ways"),
    ('a,1,1,1,1,"{""b"":NaN}",1', [(2, 6)], "number that JSON does not have"),
    ('"a\nb",1,1,1,1,,1', [(3, 1)], "line break"), ("a\tb,1,1,1,1,,1", [(2, 1)], "control character"),
])
def test_what_cannot_be_stored_has_its_place_too(world: World, rows, places, says):
    with pytest.raises(InvalidProfile) as caught:
        import_profiles(actor=world.carla, text=f"{HEADER},config,version\n{rows}\n")
    problems = caught.value.facts["problems"]
    assert [(problem["line"], problem["column"]) for problem in problems] == places
    assert says in f"{problems[0]['message']} {problems[0]['remedy']}"


def test_a_file_with_many_points_and_one_of_them_twice_is_told_so_soon(world: World):
    points = "\n".join(f"a,{number},1,1,1" for number in (*range(1, 40_000), 39_999))
    with pytest.raises(InvalidProfile, match="two points for 39999 threads"):
        import_profiles(actor=world.carla, text=f"{HEADER}\n{points}\n")


def test_two_imports_at_once_leave_one_profile_in_use(committed_world: World):
    world = committed_world
    texts = [f"{HEADER}\na,1,{rate},10,10\n" for rate in (1, 2, 3)]
    came = at_once(*(lambda text=text: import_profiles(actor=world.carla, text=text) for text in texts))
    assert not [record for record in came if isinstance(record, Exception)], came
    assert [record.active for record in ProfileRecord.objects.order_by("created")].count(True) == 1
    assert AuditEntry.objects.filter(verb="profile.supersede").count() == 2


def test_only_engineers_import(world: World):
    for nobody in (world.vera, world.outsider):
        with pytest.raises(PermissionDenied):
            import_profiles(actor=nobody, text=f"{HEADER}\na,1,1,1,1\n")


def test_a_profile_is_stale_when_its_type_or_the_machine_is_another(world: World):
    rows = "parse,1,1,1,1,1,\nsenml_parse,1,1,1,1,99,\nblock_average,1,1,1,1,1,old\n"
    import_profiles(actor=world.carla, text=f"{HEADER},version,machine\n{rows}")
    profiles = {record.task_type: profile_of(record) for record in ProfileRecord.objects.all()}
    assert "not installed" in selectors.staleness(profiles["parse"])
    assert "version 99" in selectors.staleness(profiles["senml_parse"])
    assert selectors.staleness(profiles["block_average"]) == ""  # nothing was measured here: no machine is known
    assert "measured on old" in selectors.staleness(profiles["block_average"], machine="new")


def test_rows_without_a_machine_are_of_the_class_that_is_given_and_not_stale_at_once(world: World):
    NodeRow.objects.update(machine="m1")
    text = f"{HEADER},machine\nsenml_parse,1,10,10,10,\nblock_average,1,5,1,1,m2\n"
    of_given, other = import_profiles(actor=world.carla, text=text, machine="m1")
    assert (of_given.machine, other.machine) == ("m1", "m2")
    assert not selectors.staleness(profile_of(of_given)) and selectors.staleness(profile_of(other))
    [unknown] = import_profiles(actor=world.carla, text=f"{HEADER}\nsenml_parse,1,10,10,10\n")
    assert selectors.staleness(profile_of(unknown))


def test_the_template_that_the_site_offers_can_be_imported(world: World):
    NodeRow.objects.update(machine="m1")
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    text = client.get("/profiles/template.csv").text
    assert text.splitlines()[0].split(",") == [*REQUIRED, *OPTIONAL]
    [record] = import_profiles(actor=world.carla, text=text)
    assert not selectors.staleness(profile_of(record))
    page = Markup(client.get("/profiles/import").text)
    assert page.links("/profiles/template.csv") and page.having("name", "machine_here")
