"""Channels as Spark sees them: streaming DataFrames to read, valves to write, and the settings they need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import redis
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from scheduler.contracts.offsets import Offset
from scheduler.model.settings_of_fragments import OPEN_EVENTS, OPEN_S
from workers import broker_client
from workers.library.watermarks import STREAM_NUMBER, TOLD

from . import keys
from .batch_ranges import carried_with
from .channel_config import ChannelConfig
from .jvm import build

_THREAD, _NUMBER = "_weir_thread", "_weir_alternate"
WARMING, FOR_KEYS = "warming", "keys"  # when an alternate works beside the one that is on (`Alternate.java`)


class ChannelNotOpen(RuntimeError):
    """A channel was read before it was opened: its schema is not known yet."""


class KeysDiffer(RuntimeError):
    """Streams whose parts are read together were divided by columns of several types."""


def spark_conf(config: ChannelConfig) -> dict[str, str]:
    """Entries of the session's configuration that channels need; builds the jar where it is not up to date.

    Raises
    ------
    workers.engine.channels.jvm.build.BuildFailed
        The jar is not there and cannot be built.
    """
    jar = str(build.provide(config.data_dir.resolve(), built_jar=config.jar))
    return {
        "spark.driver.extraClassPath": jar, "spark.executor.extraClassPath": jar, "spark.jars": jar,
        # Hadoop's own local file system forks a chmod for each file of a checkpoint, several times in every batch.
        "spark.hadoop.fs.file.impl": "weir.LocalFiles",
        # A kill while a query's first offsets are written leaves a temporary file there, which Spark takes for another
        # query's checkpoint, and never starts. Checkpoints are a fragment's own.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        # Real-time mode: valves publish, so a query may end in Spark's noop, which is not on its list of sinks; each
        # batch writes its own offsets and commit; and no query in this mode has state, in whichever format.
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        "spark.sql.streaming.realTimeMode.dangerouslyAllowCheckpointV1.enabled": "true",
    }


def read_channels(
    spark: SparkSession, config: ChannelConfig, *, inputs: Sequence[str | Sequence[str]], reader: str,
    writes: Sequence[str] = (), begin: Mapping[str, Offset] = MappingProxyType({}), threads: int = 1, gate: str = "",
    real_time: bool = False, idle_ms: int = 0, source: str = "", marks: bool = False,
    numbered: bool = False, key: Sequence[str] = (), repeats: bool = False,
    gone: Sequence[str] = (),
) -> DataFrame:
    """The interleaved events of some streams, as one streaming DataFrame.

    Parameters
    ----------
    inputs : sequence of str, or of sequences of str
        Streams, each by the channels that carry it (one channel may stand for itself): one source each, whose channels
        may be others when the query starts again, or from a batch on (``Inputs.java``). Columns that only some streams
        have are null in events of the others.
    reader : str
        The fragment that reads: registered with every one of the channels before the query starts.
    writes : sequence of str
        Channels that the query writes: while one of them is full, no new batch is planned.
    begin : mapping of str to Offset
        By channel, the entry up to which everything is left out, though the checkpoint is not as far: where a reader
        that was paused goes on.
    threads : int
        Into how many partitions each batch is cut, in order; :func:`gather` puts them together again.
    gate : str
        The token of a query that stands by (``Channels.open_gate``): it reads nothing, and need not be registered,
        until it is told to.
    real_time : bool
        True where its batches are open (:mod:`workers.engine.channels.open_streams`): one stream, on one thread.
    idle_ms : int
        The ms without events after which there is a batch without any, once; 0: none.
    source : str
        The running task that is a source, where waves begin here (docs/dynamic.md); else they are those of the blocks.
    marks : bool
        True where there is a column with what parts are told of the marks of partitions
        (``workers.library.watermarks``), and a row that is no event where they are told behind their last one.
    numbered : bool
        True where there is a column with the number of an event's stream, from 0, whose metadata says how many there
        are.
    key : sequence of str
        Columns by which parts were divided: each stream has them, of one type, for its writer knows no other.
    repeats : bool
        True where it repeats batches of another, from ``begin`` on, in whichever channels those read.
    gone : sequence of str
        Channels that these read to their end, and that are not there for it any more.

    Raises
    ------
    KeysDiffer
        The streams have a column of the key in several types, or one of them lacks it.
    ChannelNotOpen
        A channel is not open, so that its schema is unknown.
    """
    groups = [(group,) if isinstance(group, str) else tuple(group) for group in inputs]
    siblings = ",".join(channel for group in groups for channel in group)
    with broker_client.connect(config.redis_url) as client:
        schemas = [_schema(client, group) for group in groups]
        records = config.records_ranges
        carried = [carried_with(client, reader, group) if records and len(groups) > 1 else [] for group in groups]
    require_one_type(schemas, key)
    if marks:  # a row that is no event has nothing else
        schemas = [StructType([
            *(StructField(field.name, field.dataType, metadata=field.metadata) for field in schema),
            StructField(TOLD, StringType())]) for schema in schemas]
    streams, common = [], str(uuid4()) if len(groups) > 1 else ""
    for index, (group, schema) in enumerate(zip(groups, schemas, strict=True)):
        options = {
            "channels": ",".join(group), "reader": reader, "writes": ",".join(writes), "siblings": siblings,
            # One input waits for all; the others would only add their waiting to its.
            "wait_ms": config.wait_ms if index == 0 else 0,
            "max_blocks": config.max_blocks, "blocks_each": config.blocks_each, "max_rows": config.max_rows,
            "stream": index, "threads": threads, "spill": str(config.spill or config.data_dir / "spill"),
            "begin": json.dumps({
                channel: offset for channel, offset in begin.items()
                if channel in (*group, *carried[index]) or (repeats and len(groups) == 1)}), "gate": gate,
            "idle_ms": idle_ms, "source": source, "ranges": config.records_ranges, "common": common,
            "streams": len(groups), "carried": ",".join(carried[index]), "repeats": repeats, "gone": ",".join(gone),
            **_open(real_time),
        }
        streams.append(_read(spark, config, "weir.ChannelProvider", options, schema))
    if numbered:
        streams = [stream.withColumn(STREAM_NUMBER, functions.lit(number).cast("bigint"))
                   for number, stream in enumerate(streams)]
    if len(streams) == 1:
        return streams[0]
    events = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), streams)
    events = events.withMetadata(STREAM_NUMBER, {"streams": len(streams)}) if numbered else events
    return events.coalesce(threads)


def require_one_type(schemas: Sequence[StructType], key: Sequence[str]) -> None:
    """Raise ``KeysDiffer`` where streams do not all have each of these columns, with one type."""
    for name in key:
        kinds = [schema[name].dataType.simpleString() if name in schema.names else "none" for schema in schemas]
        if len({*kinds}) != 1 or "none" in kinds:
            raise KeysDiffer(f"The streams were divided by their column {name}, but have it as {', '.join(kinds)}. "
                             "Cast it to one type before they meet, and submit the dataflow again.")


def gather(events: DataFrame, *, threads: int) -> DataFrame:
    """A task's output of a batch that was read in ``threads`` partitions, in one partition, in the order of the batch.

    Partition i of the threads becomes partition i behind an exchange, which lets all of them run at the same time; one
    task then reads these in their order. No row overtakes another: each of the exchange's partitions has one writer.
    """
    if threads == 1:
        return events
    numbered = events.coalesce(threads).withColumn(_THREAD, functions.spark_partition_id())
    return numbered.repartitionById(threads, _THREAD).coalesce(1).drop(_THREAD)


def read_ticks(
    spark: SparkSession, config: ChannelConfig, *, name: str, rate_per_s: float | None = None,
    schedule_file: Path | str | None = None, limit: int | None = None, writes: Sequence[str] = (),
    repeat_ms: int = 0, repeat_time_ms: int | None = None, begin: Mapping[str, int] | None = None,
    gate: str = "", real_time: bool = False, source: str = "",
) -> DataFrame:
    """Sequence numbers on a schedule (``_seq``, ``_time`` and ``_born``), from which every source is made.

    Parameters
    ----------
    name : str
        The fragment that the source begins: a pause and ``throttled_by`` go by this name.
    schedule_file : path, optional
        The file with the time of each number, by :func:`workers.engine.channels.tick_schedule.write_schedule`.
    limit : int, optional
        How many numbers there are; without one a rate never ends.
    repeat_ms, repeat_time_ms : int, optional
        Repeat a schedule without end, ``repeat_ms`` later each time, the recorded times moved on by
        ``repeat_time_ms`` (as much, if not given).
    begin : mapping, optional
        The offset to begin with, ``next`` (the first number) and ``t0`` (when number 0 was due); 0 and now, if not
        given. A checkpoint that has planned that number goes on from its own place.
    gate : str
        The token of a query that stands by: it makes nothing until it is told to begin, and at which number.
    source : str
        The running task that it serves, by whose name it hears of waves (docs/dynamic.md).
    """
    if (rate_per_s is None) == (schedule_file is None):
        raise ValueError("ticks come at a rate or on a schedule: give one of the two")
    options: dict[str, object] = {
        "reader": name, "writes": ",".join(writes), "wait_ms": config.wait_ms, "max_rows": config.max_rows,
        "catch_up_ms": config.catch_up_ms, "gate": gate, "source": source, "ranges": config.records_ranges,
        **_open(real_time),
    }
    if rate_per_s is not None:
        options["rate_per_s"] = rate_per_s
    else:
        options["schedule_file"] = str(Path(schedule_file).resolve())
        options["repeat_ms"] = repeat_ms
        options["repeat_time_ms"] = repeat_ms if repeat_time_ms is None else repeat_time_ms
    if limit is not None:
        options["limit"] = limit
    if begin is not None:
        options["begin"] = json.dumps({"t0": begin["t0"], "next": begin["next"]})
    return _read(spark, config, "weir.TicksProvider", options, None)


def _open(real_time: bool) -> dict[str, object]:
    return {"real_time": round(1000 * OPEN_S), "open_events": OPEN_EVENTS} if real_time else {}


def valve(
    events: DataFrame, config: ChannelConfig, *, fragment: str, position: int, channel: str, fence: int,
    batch_base: int = 0, gate: str = "", task: str = "",
) -> DataFrame:
    """Put a valve behind a task: count its events, publish them while its outlet is open, pass them on or not.

    The result has one partition: one writer numbers a channel's blocks, and a stateful operator behind it needs no
    shuffle where ``spark.sql.shuffle.partitions`` is 1.

    Parameters
    ----------
    fragment, position : str, int
        The place of the task: its fragment's control and meters are those that the valve obeys and feeds.
    channel : str
        The channel to publish to; the channel need not be open before the outlet is.
    fence : int
        The token taken when the query started (``Channels.take_fence``).
    batch_base : int
        The number to which a batch's own is added, for its block's number. More than 0 in a channel that was taken
        over, so that numbers keep growing there.
    gate : str
        The token of a query that stands by: ``fence`` and ``batch_base`` are those that it is told when its turn comes.
    task : str, optional
        The running task whose stream it is: under this name its newest events are found, wherever it runs.
    """
    jvm_valve = events.sparkSession._jvm.weir.Valve
    behind = jvm_valve.behind(
        events._jdf, config.redis_url, task or f"{fragment}.{position}", fragment, position, channel, fence, batch_base,
        config.block_rows, gate
    )
    return DataFrame(behind, events.sparkSession)


def one_of(
    events: DataFrame, builds: Mapping[str, Callable[[DataFrame], DataFrame]], config: ChannelConfig, *, task: str,
    fragment: str, position: int, in_waves: bool = False,
) -> DataFrame:
    """The output of the alternate of an element that is on (``Channels.switch``): in each batch just one of them is.

    Parameters
    ----------
    builds : mapping of str to callable
        A function for each alternate, by name, that makes its output: the same columns in any order. Where nobody has
        said which is on, as in the empty batch of a query that stands by, the first is.
    task, fragment, position : str, str, int
        The running task, under which the first event of each switch is noted, and where it stands.
    in_waves : bool
        True where the wave of a batch says which is on (docs/dynamic.md); before the first one, the first is.
    """
    noted = first_events_noted(events, config, task=task, fragment=fragment, position=position, in_waves_first=(
        next(iter(builds)) if in_waves else ""))
    return the_one_on({name: build(noted) for name, build in builds.items()}, config, fragment=fragment,
                      position=position, in_waves_of=task if in_waves else "")


def first_events_noted(
    events: DataFrame, config: ChannelConfig, *, task: str, fragment: str, position: int, in_waves_first: str = ""
) -> DataFrame:
    """The input of an element, of which the first event that an alternate gets is noted under the running task.

    Parameters
    ----------
    in_waves_first : str, optional
        Of an element that switches in waves, the alternate that is on before the first one.
    """
    noted = events.sparkSession._jvm.weir.Alternate.noted(
        events._jdf, config.redis_url, task, fragment, position, in_waves_first)
    return DataFrame(noted, events.sparkSession)


def the_one_on(
    made: Mapping[str, DataFrame], config: ChannelConfig, *, fragment: str, position: int, in_waves_of: str = "",
    beside: str = "",
) -> DataFrame:
    """In each batch the stream of the alternate that is on, of one stream for each, all with the same columns; see
    `one_of`.

    Parameters
    ----------
    in_waves_of : str, optional
        The running task, where the wave of a batch says which is on.
    beside : str, optional
        Further streams: `WARMING`, that of the alternate that warms up, if any; `FOR_KEYS`, those of alternates that
        were set for keys. Behind it all of them must be one partition again.
    """
    first, session = next(iter(made)), next(iter(made.values())).sparkSession
    marked = [
        DataFrame(session._jvm.weir.Alternate.whileOn(
            stream._jdf, config.redis_url, fragment, position, name, name == first, in_waves_of, beside), session)
        for name, stream in made.items()]
    return reduce(lambda left, right: left.unionByName(right), marked)


def alternate_of_event(
    events: DataFrame, key: Column, names: Sequence[str], config: ChannelConfig, *, fragment: str, position: int,
    in_waves_of: str = "",
) -> Column:
    """The name of the alternate that works on an event at an element: by its key (``Channels.switch_keys``), or the
    element's own, with the one that warms up (`scheduler.model.warm_up.working`); the first of ``names`` where neither
    was said; ``in_waves_of`` as `the_one_on` has it."""
    session = events.sparkSession
    gateway = session.sparkContext._gateway
    texts = gateway.new_array(gateway.jvm.java.lang.String, len(names))
    for index, name in enumerate(names):
        texts[index] = name
    return Column(session._jvm.weir.Alternate.ofEvent(
        config.redis_url, fragment, position, key._jc, texts, in_waves_of))


def shared(events: DataFrame) -> DataFrame:
    """Events that several parts of a query read, each of which comes to one partition with the others: worked out once.
    """
    return DataFrame(events.sparkSession._jvm.weir.Tee.of(events._jdf), events.sparkSession)


def headed(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The first event of each batch, once all of it is there; and the events, to be read any number of times by what
    comes behind that in a query's plan, to one partition with it.
    """
    head, again = events.sparkSession._jvm.weir.Tee.headed(events._jdf)
    return DataFrame(head, events.sparkSession), DataFrame(again, events.sparkSession)


