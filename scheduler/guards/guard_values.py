"""Values of guards: figures that they may name, events that bring them, alternates that they switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from ..model.errors import WeirError

NUMBER, TEXT, TRUTH = "number", "text", "truth"
FigureValue = float | str | bool | None
ACTIVATION, VALUE = "activation", "value"  # kinds of elements: exactly one guard is true; the best that is allowed


class InvalidGuard(WeirError):
    """A guard cannot be one; ``facts`` has its text, and the line and column (from 1) of what is wrong."""

    code = "invalid_guard"


@dataclass(frozen=True, slots=True)
class GuardCatalog:
    """The names that guards may use.

    Parameters
    ----------
    streams : mapping of str to mapping of str to str
        By stream: its figures, each with its kind (``NUMBER``, ``TEXT``, ``TRUTH``). The figures of the dataflow itself
        are those of the stream ``""`` and are named alone, others as ``stream.figure``.
    calendars : mapping of str to frozenset of date
        Days by name, such as holidays.
    hint : str
        A second remedy for an unknown figure, besides naming a known one.
    figure_noun : str
        The noun for its figures in errors.
    """

    streams: Mapping[str, Mapping[str, str]]
    calendars: Mapping[str, frozenset[date]] = field(default_factory=dict)
    hint: str = ""
    figure_noun: str = "figure"

    def kind_of(self, name: str) -> str | None:
        """The kind of a figure by its whole name; None where there is none."""
        stream, _, figure = name.rpartition(".")
        return self.streams.get(stream, {}).get(figure)

    def names(self) -> Iterator[str]:
        """The whole names of all figures."""
        for stream, figures in self.streams.items():
            yield from (f"{stream}.{figure}" if stream else figure for figure in figures)


@dataclass(frozen=True, slots=True)
class GuardEvent:
    """The new values at a moment (ms since the epoch): new values of figures of one stream.

    Figures of the stream that it does not name keep their values; None says that a value is not known any more.
    """

    at_ms: int
    stream: str
    values: Mapping[str, FigureValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardedAlternate:
    """One way to do what an element does.

    Parameters
    ----------
    guard : str
        A condition. Empty: of activation guards *otherwise*, on where no other is; of value-based guards *always*.
    value : float or str
        Its worth, from 0 on: a number, or the text of a value function over figures.
    """

    name: str
    guard: str = ""
    value: float | str = 1.0


@dataclass(frozen=True, slots=True)
class GuardedElement:
    """A dynamic element as guards see it: a name, alternates in the order of the document, the kind of its guards."""

    name: str
    alternates: tuple[GuardedAlternate, ...]
    kind: str = ACTIVATION
