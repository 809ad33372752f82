"""The declaration of a task type: its parameters, state, key, selectivity, cost and schema.

The declaration is Spark-free, so that validation and planning can read it; ``build`` names the callable on
DataFrames that ``workers`` resolves when a slot compiles a fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .dataflow import Dataflow
from .errors import UnknownTaskType

Kind = Literal["source", "transform", "sink"]
ParameterType = Literal["string", "integer", "number", "boolean", "list", "object"]
Near = Literal["ratio", "any", "never"]
Effect = Literal["network", "database", "files", "code"]
DYNAMIC = "dynamic"  # the type of tasks with alternates, which every catalogue has
PATH = "path"  # the type of alternates of several tasks, which every catalogue has
SWITCHING = "switching"  # its parameter: `fast`, or
WAVE = "wave"
DYNAMIC_FOLD = "dynamic_fold"  # the type of tasks whose alternates keep state
NEAR_RATIO = 0.2  # relative difference up to which two numbers are near


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter of a task type.

    ``minimum``/``maximum`` bound numbers and integers; ``choices`` closes a string's values;
    ``items`` types a list's elements; ``pattern`` is a regular expression that a whole string must match, and
    ``pattern_words`` say to people what it lets pass: "host or host:port".
    A parameter without ``default`` is required unless ``required`` is False.

    What makes two spellings one value, and nothing else does:

    - ``unit``, of numbers and integers: the value counts in it, and may be written as text in any unit like it (30,
      "30 s", "0.5 min").
    - ``is_set``, of lists: order and repetitions don't count.
    - ``bounds``, of objects: each value is a list of two numbers, lowest and highest; their form doesn't count.

    ``is_file`` says that the value names a file or folder of the node that the task runs on, where it is no address
    (``s3://…``): what has one stays there.

    ``column`` says that the value (or each element of a list) names a column of the input (``names``), which is checked
    before anything runs, or may hold such names within it (``within``); an editor completes both.

    ``form`` gives a value its one form, by which it is compared: a pure function that takes its own results as they
    are, and gives back what it cannot read.

    ``added`` says that tasks of this version of the type ran before it had the parameter, which does at its default
    what they did: the default is then no part of a canonical config, so that those tasks stay the ones that they are.

    ``of_team`` says that the value is the name of something that belongs to the team that submits (a model): planning
    adds the team, so that two teams' tasks with one name are two.

    A ``secret`` is never written but named, ``{"secret": "name"}``, and known only to the slot that runs the task.

    An ``expression`` is text that the slot's Spark computes for each event, in a language with functions. That and a
    ``query`` of another system take a parser, so that a document may have only so much of them.

    Of a list of alternates (`scheduler.model.alternates`) ``alternate_types`` are the types that they may have.

    ``near`` says which other values a suggestion may offer in this one's place: ``ratio``, those whose relative
    difference is at most ``near_ratio`` (of a set: the share of elements that only one of the two has; of bounds: of
    each bound, against the interval's length); ``any``; or ``never``. Where it is not said, numbers are near by ratio,
    and nothing else is.
    """

    name: str
    type: ParameterType
    doc: str
    default: Any = None
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    items: ParameterType | None = None
    pattern: str | None = None
    pattern_words: str = ""
    unit: str | None = None
    is_set: bool = False
    bounds: bool = False
    secret: bool = False
    of_team: bool = False
    added: bool = False
    near: Near | None = None
    near_ratio: float = NEAR_RATIO
    column: Literal["names", "within"] | None = None
    is_file: bool = False
    form: Callable[[Any], Any] | None = None
    expression: bool = False
    query: bool = False
    alternate_types: Mapping[str, TaskType] | None = field(default=None, compare=False, repr=False)

    @property
    def nearness(self) -> Near:
        """``near``, or its default."""
        if self.near is None:
            return "ratio" if self.type in ("number", "integer") else "never"
        return self.near


