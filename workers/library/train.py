"""Learning models from a stream, and predicting by them: RIoTBench's TRAIN and PRED tasks.

A model leaves ``train`` as an event, so that a ``predict`` behind it uses exactly the models that came before each of
its events, whatever dies meanwhile. Under a name it is stored too, for other dataflows of the team and to look at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns, WrongColumnType
from scheduler.model.secrets import NAME, TEAM, is_owned
from scheduler.model.task_types import Parameter, TaskType

from .carrying import packed, unpacked
from .columns import STREAM, kept_columns, key_columns, require_scalar
from .config import InvalidConfig, require_columns, settings
from .learning import NEURONS, ErrorEstimator, Learner, Predictor
from .model_store import ModelName, StoredVersion, broker_url, connected, store_version
from .models import CLASSIFIERS, KINDS, LINEAR, MOST_FEATURES, MOST_NEURONS
from .operators import milliseconds
from .outside import with_answers
from .predicting import StoredModel, predict_stored
from .state import fold_stream, task_being_built
from .watermarks import STREAM_NUMBER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_KIND = Parameter(
    "kind", "string", "linear_regression: ordinary least squares of several variables; decision_tree_classifier and "
    "neural_network_classifier, whose classes are texts; decision_tree_regressor.", default=LINEAR, choices=KINDS)
_FEATURES = Parameter("features", "list", "The columns that a model reads: numbers.", required=True, items="string",
                      column="names")


def _by(what: str) -> Parameter:
    return Parameter("by", "list", f"Columns that tell keys apart. {what}", items="string", column="names", added=True)


_NAME = r"[a-z0-9][a-z0-9_-]{0,62}"
TRAIN = TaskType(
    name="train", kind="transform", family="predict",
    doc="Learns a model from the newest events, again and again, and gives each as an event; scikit-learn fits it.",
    build="workers.library.train:train", effects=(),
    parameters=(
        _KIND, _FEATURES,
        _by("A model is learned for each, from its own events. Without them, one from all events."),
        Parameter("target", "string", "The column that is learned: a number; for a classifier, any single value.",
                  required=True, column="names"),
        Parameter("window", "integer", "The largest number of newest events that it learns from.", default=1000,
                  minimum=2, maximum=20_000),
        Parameter("span", "number", "Events that are so much older than the newest are left out.", minimum=0.001,
                  maximum=2_678_400, unit="s"),
        Parameter("every", "integer", "The number of events after which it learns; without it and period, after each "
                  "window.",
                  minimum=1, maximum=1_000_000),
        Parameter("period", "number", "It learns whenever the events' time reaches a multiple of this.", minimum=0.001,
                  maximum=2_678_400, unit="s"),
        Parameter("max_depth", "integer", "For trees: the greatest depth.", default=5, minimum=1, maximum=12),
        Parameter("min_leaf", "integer", "For trees: the least number of events in a leaf.", default=5,
                  minimum=1, maximum=10_000),
        Parameter("neurons", "integer", "For neural networks: the number of hidden neurons.",
                  default=NEURONS, minimum=1,
                  maximum=MOST_NEURONS, added=True),
        Parameter("model", "string", "The name under which the team keeps its versions; without it they are events "
                  "alone.", pattern=_NAME, of_team=True),
        Parameter("keep", "integer", "How many versions are kept.", default=10, minimum=1, maximum=100),
    ),
    stateful=True, movable_state=True, key="by", by_key=True, passes_key=True, selectivity=0.001, cost_us=25,
    has_long_steps=True,
)
PREDICT = TaskType(
    name="predict", kind="transform", family="predict",
    doc="Predicts by a model: the newest that came in its stream, in the column model, or one that the team keeps.",
    build="workers.library.train:predict", effects=(),
    parameters=(
        _KIND, _FEATURES,
        _by("An event is predicted by the newest model of its key, which has these columns, too."),
        Parameter("model", "string", "The name of a model of the team, read from where it keeps them. Without it "
                  "models come in the stream.", pattern=_NAME, of_team=True),
        Parameter("version", "string", "With model: only that version; by default the newest.",
                  pattern=r"\d{1,12}-[0-9a-f]{10}"),
        Parameter("refresh", "number", "With model: the time between two looks for a newer version.", default=30,
                  minimum=1, maximum=86_400, unit="s"),
        Parameter("named", "string", "Without model: take models of that name only.", pattern=_NAME),
        Parameter("unpredicted", "string", "What becomes of an event that nothing is predicted for: it goes on with "
                  "null, or is left out.", default="null", choices=("null", "drop")),
    ),
    stateful=True, movable_state=True, key="by", by_key=True, passes_key=True, several_streams=True, cost_us=25,
    has_long_steps=True,
)
ERROR_ESTIMATE = TaskType(
    name="error_estimate", kind="transform", family="predict",
    doc="Compares predictions with actual values: the errors, also as a share of a running average in the same stream.",
    build="workers.library.train:error_estimate", effects=(),
    parameters=(
        Parameter("actual", "string", "The column with the actual value.", required=True, column="names"),
        Parameter("predicted", "string", "The column with the predicted value.", default="predicted", column="names"),
        Parameter("average", "string", "The column with the average, in other events, of which errors are a share.",
                  default="value", column="names"),
        Parameter("window", "integer", "The number of latest errors that their mean covers.", default=100, minimum=1,
                  maximum=10_000),
    ),
    stateful=True, movable_state=True, key="task", cost_us=10,
)
TASK_TYPES = (TRAIN, PREDICT, ERROR_ESTIMATE)
MODEL_COLUMN = "model"
_TRAINED = "model string, version string, number bigint, events bigint, fit double"
_ERRORS = "actual double, expected double, average double, error double, relative double, mean double"
_LEARNED = tuple(part.split()[0] for part in _TRAINED.split(", "))
_PREDICTED = ("predicted", "version", "problem")
_RUNNING = re.compile(r"[0-9a-f]{32}")  # the id of a running task; a trial's has none, and stores nothing


# train ---------------------------------------------------------------------------------------------------------------


def train(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a model: the key's columns, ``model`` (JSON), ``version``, ``number``, ``events`` and ``fit``."""
    from pyspark.sql import functions as F

    values = settings(TRAIN, config)
    name, features, by = values["model"], _features(values), _key(values, added=_LEARNED)
    require_columns(inputs.columns, [*by, *features, values["target"]], task_type="train",
                    remedy="Name columns of the input.")
    columns = _numbers(features)
    target = F.col(values["target"]).cast("string" if values["kind"] in CLASSIFIERS else "double")
    selected = inputs.select(
        *STREAM, *by, target.alias("_target"), *[column.alias(name) for name, column in columns.items()])
    models = fold_stream(
        selected, learner(values), by=by, reads=["_seq", "_time", "_born", "_target", *columns], kept=by,
        added=f"_seq bigint, _time bigint, _born bigint, {_TRAINED}")
    models = models.select(*STREAM, *by, *_LEARNED)
    if not is_owned(name) or not _RUNNING.fullmatch(task_being_built()):
        return models
    model, url, keep = ModelName(name[TEAM], name[NAME]), broker_url(), values["keep"]

    def stored(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            _store(batch, model, url, keep)
            yield batch

    return models.mapInArrow(stored, models.schema)


def _store(batch: pa.RecordBatch, model: ModelName, url: str, keep: int) -> None:
    """Store what was learned before it goes on: who hears of a version finds it."""
    rows = batch.select(["version", "_born", "model"]).to_pylist()
    if not rows:
        return
    with connected(url) as broker:
        for row in rows:
            store_version(broker, model, StoredVersion(row["version"], row["_born"], row["model"]), keep=keep)


def learner(values: Mapping[str, Any]) -> Learner:
    """The fold of a config."""
    period = milliseconds(values["period"] or 0)
    every = values["every"] or (0 if period else values["window"])
    if values["every"] and period:
        raise InvalidConfig("It would learn by two clocks.", remedy="Give every or period.", parameter="period")
    named = values["model"]
    return Learner(
        values["kind"], tuple(_features(values)), values["target"], values["window"],
        milliseconds(values["span"] or 0), every, period, values["max_depth"], values["min_leaf"],
        str(named[NAME] if is_owned(named) else named or ""), values["neurons"])


def train_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(TRAIN, config)
    learner(values)
    _key(values, added=_LEARNED)
    if values["target"] in values["features"]:
        raise InvalidConfig(f"{values['target']} is to be learned from itself.",
                            remedy="Leave it out of the features.", parameter="features", value=values["target"])


def train_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A model's."""
    for name in values["features"]:
        inputs.require_number(name, parameter="features")
    if values["kind"] in CLASSIFIERS:
        require_scalar(inputs, values["target"], parameter="target")
    else:
        inputs.require_number(values["target"], parameter="target")
    return Columns.stream({
        **kept_columns(inputs, values["by"] or ()), **dict(part.split() for part in _TRAINED.split(", "))})


def _key(values: Mapping[str, Any], *, added: Sequence[str]) -> list[str]:
    """The columns of the key; empty for one model of all events."""
    if not values["by"]:
        return []
    if values["model"] is not None:
        raise InvalidConfig("A model that the team keeps is one for all keys.", parameter="by",
                            remedy="Leave by or model out.")
    return key_columns(values["by"], added=added)


def _features(values: Mapping[str, Any]) -> Sequence[str]:
    features = list(values["features"])
    if not 0 < len(features) <= MOST_FEATURES or len(set(features)) < len(features):
        raise InvalidConfig(f"A model reads 1 to {MOST_FEATURES} features, each once.",
                            remedy="Name each column once.", parameter="features")
    return features


# predict -------------------------------------------------------------------------------------------------------------


def predict(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event with ``predicted``, the ``version`` of the model and what is wrong (``problem``, else null)."""
    values, inputs = settings(PREDICT, config), inputs.drop(STREAM_NUMBER)
    features, drops = _features(values), values["unpredicted"] == "drop"
    by = _key(values, added=(MODEL_COLUMN, *_PREDICTED))
    require_columns(inputs.columns, [*by, *features], task_type="predict", remedy="Name columns of the input.")
    adds = f"predicted {_predicted_type(values)}, version string, problem string"
    if values["model"] is not None:
        return _predicted_by_stored(inputs, values, features, adds)
    require_columns(inputs.columns, [MODEL_COLUMN], task_type="predict", remedy=_WHERE_MODELS_COME_FROM)
    columns_kept = [name for name in inputs.columns if name not in (*STREAM, MODEL_COLUMN, *_PREDICTED)]
    columns = _numbers(features)
    selected = inputs.select(*STREAM, MODEL_COLUMN, *by, packed(columns_kept).alias("_whole"), *[
        column.alias(name) for name, column in columns.items()])
    fold = Predictor(values["kind"], tuple(features), values["named"] or "", drops)
    folded = fold_stream(selected, fold, by=by, reads=[MODEL_COLUMN, *columns], kept=[*STREAM, "_whole"], added=adds)
    return folded.select(*STREAM, *unpacked("_whole", columns_kept, inputs.schema), "predicted", "version", "problem")


def _predicted_by_stored(
    inputs: DataFrame, values: Mapping[str, Any], features: Sequence[str], adds: str
) -> DataFrame:
    """By a model that the team keeps: each event for itself."""
    name, columns = values["model"], _numbers(features)
    model = ModelName(name[TEAM], name[NAME]) if is_owned(name) else ModelName("", str(name))
    source = StoredModel(model, values["version"] or "", values["kind"], float(values["refresh"]), broker_url())
    ask = predict_stored(source, tuple(features), drops=values["unpredicted"] == "drop")
    predicted = with_answers(inputs.withColumns(columns), task_type="predict", reads=list(columns), adds=adds, ask=ask,
                      nothing=(None, None, None), on_error="fail")
    return predicted.drop(*columns)


def _numbers(features: Sequence[str]) -> dict[str, Column]:
    """The features as numbers, under names of their own."""
    from pyspark.sql import functions as F

    return {f"_f{index}": F.col(feature).cast("double") for index, feature in enumerate(features)}


_WHERE_MODELS_COME_FROM = (
    "Let the stream of a train task enter it, too, or one with models in a column “model”; or name a model that the "
    "team keeps in the parameter model.")


def _predicted_type(values: Mapping[str, Any]) -> str:
    return "string" if values["kind"] in CLASSIFIERS else "double"


def predict_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(PREDICT, config)
    _key(values, added=(MODEL_COLUMN, *_PREDICTED))
    if MODEL_COLUMN in _features(values):
        raise InvalidConfig("The column model holds models, and no feature.", remedy="Rename it in a sql task before.",
                            parameter="features", value=MODEL_COLUMN)
    if values["version"] and not values["model"]:
        raise InvalidConfig("A version is of a model.", remedy="Name the model, too.", parameter="version")
    if values["named"] and values["model"]:
        raise InvalidConfig("Models come from one place.", remedy="Give model, or named.", parameter="named")


def predict_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's without the models, and what is predicted."""
    for name in values["features"]:
        inputs.require_number(name, parameter="features")
    added = dict(zip(_PREDICTED, (_predicted_type(values), "string", "string"), strict=True))
    if values["model"] is not None:
        return inputs.renewed(added)
    kind = inputs.require(MODEL_COLUMN, remedy=_WHERE_MODELS_COME_FROM)
    if kind not in ("string", None):
        raise WrongColumnType(f"The column model is {kind}; models are text.", remedy=_WHERE_MODELS_COME_FROM,
                              column=MODEL_COLUMN, type=kind)
    columns_kept = {name: kind for name, kind in inputs.types.items() if name not in (*STREAM, MODEL_COLUMN, *added)}
    return Columns({**{name: "bigint" for name in STREAM}, **columns_kept, **added}, inputs.complete)


# error_estimate ------------------------------------------------------------------------------------------------------


def error_estimate(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a prediction: ``actual``, ``expected``, ``average``, ``error``, ``relative`` and ``mean``."""
    from pyspark.sql import functions as F

    values = settings(ERROR_ESTIMATE, config)
    names = [values["average"], values["predicted"], values["actual"]]
    require_columns(inputs.columns, names, task_type="error_estimate", remedy="Name columns of the inputs.")
    selected = inputs.select(*STREAM, *[
        F.col(name).cast("double").alias(f"_{index}") for index, name in enumerate(names)])
    return fold_stream(selected, ErrorEstimator(values["window"]), by=[], reads=["_0", "_1", "_2"], kept=[*STREAM],
                       added=_ERRORS)


def error_estimate_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """An error's."""
    for name in ("average", "predicted", "actual"):
        inputs.require_number(values[name], parameter=name)
    return Columns.stream(dict(part.split() for part in _ERRORS.split(", ")))
