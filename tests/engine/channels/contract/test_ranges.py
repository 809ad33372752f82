"""Recorded ranges of a query that reads several streams: it ends each batch in all of them at once. Without a query."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from random import Random

import pytest
import redis

from scheduler.contracts.savepoints import Savepoint
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import begin_ranges, place_of, recorded_behind, take_ranges

from .rig import Rig, wait_until
from .test_planning import write

pytestmark = [pytest.mark.spark, pytest.mark.broker]

Place = dict[str, str]  # by channel
NUMBERS = itertools.count()  # of queries, so that what they have in common is theirs alone


class Streams:
    """The streams of one query, which are asked in turn as Spark asks them; ``carried``: by channel, what carried its
    stream before."""

    def __init__(
        self, rig: Rig, reader: str, channels: list[str], *, begin: Place | None = None,
        carried: Mapping[str, str] | None = None,
    ) -> None:
        options = {"ranges": True, "common": next(NUMBERS), "streams": len(channels)}
        self.carried = carried or {}
        beginning = {} if begin is None else {"repeats": True}
        self.sources = {
            channel: rig.source(
                reader, channel, siblings=",".join(channels), carried=self.carried.get(channel, ""),
                begin=json.dumps(self._own_place(begin or {}, channel)), **options, **beginning)
            for channel in channels}

    def _own_place(self, place: Place, channel: str) -> Place:
        return {name: place[name] for name in (channel, self.carried.get(channel)) if name in place}

    def first(self) -> Place:
        return {name: entry for source in self.sources.values() for name, entry in source.first().items()}

    def ask(self, place: Place) -> Place:
        """Where the next batch ends in all streams; the same place where there is none yet."""
        ends = [source.next(self._own_place(place, channel)) for channel, source in self.sources.items()]
        return {name: entry for end in ends for name, entry in end.items()}

    def batch(self, place: Place) -> Place:
        def end() -> Place | None:
            reached = self.ask(place)
            return None if reached == place else reached

        return wait_until(end, what="a batch", timeout_s=60)


def text_of(place: Place) -> str:
    return place_of(Savepoint(offsets=place))


@pytest.mark.parametrize("seed", range(6))
def test_who_goes_on_with_several_streams_repeats_each_batch_in_all_of_them(
    rig: Rig, broker: redis.Redis, seed: int
) -> None:
    """Wherever its copy is, also where the channels of a stream have changed meanwhile; then it plans by itself."""
    chance = Random(seed)
    channels = chance.sample(["a.0", "b.0"], 2)
    for channel in ("a.0", "b.0", "c.0"):
        rig.channels.open_channel(channel, schema_json="{}", capacity=500, readers=["r"])
    tokens = {channel: rig.channels.take_fence(channel) for channel in ("a.0", "b.0", "c.0")}
    numbers = {channel: itertools.count(1) for channel in tokens}

    def comes(*names: str) -> None:
        for name in names:
            write(broker, name, tokens[name], next(numbers[name]))

    carried: dict[str, str] = {}
    query = Streams(rig, "r", channels)
    places = [query.first()]
    begin_ranges(broker, rig.channels, "r", text_of(places[0]), {**places[0], "c.0": "0-0"})
    changes_at = chance.choice([3, 99])
    for number in range(8):
        if number == changes_at:  # the stream in a comes in another channel from now on
            channels, carried = ["c.0" if name == "a.0" else name for name in channels], {"c.0": "a.0"}
        if number == changes_at or chance.random() < 0.3:  # it starts again at its checkpoint
            query = Streams(rig, "r", channels, carried=carried)
            assert query.ask(places[-1]) == places[-1], "it is not known yet where the other stream begins"
        comes(*chance.choices(channels, k=chance.randint(1, 3)))
        places.append(query.batch(places[-1]))
    copy = chance.randrange(len(places))
    ends = [text_of(place) for place in places]
    assert recorded_behind(broker, "r", ends[copy]) == ends[copy + 1:]

    assert take_ranges(broker, "r", "heir")
    for channel in {*channels, *places[copy]}:
        rig.channels.join(channel, "heir", where=places[copy].get(channel, "0-0"))
    comes(*channels)
    heir = Streams(rig, "heir", channels, begin=places[copy], carried=carried)
    place = heir.first()
    assert place == places[copy]
    for expected in places[copy + 1:]:
        place = heir.batch(place)
        assert place == expected
    reached = heir.batch(place)
    assert reached != place and broker.hget(keys.ranges("heir"), "next").decode() == text_of(reached)
    with pytest.raises(Exception, match="WEIROVERTAKEN r: heir goes on with it"):
        query.batch(places[-1])
