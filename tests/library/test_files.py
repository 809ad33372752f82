"""Recorded files: found where they may lie, never elsewhere, and known by name or content."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library.config import InvalidConfig
from workers.library.files import format_of, replay_files, replay_folders, replay_path
from workers.library.times import recorded_ms, to_ms


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "replay"
    (inside / "trips").mkdir(parents=True)
    for name in ("b.csv", "a.csv", ".hidden.csv", "_SUCCESS"):
        (inside / "trips" / name).write_text("1,2\n")
    (tmp_path / "secret.csv").write_text("secret")
    (tmp_path / "replay2").mkdir()
    (tmp_path / "replay2" / "other.csv").write_text("x")
    return inside


def test_the_folders_come_from_the_environment(tmp_path):
    assert replay_folders({"WEIR_DATA_DIR": str(tmp_path)}) == (tmp_path / "replay",)
    assert replay_folders({"WEIR_REPLAY_DIRS": f"{tmp_path}/a:{tmp_path}/b", "WEIR_DATA_DIR": "/x"}) == (
        tmp_path / "a", tmp_path / "b")


def test_files_are_found_in_order(folder):
    assert replay_path("trips/a.csv", (folder,)) == folder / "trips" / "a.csv"
    assert replay_path("other.csv", (folder, folder.parent / "replay2")).read_text() == "x"
    assert [file.name for file in replay_files(replay_path("trips", (folder,)))] == ["a.csv", "b.csv"]


@pytest.mark.parametrize(
    "name", ["../secret.csv", "trips/../../secret.csv", "/etc/passwd", "..", "../replay2/other.csv"])
def test_nothing_outside_is_read(name, folder):
    with pytest.raises(InvalidConfig, match="leads out"):
        replay_path(name, (folder,))


def test_a_link_leads_nowhere_else(folder):
    (folder / "link.csv").symlink_to(folder.parent / "secret.csv")
    (folder / "trips" / "link.csv").symlink_to(folder.parent / "secret.csv")
    with pytest.raises(InvalidConfig, match="leads out"):
        replay_path("link.csv", (folder,))
    assert "link.csv" not in [file.name for file in replay_files(folder / "trips")]


@pytest.mark.parametrize("name", ["a" * 255, "a" * 256, "é" * 200, "a/" * 3000 + "b", "a\0b", "circle", "circle/x"])
def test_a_name_that_no_file_can_have_is_refused_like_one_that_none_has(folder, name):
    (folder / "circle").symlink_to("circle")
    with pytest.raises(InvalidConfig) as error:
        replay_path(name, (folder,))
    assert error.value.remedy and str(folder) not in error.value.full_message


def test_what_is_not_there_is_said_with_a_remedy(folder):
    with pytest.raises(InvalidConfig, match=r"no .*nothing\.csv") as caught:
        replay_path("nothing.csv", (folder,))
    assert "WEIR_REPLAY_DIRS" in caught.value.remedy
    (folder / "empty").mkdir()
    with pytest.raises(InvalidConfig, match="holds no file"):
        replay_files(folder / "empty")


@pytest.mark.parametrize("name,text,kind", [
    ("x.csv", "a,b\n", "csv"), ("x.csv", '12,{"e":[]}', "senml"), ("x.txt", '{"e":[]}', "senml"),
    ("x.JSONL", "{}", "json"), ("x.ndjson", "{}", "json"), ("x.xml", "<a/>", "xml"), ("x.senml", "", "senml"),
])
def test_formats(name, text, kind, tmp_path):
    (tmp_path / name).write_text(text)
    assert format_of(tmp_path / name) == kind


def test_an_unknown_format_is_asked_for(tmp_path):
    (tmp_path / "x.dat").write_text("what")
    with pytest.raises(InvalidConfig, match="cannot be told"):
        format_of(tmp_path / "x.dat")


@given(st.datetimes().map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)))
def test_times_are_read_in_every_form(moment):
    from datetime import UTC, timedelta

    aware = moment.replace(tzinfo=UTC)
    since = (aware - aware.replace(year=1970, month=1, day=1, hour=0, minute=0, second=0, microsecond=0))
    ms = since // timedelta(milliseconds=1)
    assert to_ms(aware.isoformat()) == pytest.approx(ms, abs=1)
    assert to_ms(moment.isoformat(sep=" ")) == pytest.approx(ms, abs=1)
    if abs(ms) > 10**11:
        assert to_ms(ms) == to_ms(str(ms)) == ms
    if ms % 1000 == 0 and abs(ms) < 10**14:
        assert to_ms(ms // 1000) == ms


@pytest.mark.parametrize("text", [
    None, "", "soon", "2013-13-45", [], "nan", "1e999", "-1e999", "9" * 20, 10**30, "1" * 5_000])
def test_what_is_no_time_is_none(text):
    assert to_ms(text) is None


def test_the_time_of_xml_is_its_elements_content():
    """A start tag ends before the next one begins, so a line of many open tags is read once, not once for each tag."""
    def times_of(line):
        return recorded_ms(pa.table({"xml": [line]}), "xml", "time", path="x.xml")

    assert times_of('<e><time unit="ms">1700000000000</time></e>') == [1_700_000_000_000]
    for line in ("<time <a>1700000000000</time>", "<time " * 50_000 + ">1</tim>"):
        with pytest.raises(InvalidConfig, match="Event 1 of"):
            times_of(line)
