"""What a slot answers its agent about a trial, as the agent takes it: finite figures, and no more than there can be.

The slot runs the task that is measured: who breaks out of its code answers what it likes. The figures become a profile,
by which all teams' dataflows are planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.contracts.codec import Codec, InvalidContract
from scheduler.contracts.moments import LATEST_MS
from scheduler.contracts.trials import MOST_NUMBER
from workers.engine.trial_store import TrialFailed

from .trial_figures import TrialBatch

MOST_BATCHES = 1_000  # of one look: a slot is looked at twice a second
MOST_NAME = 200  # characters of a code or a version
MOST_TEXT = 10_000  # characters of what it says in words, which is cut
MOST_HEAP_MB = 2**30
LATEST_S = LATEST_MS / 1000


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """An answer of a slot to one command of a trial; fields that the command has no answer to have their defaults.

    ``code`` is the digest of the task type's code, or where it is not ``ok`` why, as in `TrialResult`.
    """

    ok: bool
    code: str = ""
    message: str = ""
    remedy: str = ""
    fence: int = 0
    heap_mb: float = 0.0
    java: str = ""
    pyspark: str = ""
    batches: tuple[TrialBatch, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.heap_mb <= MOST_HEAP_MB:  # nor NaN
            raise ValueError(f"a heap of {self.heap_mb:g} MiB is none")
        if any(len(name) > MOST_NAME for name in (self.code, self.java, self.pyspark)):
            raise ValueError(f"a code or a version has more than {MOST_NAME} characters")
        if len(self.batches) > MOST_BATCHES:
            raise ValueError(f"{len(self.batches)} batches at once are more than the {MOST_BATCHES} that there can be")
        for batch in self.batches:
            _require_batch(batch)


_ANSWERS = Codec(HostAnswer)


def answer_of(message: Mapping[str, Any], *, command: str) -> HostAnswer:
    """The answer of a slot to a command.

    Raises
    ------
    TrialFailed
        It is no such answer, or says that the command failed.
    """
    try:
        answer = _ANSWERS.read(message)
    except InvalidContract as error:
        raise TrialFailed(
            "unreadable_result", f"The slot's answer to {command!r} cannot be read: {str(error)[:MOST_TEXT]}",
            remedy="Measure again on another slot. Where it comes again, look at the task's code: an honest driver "
            "answers nothing like it.") from None
    if not answer.ok:
        raise TrialFailed(answer.code, answer.message[:MOST_TEXT], remedy=answer.remedy[:MOST_TEXT])
    return answer


def _require_batch(batch: TrialBatch) -> None:
    moments = [moment for moment in (batch.planned_s, batch.ended_s, batch.born_s) if moment is not None]
    if not all(-LATEST_S <= moment <= LATEST_S for moment in moments):  # NaN is not
        raise ValueError("a batch was planned, ended or born at no moment that there is")
    if not all(0 <= count <= MOST_NUMBER for count in (batch.events_in, batch.events_out)):
        raise ValueError(f"a batch has fewer than 0 events, or more than {MOST_NUMBER}")