def each_by_key(
    events: DataFrame, key: Callable[[DataFrame], Column], builds: Mapping[str, Callable[[DataFrame], DataFrame]],
    config: ChannelConfig, *, fragment: str, position: int,
) -> DataFrame:
    """The output of alternates without state, each of the events of those keys for which it works, by their numbers.

    Parameters
    ----------
    key : callable
        Takes the stream; the text of an event's key.
    """
    switch, all_events = {"fragment": fragment, "position": position}, shared(events)
    made = {}
    for number, (name, build_one) in enumerate(builds.items()):
        works = alternate_of_event(all_events, key(all_events), [*builds], config, **switch)
        made[name] = build_one(all_events.where(works == name)).withColumn(_NUMBER, functions.lit(number))
    ordered = events.sparkSession._jvm.weir.InTurn.ordered(the_one_on(made, config, beside=FOR_KEYS, **switch)._jdf)
    return DataFrame(ordered, events.sparkSession)


def count_late(events: DataFrame, config: ChannelConfig, *, fragment: str, position: int) -> DataFrame:
    """A fold's stream without the rows that only say how many events were late (``workers.library.state.LATE``); they
    count in the meter of the fragment's task.
    """
    counted = events.sparkSession._jvm.weir.LateEvents.counted(events._jdf, config.redis_url, fragment, position)
    return DataFrame(counted, events.sparkSession)


def _schema(client: redis.Redis, group: Sequence[str]) -> StructType:
    """The schema of a stream, which is the same in all channels that carry it."""
    schemas = []
    for channel in group:
        text = client.hget(keys.meta(channel), "schema")
        if text is None:
            raise ChannelNotOpen(f"Channel {channel} is not open.")
        schemas.append(StructType.fromJson(json.loads(text)))
    for channel, schema in zip(group, schemas, strict=True):
        if schema.simpleString() != schemas[0].simpleString():
            raise ValueError(
                f"channels {group[0]} and {channel} do not carry the same stream: "
                f"{schemas[0].simpleString()} and {schema.simpleString()}"
            )
    return schemas[0]


def _read(
    spark: SparkSession, config: ChannelConfig, provider: str, options: dict[str, object], schema: StructType | None
) -> DataFrame:
    reader = spark.readStream.format(provider).option("redis_url", config.redis_url)
    for option, value in options.items():
        reader = reader.option(option, str(value))
    return (reader.schema(schema) if schema is not None else reader).load()
