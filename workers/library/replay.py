"""The source that replays recorded events from a file or a folder."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

REPLAY = TaskType(
    name="replay", kind="source", family="source",
    doc="Replays recorded events from a file or a folder of SenML, CSV, JSON lines, XML lines or Parquet.",
    build="workers.library.replay:replay",
    parameters=(
        Parameter("path", "string", "File or folder, relative to a replay folder of the installation.", required=True,
                  pattern=r"[^/\\].*"),
        Parameter("format", "string", "How the file is written; auto looks at its name and first line.",
                  default="auto", choices=("auto", "senml", "csv", "json", "xml", "parquet")),
        Parameter("speed", "number", "Times its own speed, by the recorded times; without it, at the source's rate.",
                  minimum=0.001, maximum=1_000_000),
        Parameter("repeat", "boolean", "Start again at the end, recorded times moved on; otherwise the stream ends.",
                  default=False),
        Parameter("time_column", "string",
                  "Column or field that holds the recorded time (ms or s since the epoch, or ISO 8601); "
                  "SenML brings its own. Without one the time of emission counts."),
    ),
    cost_us=8,
)

TASK_TYPES = (REPLAY,)