@dataclass(frozen=True, slots=True)
class TaskType:
    """A task type: name, kind, parameters and how it behaves.

    ``build`` is ``"package.module:function"``, a callable ``(inputs: DataFrame, config: Mapping) -> DataFrame``. The
    function beside it of that name and ``_columns``, ``(inputs: Columns, config: Mapping) -> Columns``, gives the
    columns of its output without Spark (``scheduler.model.columns``); without one they are unknown.
    A source's ``inputs`` are ticks (``_seq``, ``_time``, ``_born``); see ``docs/task_types.md``.
    ``cost_us`` is a first guess of CPU microseconds for each input event, until a profile is measured.
    ``terminal`` says how a sink leaves Spark: ``output`` (a named output in the broker), ``parquet`` or ``json``
    (files), or ``connector``: a channel that the node's connector host reads. It is then written to another system by
    ``writer``, ``"package.module:function"`` (see ``workers.engine.sinks``).
    ``chain: never`` gives a task a query of its own, so that one that is away, or fails, holds up nobody who needs what
    is before it.
    ``movable_state`` says of a stateful type that all its state goes through ``workers.library.state.fold_stream``: it
    can then be handed from one query to another, as that of windows, ``dropDuplicates`` and the like cannot.
    ``shares_state`` of a type with movable state: tasks of it that differ in these parameters at most keep the same
    state, and read and write the same columns around it, so that one goes on with what another has kept.
    ``by_key`` says of a stateful type that the results of a key follow from that key's events alone, in their order: a
    schedule may divide it over bundles that have some keys each. ``passes_key`` says that a result has the columns of
    the key as its event had them, so that what reads it gets the events of a key in their order.
    ``by_marks`` says of such a type that results follow from the marks of partitions, too, which whoever divides its
    stream tells each bundle (``workers.library.watermarks``): it names the parameter that says how many seconds ahead
    of its arrival an event may move one. Where a config has the parameter ``across_keys``, keys decide for each other.
    ``several_streams`` says of such a type that it brings streams together, and that only the order within each of them
    is given: it gets the number of each event's stream (``watermarks.STREAM_NUMBER``), and may be divided by key only
    where it reads several.
    ``opens`` says that the batches of a query of such tasks may stay open, whatever their config: an event goes through
    without Python, or its state is kept by the slot's fold host. Of a type that does not say so a slot finds out.
    ``has_long_steps`` says that a batch of its fold takes long: it is worked on in the query, not at the slot's fold
    host, where the folds of other queries would wait.
    ``title`` is what pages call the type where people choose among kinds of sources and targets; else its name.
    ``version`` changes when the logic changes: it is part of a task's identity.
    ``connector`` makes a source live: ``"package.module:function"``, which opens what it reads (see
    ``workers.engine.connectors``). Its ``inputs`` are then the events that the node's connector host has written, and
    its rate is what comes, which is no part of its identity. It goes along where its task moves to another node, unless
    it ``keeps_on_node`` what it needs to read on.

    ``effects`` names what a task of this type reaches beyond Weir: ``network``, ``database``, ``files`` (other than the
    replay folders, which it reads, and the data folder's outputs) or ``code`` that its config names. A type without any
    says so by an empty tuple. One that does not say (None) counts as having some: it runs only as it was approved.
    """

    name: str
    kind: Kind
    doc: str
    build: str
    parameters: tuple[Parameter, ...] = ()
    family: str = ""
    stateful: bool = False
    key: str | None = None
    selectivity: float = 1.0
    cost_us: float = 5.0
    chain: Literal["always", "never"] = "always"
    terminal: Literal["output", "parquet", "json", "connector"] | None = None
    version: int = 1
    movable_state: bool = False
    by_key: bool = False
    passes_key: bool = False
    by_marks: str | None = None
    across_keys: str | None = None
    several_streams: bool = False
    opens: bool = False
    has_long_steps: bool = False
    title: str = ""
    connector: str | None = None
    writer: str | None = None
    keeps_on_node: bool = False
    effects: tuple[Effect, ...] | None = None
    shares_state: tuple[str, ...] | None = None

    @property
    def approved_only(self) -> bool:
        """True if a task of this type runs only with a config that reviewers have approved, in their dataflow: it has
        outside effects, or does not say that it has none, or takes a secret."""
        return self.effects is None or bool(self.effects) or any(parameter.secret for parameter in self.parameters)

    @property
    def has_expressions(self) -> bool:
        """True if configs of this type hold expressions, which approvers look at before a slot computes them."""
        return any(parameter.expression for parameter in self.parameters)

    @property
    def can_move(self) -> bool:
        """True if a running task of this type can go on in another query: chains are fused and cut only then."""
        return self.movable_state or not self.stateful

    def key_columns(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """The columns of the key by which a task of this type and config keeps state."""
        named = self.parameter(self.key or "")
        if named is None:
            return tuple((self.key or "").split(", "))
        return tuple(config.get(named.name, named.default) or ())

    def ahead_ms(self, config: Mapping[str, Any]) -> int | None:
        """The time by which an event may move its partition's mark ahead of its arrival, in ms; None where marks do not
        count."""
        named = self.parameter(self.by_marks or "")
        return None if named is None else round(1000 * float(config.get(named.name, named.default) or 0))

    def parameter(self, name: str) -> Parameter | None:
        """The declared parameter of that name, or None."""
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


class TaskTypes(Mapping[str, TaskType]):
    """The catalogue of task types by name; read-only.

    It has the types of dynamic tasks and of paths, too, and does not list them: no document names them.
    """

    def __init__(self, task_types: Sequence[TaskType]) -> None:
        self._by_name = {task_type.name: task_type for task_type in task_types}
        alternates_parameter = Parameter(
            "alternates", "list", "The ways to do it.", required=True, alternate_types=self)
        guards = Parameter("guards", "string", "Of which kind guards are.", default="value", added=True)
        switching = Parameter(SWITCHING, "string", "Whether it switches as soon as it can, or in waves.",
                              default="fast", choices=("fast", WAVE), added=True)
        begin = Parameter("begin", "string", "With what state an alternate that is switched on begins.", required=True,
                          choices=("fresh", "shared"))
        by = Parameter("by", "list", "The key by which they are switched.", default=[], items="string", is_set=True)
        by_key = replace(by, added=True)
        learned = Parameter("learned", "object", "How a learned guard chooses for each key.", required=False)
        warm = Parameter("warm", "number", "For how long one warms up before it is on.", default=0, minimum=0,
                         unit="s", added=True)
        build = "workers.library.dynamic:dynamic"
        self._unlisted = {
            DYNAMIC: TaskType(
                DYNAMIC, "transform", "A task with alternates, of which one is on.", build,
                (alternates_parameter, guards, switching, by_key), effects=()),
            DYNAMIC_FOLD: TaskType(
                DYNAMIC_FOLD, "transform", "A task with alternates that keep state.", build,
                (alternates_parameter, guards, switching, begin, by, learned, warm), effects=(), stateful=True,
                movable_state=True),
            PATH: TaskType(
                PATH, "transform", "An alternate of several tasks.", "workers.library.dynamic:path",
                (Parameter("tasks", "list", "What works on it.", required=True),
                 Parameter("streams", "list", "What joins them.", required=True)), effects=())}

    def __getitem__(self, name: str) -> TaskType:
        return self._unlisted.get(name) or self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._unlisted or name in self._by_name

    def __iter__(self):
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def require_types(dataflow: Dataflow, *, task_types: TaskTypes) -> None:
    """Raise ``UnknownTaskType`` for a dataflow with a task whose type is not installed."""
    for task in dataflow.tasks:
        if task.type not in task_types:
            raise UnknownTaskType(
                f"Task type {task.type} of task {task.id} is not installed",
                remedy="Install the package that brings it, or submit the dataflow with another type.", task=task.id,
            )
