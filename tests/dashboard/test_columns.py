"""Columns on the site: a wrong one is refused before anything is stored, and whoever writes is told what there is."""

from __future__ import annotations

from dashboard.catalog.models import DataflowRecord
from tests.dashboard.building import World
from tests.dashboard.test_api import assert_error, client_of, post

TEXT = """\
name: Columns
tasks:
  - {id: source, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - {id: warm, type: sql, config: {query: "SELECT obs, value AS v FROM input WHERE obs = 'temperature'"}}
  - {id: keep, type: output, config: {name: warm}}
streams:
  - {from: source, to: parse}
  - {from: parse, to: warm}
  - {from: warm, to: keep}
"""


def test_a_query_over_a_column_that_is_not_there_is_refused_with_its_place_and_the_nearest_name(world: World):
    client = client_of(world.carla)
    wrong = TEXT.replace("value AS", "valeu AS")
    refused = assert_error(
        post(client, "/api/dataflows", {"text": wrong, "team": "city"}), 422, "invalid_dataflow")
    [problem] = refused["problems"]
    assert (problem["code"], problem["task_id"], problem["path"]) == ("unknown_column", "warm", "/tasks/2/config/query")
    assert "Did you mean value?" in problem["remedy"] and problem["line"] == 5
    assert not DataflowRecord.objects.exists()
    assert post(client, "/api/dataflows", {"text": TEXT, "team": "city"}).status_code == 201


def test_a_type_that_does_not_fit_and_a_query_that_is_none_are_refused(world: World):
    client = client_of(world.carla)
    for before, after, code, words in [
        ("obs = 'temperature'", "value = 'temperature'", "wrong_column_type", "CAST"),
        ("obs, value AS v FROM input", "obs FROM input; DELETE FROM input", "invalid_config", "2 statements"),
        ("value AS v", "(SELECT max(secret) FROM other) AS v", "invalid_config", "subquery"),
        ("value AS v", "rand() AS v", "invalid_config", "each time"),
    ]:
        problems = post(client, "/api/validate", {"text": TEXT.replace(before, after)}).json()["problems"]
        assert [problem["code"] for problem in problems] == [code]
        assert words in problems[0]["message"] + problems[0]["remedy"]


def test_a_check_tells_the_columns_of_each_task(world: World):
    answer = post(client_of(world.carla), "/api/validate", {"text": TEXT}).json()
    warm = answer["columns"]["warm"]
    assert warm["reads"]["complete"] and warm["gives"]["complete"]
    assert {"name": "value", "type": "double"} in warm["reads"]["columns"]
    assert warm["gives"]["columns"][3:] == [{"name": "obs", "type": "string"}, {"name": "v", "type": "double"}]
    unfinished = post(client_of(world.carla), "/api/validate", {"text": TEXT.replace("value AS v", "va AS v")}).json()
    assert not unfinished["valid"]
    assert unfinished["columns"]["warm"]["reads"] == warm["reads"]
    assert not unfinished["columns"]["keep"]["reads"]["complete"]


def test_the_list_of_task_types_says_which_parameters_name_columns(world: World):
    types = {row["name"]: row for row in client_of(world.carla).get("/api/task-types").json()}
    held = {parameter["name"]: parameter["column"] for parameter in types["window"]["parameters"]}
    assert (held["by"], held["aggregates"], held["size"]) == ("names", "within", None)
    assert "form" not in types["sql"]["parameters"][0]
