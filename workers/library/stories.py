"""Sources that generate what is no sensor's: sentences to count words in, and the trades and offers of a stock market.

As with the other generators an event is a pure function of the config, its sequence number and its time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .chance import normal, rounded, uniform
from .config import settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SEED = Parameter("seed", "integer", "The seed of the generator: the same seed gives the same events.", default=1,
                  minimum=0, maximum=2**31 - 1, near="never")
SENTENCES = TaskType(
    name="sentences", kind="source", family="source",
    doc="Generates sentences of a small vocabulary in which some words are much more frequent than others.",
    build="workers.library.stories:sentences", effects=(), opens=True,
    parameters=(_SEED, Parameter("words", "integer", "Words in a sentence.", default=8, minimum=1, maximum=100)),
    cost_us=8,
)
STOCK_TICKS = TaskType(
    name="stock_ticks", kind="source", family="source",
    doc="Generates a stock market's trades (price, volume) and offers to sell (ask, ask_volume), symbol after symbol.",
    build="workers.library.stories:stock_ticks", effects=(), opens=True,
    parameters=(
        _SEED,
        Parameter("symbols", "integer", "How many stocks are traded.", default=20, minimum=1, maximum=10_000),
        Parameter("offers", "number", "Share of events that are offers.", default=0.5, minimum=0, maximum=1, unit="1"),
    ),
    cost_us=8,
)
TASK_TYPES = (SENTENCES, STOCK_TICKS)
WORDS = (
    "the", "a", "of", "and", "to", "in", "river", "city", "bridge", "light", "morning", "street", "water", "tree",
    "market", "house", "train", "window", "garden", "winter", "letter", "song", "harbour", "tower", "clock", "stone",
    "bird", "field", "road", "evening", "summer", "door")


def sentences(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One column, ``sentence``: words with a space between."""
    from pyspark.sql import functions as F

    values = settings(SENTENCES, config)
    words = F.array(*[F.lit(word) for word in WORDS])

    def word(position: Column) -> Column:
        chance = uniform(values["seed"], F.col("_seq"), position)
        return F.get(words, F.floor(chance * chance * len(WORDS)).cast("int"))  # squared: the first ones come often

    places = F.sequence(F.lit(1), F.lit(values["words"]))
    return ticks.select("_seq", "_time", "_born", F.array_join(F.transform(places, word), " ").alias("sentence"))


def stock_ticks(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """``symbol``; of a trade ``price`` and ``volume``, of an offer ``ask`` and ``ask_volume``, the others null."""
    from pyspark.sql import functions as F

    values = settings(STOCK_TICKS, config)
    seed, seq = values["seed"], F.col("_seq")
    symbol = F.pmod(seq, F.lit(values["symbols"]))
    phase = F.lit(2 * math.pi) * (F.col("_time") / 120_000.0 + uniform(seed, "phase", symbol))
    level = F.lit(20.0) + 180.0 * uniform(seed, "level", symbol)
    offered = uniform(seed, "offer", seq) < values["offers"]
    price = rounded(level * (F.lit(1.0) + 0.01 * F.cos(phase) + 0.005 * normal(seed, "price", seq)), 2)
    volume = (F.floor(uniform(seed, "volume", seq) * 50) + 1).cast("bigint") * 10
    number = symbol.cast("string")
    return ticks.select(
        "_seq", "_time", "_born",
        F.concat(F.lit("S"), F.lpad(number, F.greatest(F.lit(3), F.length(number)), F.lit("0"))).alias("symbol"),
        F.when(~offered, price).alias("price"), F.when(~offered, volume).alias("volume"),
        F.when(offered, price).alias("ask"), F.when(offered, volume).alias("ask_volume"))


def sentences_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A sentence."""
    return Columns.stream({"sentence": "string"})


def stock_ticks_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A trade's, or an offer's."""
    return Columns.stream(
        {"symbol": "string", "price": "double", "volume": "bigint", "ask": "double", "ask_volume": "bigint"})
