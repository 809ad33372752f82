"""Each event is in exactly one closed file, whoever ends when; what may be read is whole at every moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.files.folder import META, staged_in
from workers.engine.files.spark_sink import METADATA

from .played_sink import PER_BATCH, Disk, Killed, Sink

FORMATS = ("json", "parquet")


def story(sink: Sink) -> None:
    """Batches, closings small and large, a fresh checkpoint, and all that is left closed."""
    while sink.next_event < 2 * PER_BATCH:
        sink.step()
    sink.close(all_of_it=True)
    while sink.next_event < 4 * PER_BATCH:
        sink.step()
    sink.close(file_bytes=1)
    if not sink.checkpoint.joinpath("cleared").exists():
        sink.clear()
        sink.checkpoint.mkdir(exist_ok=True)
        sink.checkpoint.joinpath("cleared").touch()
    while sink.next_event < 6 * PER_BATCH:
        sink.step()
    sink.close(all_of_it=True)


def holds(sink: Sink) -> None:
    """A reader finds a beginning of the stream, each event once."""
    visible = sink.visible()
    assert visible == list(range(len(visible)))


def old_folder(sink: Sink, *, batches: int, stray: bool = True) -> None:
    """What Spark's own sink left after some batches; the last one was written and not committed to its checkpoint."""
    (sink.folder / METADATA).mkdir(parents=True)
    (sink.checkpoint / "offsets").mkdir(parents=True)
    for batch in range(batches):
        path = sink.folder / f"part-0000{batch}-11111111-1111-1111-1111-111111111111-c000.{sink.format}"
        events = list(range(batch * PER_BATCH, (batch + 1) * PER_BATCH))
        write_old(path, events)
        log = json.dumps({"path": f"file://{path}", "action": "add"})
        (sink.folder / METADATA / str(batch)).write_text(f"v1\n{log}")
        (sink.checkpoint / "offsets" / str(batch)).touch()
    if stray:
        write_old(sink.folder / f"part-00009-22222222-2222-2222-2222-222222222222-c000.{sink.format}", [10_000])
    sink.batch, sink.next_event = batches - 1, (batches - 1) * PER_BATCH  # which is repeated


def write_old(path: Path, events: list[int]) -> None:
    if path.suffix == ".json":
        path.write_text("".join(json.dumps({"_seq": event}) + "\n" for event in events))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"_seq": events}), path)


def go_on_to_the_end(sink: Sink, playing: Disk) -> bool:
    """Play the story, and again from where it stands where it is cut off; whether it was."""
    try:
        story(sink)
        return False
    except Killed:
        playing.kill_at = -1
        sink.killed()
        sink.haunt()
        sink.start()
        sink.haunt()
        sink.step()  # so that what is closed next is not what was being closed
        story(sink)
        return True


@pytest.mark.parametrize(("format", "was_sparks"), [
    ("json", False), ("parquet", True), pytest.param("json", True, marks=pytest.mark.long),
    pytest.param("parquet", False, marks=pytest.mark.long)])
def test_an_end_between_any_two_changes_loses_and_doubles_nothing(tmp_path, monkeypatch, format, was_sparks):
    ended, kill_at = True, 0
    playing = Disk(monkeypatch)
    while ended:
        kill_at += 1
        sink = Sink(tmp_path / str(kill_at), format)
        if was_sparks:
            old_folder(sink, batches=2)
        # Until the first start what Spark's sink left is as it was: only readers with Spark saw what counts there.
        playing.look = lambda sink=sink: None if (sink.folder / METADATA).exists() else holds(sink)
        playing.changes, playing.kill_at = 0, kill_at
        ended = go_on_to_the_end(sink, playing)
        playing.look = lambda: None
        assert sink.next_event >= 6 * PER_BATCH
        assert sink.visible() == list(range(sink.next_event)), f"ended before change {kill_at}"
        assert {path.name for path in (sink.folder / META).iterdir()} == {"lock", "state.json"}
        assert not (sink.folder / METADATA).exists()
    assert kill_at > 30


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["batch", "batch", "close", "close all", "haunt", "restart", "clear"]),
        st.integers(1, 12)),  # the process ends before so manieth change from here
    max_size=25)


@given(format=st.sampled_from(FORMATS), steps=STEPS, was_sparks=st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_happens_each_event_is_read_once(tmp_path_factory, format, steps, was_sparks):
    with pytest.MonkeyPatch.context() as patch:
        sink = Sink(tmp_path_factory.mktemp("sink"), format)
        if was_sparks:
            old_folder(sink, batches=3)
            sink.start()
        playing = Disk(patch, look=lambda: holds(sink))
        for step in steps:
            try:
                match step:
                    case "batch":
                        sink.step()
                    case "close":
                        sink.close(file_bytes=100)
                    case "close all":
                        sink.close(all_of_it=True)
                    case "haunt":
                        sink.haunt()
                    case "restart":
                        sink.killed()
                        sink.start()
                    case "clear":
                        sink.clear()
                    case changes:
                        playing.kill_at = playing.changes + changes
            except Killed:
                sink.killed()
        playing.kill_at = -1
        sink.step()
        sink.close(all_of_it=True)
        assert sink.visible() == list(range(sink.next_event))
        assert staged_in(sink.folder) == []
