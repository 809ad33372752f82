"""Errors that carry a code, the facts and the remedy; one place of the site turns them into HTTP."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


class WeirError(Exception):
    """An error that a user can act on.

    Subclasses set ``code`` (stable, snake_case) and build ``message`` and ``remedy`` from keyword facts.
    """

    code = "error"

    def __init__(self, message: str, *, remedy: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.facts = facts

    @property
    def full_message(self) -> str:
        """The message and the remedy, as sentences."""
        return " ".join(part if part[-1] in ".?!" else f"{part}." for part in (self.message, self.remedy) if part)

    def as_dict(self) -> dict[str, object]:
        """The one JSON shape of an error: code, message, remedy, facts."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy, "facts": self.facts}


class NotFound(WeirError):
    """No record of that name is there, or the reader may not know of it."""

    code = "not_found"


class PermissionDenied(WeirError):
    """The actor's role does not allow this."""

    code = "permission_denied"


class InvalidTransition(WeirError):
    """A state machine's table has no such move."""

    code = "invalid_transition"


class StalePlan(WeirError):
    """The estate moved on since the plan was computed."""

    code = "stale_plan"


class AlreadySubmitted(WeirError):
    """A dataflow of that id is in the estate."""

    code = "already_submitted"


class NotSubmitted(NotFound):
    """No dataflow of that id is in the estate."""

    code = "not_submitted"


class NotPaused(WeirError):
    """A dataflow is to go on that was not paused, or to be paused that is so already."""

    code = "not_paused"


class NothingToGain(WeirError):
    """A dataflow's queries are as few as they can be, or fusing them disturbs more than it gains."""

    code = "nothing_to_gain"


class NothingToChange(WeirError):
    """The requested state is in force already."""

    code = "nothing_to_change"


class NotEnactable(WeirError):
    """A schedule asks of what runs what cannot be done while it runs."""

    code = "not_enactable"


class NoSlots(WeirError):
    """No slot is there for the fragments to start."""

    code = "no_slots"


class UnknownTaskType(WeirError):
    """A dataflow names a task type that is no longer installed."""

    code = "unknown_task_type"


class AlteredPlan(WeirError):
    """A stored plan does not have the digest that it was frozen with."""

    code = "altered_plan"


class MissingProfile(WeirError):
    """A task is to be scheduled and no profile of its type is in use."""

    code = "missing_profile"


class InvalidProfile(WeirError):
    """A profile says what cannot be; ``facts["problems"]`` places each in a file, where it came from one."""

    code = "invalid_profile"


class RateNotHeld(WeirError):
    """A rate is more than a slot can hold, with any number of threads that was measured."""

    code = "rate_not_held"


class InvalidResources(WeirError):
    """A machine without slots, a price below zero, a rate that is no rate."""

    code = "invalid_resources"


class InsufficientSlots(WeirError):
    """A mapping needs more slots than there are or may be bought."""

    code = "insufficient_slots"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a submitted document: where, what, and what would be right.

    ``line`` and ``column`` are 1-based and None where the document has no text (an API value);
    ``path`` is a JSON pointer (``/tasks/3/config/window``).
    """

    code: str
    message: str
    remedy: str
    path: str = ""
    line: int | None = None
    column: int | None = None
    task_id: str | None = None


@dataclass(slots=True, eq=False)  # an exception stays hashable
class InvalidDataflow(WeirError):
    """A submitted document has problems; all of them are listed, in document order."""

    problems: tuple[Problem, ...] = ()
    suggestion: str | None = None  # a corrected document, where one can be made (a de-duplicated dataflow)
    facts: dict[str, object] = field(default_factory=dict)

    code = "invalid_dataflow"

    def __post_init__(self) -> None:
        count = len(self.problems)
        self.message = f"{count} problem{'s' if count != 1 else ''} in the dataflow"
        self.remedy = "Correct the places listed and submit again; nothing was stored."
        Exception.__init__(self, self.message)

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code, "message": self.message, "remedy": self.remedy,
            "problems": [asdict(problem) for problem in self.problems], "suggestion": self.suggestion,
        }
