"""Bounds: how much may come in, of everything that enters, each in one place.

What refuses takes its number from here, and `docs/security.md` has the table of them all, which a test holds to this.
A bound with a setting is the default of that setting.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputBound:
    """A bound of an input: the counted quantity, its limit, and the treatment of more.

    Parameters
    ----------
    most : int
        The largest amount that is let in, counted in ``what``; a larger one gets ``answer``.
    setting : str
        The variable of the environment that changes it, in multiples of ``scale``; empty: it is fixed.
    """

    entry: str
    what: str
    most: int
    answer: str
    setting: str = ""
    scale: int = 1

    @property
    def default(self) -> str:
        """The setting's default, as text."""
        return str(self.most // self.scale)


_KB, _MB = 1024, 1024 * 1024
_REQUEST, _LIVE, _TEXT, _SQL = "a request", "`/ws/live`", "a document", "`sql`, `join`"
_STREAM, _EVENTS, _FILE = "columns of a stream", "a message of events", "a file of events"

# Connections and requests ------------------------------------------------------------------------------------------
CONNECTIONS = InputBound(
    "a connection", "connections of a server process", 2_000, "503 with `Retry-After`, and the end",
                    "WEIR_CONNECTIONS")
HEADER_WAIT = InputBound("a connection", "seconds until a request's headers are there", 10, "408, and the end",
                    "WEIR_HEADER_WAIT_S")
ANSWER_WAIT = InputBound("a connection", "seconds in which a client takes nothing of an answer", 60, "the end")
REQUEST_HEADERS = InputBound(_REQUEST, "bytes of its first line and headers, or of its trailers", 64 * _KB,
                        "431, and the end")
BODY_WAIT = InputBound(_REQUEST, "seconds until its body is there", 60, "408 `too_slow`", "WEIR_BODY_WAIT_S")
ANONYMOUS_BODY = InputBound(_REQUEST, "bytes of its body, without a session or token that is good", 64 * _KB,
                       "413 `too_large`", "WEIR_ANONYMOUS_KB", _KB)
REQUEST_BODY = InputBound(_REQUEST, "bytes of its body", _MB + 64 * _KB, "413 `too_large`")
REQUEST_FIELDS = InputBound(_REQUEST, "fields of a form", 200, "400 `bad_input`")
REQUEST_FILES = InputBound(_REQUEST, "files of a form", 4, "400 `bad_input`")
INGEST_BODY = InputBound("`POST /ingest/…`", "bytes of its body", 8 * _MB, "413 `too_large`", "WEIR_INGEST_MB", _MB)
INGEST_KEY = InputBound("`POST /ingest/…`", "characters of an idempotency key", 200, "400 `bad_input`")

# Live connections --------------------------------------------------------------------------------------------------
LIVE_CONNECTIONS = InputBound(_LIVE, "connections of a user, of a server process", 40, "close code 4429",
                         "WEIR_LIVE_CONNECTIONS")
LIVE_FRAME = InputBound(_LIVE, "bytes of a frame", 16 * _KB, "close code 1009")
LIVE_MESSAGE = InputBound(_LIVE, "characters of a message", 4_096, "a message of type `error`")
LIVE_MESSAGES = InputBound(_LIVE, "messages of a connection in ten seconds", 200, "close code 4429")
LIVE_FRAMES = InputBound(_LIVE, "pings, pongs and parts of messages of a connection in ten seconds, and parts of a "
                         "message", 1_000, "the end")
LIVE_TOPICS = InputBound(_LIVE, "topics of a connection", 8, "a message of type `error`")

# Documents ---------------------------------------------------------------------------------------------------------
DOCUMENT_BYTES = InputBound(_TEXT, "bytes", _MB, "`too_large`")
DOCUMENT_VALUES = InputBound(_TEXT, "values, with aliases expanded", 200_000, "`too_many_values`")
DOCUMENT_CHARACTERS = InputBound(_TEXT, "characters, with aliases expanded", 2 * _MB, "`too_many_values`")
DOCUMENT_DEPTH = InputBound(_TEXT, "levels of lists and mappings", 32, "`too_deep`")
DOCUMENT_TASKS = InputBound(_TEXT, "tasks", 2_000, "`too_many_tasks`")
DOCUMENT_STREAMS = InputBound(_TEXT, "streams", 20_000, "`too_many_streams`")
PATH_TASKS = InputBound(_TEXT, "tasks of a path, or of a loop", 50, "`too_many_tasks`")
PATH_STATES = InputBound(_TEXT, "tasks of a path that keep state", 8, "`too_many_tasks`")
LOOP_ITERATIONS = InputBound(_TEXT, "iterations of a loop", 100, "`out_of_range`")
TYPE_CHARACTERS = InputBound(_STREAM, "characters of a column's type", 10_000, "`types_too_long`")
STREAM_COLUMNS = InputBound(_STREAM, "columns", 2_000, "`types_too_long`")
STREAM_CHARACTERS = InputBound(_STREAM, "characters of all its columns' names and types", 100_000, "`types_too_long`")
DOCUMENT_TYPES = InputBound(_TEXT, "characters of the columns that its tasks read and give, their names and types",
                       8_000_000, "`types_too_long`")
DYNAMIC_TASKS = InputBound(_TEXT, "dynamic tasks", 100, "`too_many_dynamic_tasks`")
DOCUMENT_QUERIES = InputBound(_TEXT, "characters of all its queries, conditions and guards, with aliases expanded",
                         100_000, "`too_long`")
QUERY_CHARACTERS = InputBound(_SQL, "characters of a query or condition", 20_000, "`invalid_config`")
QUERY_LEVELS = InputBound(_SQL, "levels of expressions", 80, "`invalid_config`")
PARSER_STEPS = InputBound("`sql`, `join`, `sql_lookup`, a guard", "steps of the parser for each word and sign", 30,
                     "`invalid_config` or `invalid_guard`")
SPARK_CHARACTERS = InputBound(_SQL, "characters of an expression for Spark", 200_000, "`invalid_config`")
RESULT_BYTES = InputBound(_SQL, "bytes that a query makes of one event", 64 * _MB,
                     "`invalid_config` where the query tells it, or the query fails and is not tried again")
PATTERN_CHARACTERS = InputBound(_SQL, "characters of a pattern", 1_000, "`invalid_config`")
MATCHING_STEPS = InputBound(_SQL, "steps that all patterns of a query take to match one event", 1_000_000_000,
                       "the query fails and is not tried again")

# Guards --------------------------------------------------------------------------------------------------------------
GUARD_CHARACTERS = InputBound("a guard", "characters", 4_000, "`invalid_guard`")
GUARD_LEVELS = InputBound("a guard", "levels of expressions", 80, "`invalid_guard`")
GUARD_PARTS = InputBound("a dynamic task", "parts of all its guards and value functions, BETWEEN and IN written out",
                    4_000, "`invalid_guard`")
GUARD_WORDS = InputBound("a dynamic task", "different temporal words of all its guards and value functions", 32,
                    "`invalid_guard`")
GUARD_STREAMS = InputBound("a dynamic task", "streams that all its guards and value functions name, and other "
                    "dataflows", 32, "`invalid_guard`")
KEYS_BY_HAND = InputBound("a dynamic task", "keys whose alternates are set by hand at a time", 100,
                    "409 `too_many_keys`")

# Work that a worker does for somebody ---------------------------------------------------------------------------------
SIMULATED_TASKS = InputBound("`POST …/simulations`", "tasks of the dataflow", 200, "422 `invalid_simulation`")
SIMULATED_CORES = InputBound("`POST …/simulations`", "cores that its highest load takes", 2_000,
                             "a simulation that fails and says so")

# Events --------------------------------------------------------------------------------------------------------------
INGEST_EVENTS = InputBound("`POST /ingest/…`", "events, once decoded", 250_000, "413 `too_large`", "WEIR_INGEST_EVENTS")
MESSAGE_EVENTS = InputBound(_EVENTS, "events, once decoded", 250_000, "a dead letter")
MESSAGE_VALUES = InputBound(_EVENTS, "values of JSON, Arrow or Avro, those in lists and records, too", 2_500_000,
                       "413 `too_large`, or a dead letter")
MESSAGE_BYTES = InputBound(_EVENTS, "bytes of Arrow, once decoded", 64 * _MB, "413 `too_large`, or a dead letter")
ARROW_SCHEMA = InputBound(_EVENTS, "bytes of a schema of Arrow, once each of its fields is made", 32 * _MB,
                          "413 `too_large`, or a dead letter")
DECIMAL_BYTES = InputBound(_EVENTS, "bytes of a decimal of Avro", 256, "a dead letter")
MESSAGE_DEPTH = InputBound(_EVENTS, "levels of lists and records in a value", 64, "a dead letter")
_CLUSTER, _REFUSED = "a cluster of Kafka", "the source or sink says so, and is tried again"
CLUSTER_SERVERS = InputBound(_CLUSTER, "servers that it says it has", 500, _REFUSED)
CLUSTER_BYTES = InputBound(_CLUSTER, "bytes of what it says of a source's topic", _MB, _REFUSED)
CLUSTER_TOPICS = InputBound(_CLUSTER, "bytes of what it says to a sink of all its topics", 8 * _MB, _REFUSED)
PACKET_BYTES = InputBound("a message of Kafka or MQTT, a row of PostgreSQL", "bytes, once decompressed", 64 * _MB,
                    "a dead letter")
CONTROL_BYTES = InputBound("a packet of MQTT that brings no message", "bytes", 8 * _KB,
                     "the connection ends, and is tried again")
LOOK_MEMORY = InputBound("a look at a source", "bytes of memory of its process", 1024 * _MB,
                    "`look_too_large`: the look ends")
POLL_EVENTS = InputBound("messages that come together", "events, once decoded", 1_000_000,
                    "a dead letter for the message that is beyond")
DEAD_LETTERS = InputBound("messages that come together", "dead letters that are kept of them", 1_000,
                     "the newest are kept, all are counted")
FILE_RECORD = InputBound(_FILE, "bytes of a line, of a record of CSV, or of a file that is one message", 8 * _MB,
                    "a dead letter")
FILE_LINES = InputBound(_FILE, "lines of a record of CSV", 1_000, "its first line is a dead letter")
FILE_VALUES = InputBound(_FILE, "values of a batch of Arrow, or of lists of a group of rows of Parquet",
                    20_000_000, "the rest of the file, or the group, is a dead letter")
FILE_BYTES = InputBound(_FILE, "bytes of a batch of Arrow or Parquet, or of a page of Parquet, once decoded", 256 * _MB,
                   "the rest of the file, or the group, is a dead letter")
FILE_FIXED = InputBound(_FILE, "bytes of a value of fixed length in Parquet", 1024, "the group is a dead letter")
FILE_FOOTER = InputBound(_FILE, "bytes of a footer of Parquet", 8 * _MB, "a dead letter")
FILE_ITEMS = InputBound(_FILE, "fields, columns' parts and other items that a footer of Parquet lists", 250_000,
                        "a dead letter")
FILE_GROUP = InputBound(_FILE, "bytes of a group of rows of Parquet, as they are stored, of the columns that are read",
                        512 * _MB, "the group is a dead letter")

BOUNDS: dict[str, InputBound] = {
    name: value for name, value in list(globals().items()) if isinstance(value, InputBound)}


def table() -> str:
    """All bounds as a table in Markdown."""
    rows = [
        f"| {bound.entry} | {bound.what} | {bound.most:,} | {bound.answer} | "
        f"{f'`{bound.setting}`' if bound.setting else 'fixed'} |" for bound in BOUNDS.values()]
    return "\n".join(["| where | what is counted | most | who sends more gets | setting |",
                      "|---|---|---|---|---|", *rows])
