"""The video job: frames go through H.264 and come out as they should; the bench's figures follow from what was seen."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.benches import video_tasks
from tests.benches.video import ALONE, BATCHES, Second, met_after_s, summary, times_less
from tests.benches.video_job import CHAIN, BatchesOf, estate_of

needs_frames = pytest.mark.skipif(find_spec("av") is None, reason="PyAV is not installed")
SIZE = (64, 48)


@needs_frames
def test_packets_are_key_frames_that_stand_for_themselves() -> None:
    packets = video_tasks.clip(1, *SIZE)
    assert len(packets) == video_tasks.CLIP_FRAMES
    (alone,) = video_tasks.decoded([packets[5]])
    in_line = list(video_tasks.decoded(packets))
    assert len(in_line) == len(packets)
    assert (alone == in_line[5]).all()
    drawn = video_tasks.drawn(1, 5, *SIZE)
    assert alone.shape == drawn.shape
    assert abs(alone[:48].astype(int) - drawn[:48].astype(int)).mean() < 8, "it is the picture, but for what is lost"


@needs_frames
def test_four_pictures_become_one_and_each_moment_is_another() -> None:
    frames = [next(video_tasks.decoded([video_tasks.clip(camera, *SIZE)[3]])) for camera in range(4)]
    whole = video_tasks.tiled(frames)
    assert whole.shape == (144, 128)
    for camera, (top, left) in enumerate([(0, 0), (0, 64), (48, 0), (48, 64)]):
        assert (whole[top:top + 48, left:left + 64] == frames[camera][:48]).all()
    picture = video_tasks.picture_of(3, *SIZE)
    assert video_tasks.checksum(picture) == video_tasks.checksum(video_tasks.with_banner(whole, 3))
    sums = {video_tasks.checksum(video_tasks.picture_of(number, *SIZE)) for number in range(40)}
    assert len(sums) == 40, "the banner tells moments apart whose frames are alike"
    (packet,) = video_tasks.encoded([picture])
    assert next(video_tasks.decoded([packet])).shape == picture.shape


def second(at_s: float, phase: str, latency_ms: float, *, queries: int = 6) -> Second:
    return Second(at_s, phase, latency_ms / 2, latency_ms / 4, latency_ms / 4, 10.0, queries)


def test_a_limit_is_met_once_ten_seconds_are_within_it_in_the_mean() -> None:
    rows = [second(float(at), ALONE, 4_000.0) for at in range(20)]
    rows += [second(20.0 + at, BATCHES, 1_000.0 if at < 5 else 200.0) for at in range(30)]

    assert met_after_s(rows, limit_s=0.3, chosen_s=20.0) == 13.0
    assert met_after_s(rows, limit_s=0.1, chosen_s=20.0) is None
    alone, batches = summary(rows, limit_s=0.3)
    assert (alone["latency ms"], batches["latency ms"]) == (4_000.0, 200.0)
    assert batches["of seconds within"] == "100%"
    assert times_less([alone, batches]) == 20.0
    assert times_less([batches]) is None, "there is nothing to hold it against"


def test_what_an_event_takes_is_told_from_batches_of_two_sizes() -> None:
    batches = BatchesOf()
    assert batches.cost(10.0) is None
    batches.look(0, 0, events_per_s=40.0, over_s=10.0)
    batches.look(5, 5 * 900, events_per_s=40.0, over_s=10.0)  # 80 events and 0.9 s each
    assert batches.cost(40.0).event_s == 0
    batches.look(25, 5 * 900 + 20 * 300, events_per_s=40.0, over_s=10.0)  # 20 events and 0.3 s each
    cost = batches.cost(40.0)
    assert cost.event_s == pytest.approx(0.01)
    assert cost.batch_s == pytest.approx(0.1)


def test_batches_that_are_long_apart_count_as_soon_as_there_are_two() -> None:
    batches = BatchesOf()
    for number in range(4):  # a batch of 80 events and 0.9 s in each
        batches.look(number, number * 900, events_per_s=8.0, over_s=10.0)
    assert list(batches.windows) == [(pytest.approx(80.0), pytest.approx(0.9))]
    batches.look(0, 0, events_per_s=8.0, over_s=10.0)  # its driver died
    batches.look(2, 1_000, events_per_s=8.0, over_s=10.0)
    assert batches.windows[-1] == (pytest.approx(40.0), pytest.approx(0.5))


def test_the_job_is_a_query_for_each_task_and_one_in_the_end() -> None:
    estate = estate_of(rate_per_s=10.0, width=64, height=48, slots=2)
    assert [fragment.tasks for fragment in estate.fragments.values()] == [(name,) for name in CHAIN]
    assert {fragment.slot for fragment in estate.fragments.values()} == {"n1/0", "n1/1"}
    assert estate.tasks["merge"].parents == ("decode",)
