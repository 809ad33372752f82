"""A dry run: what guards would have done over recorded history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from .element_watch import ElementSwitch, ElementWatch, state_with
from .guard_compiling import compile_element
from .guard_values import GuardCatalog, GuardedElement, GuardEvent

SHOWN = 20  # switches that the text tells one by one


@dataclass(frozen=True, slots=True)
class GuardDryRun:
    """The choices that an element would have made.

    Parameters
    ----------
    changes : tuple of ElementSwitch
        In order: which alternate was on at first, each switch, and where trouble with guards began and ended.
    on_ms : mapping
        The time that each alternate was on, in ms.
    late : int
        Events that were older than the newest of their stream.
    """

    element: str
    begin_ms: int
    end_ms: int
    changes: tuple[ElementSwitch, ...]
    on_ms: Mapping[str, int]
    late: int

    @property
    def switches(self) -> tuple[ElementSwitch, ...]:
        """The changes from one alternate to another."""
        return tuple(change for change in self.changes if change.is_switch)

    @property
    def advice(self) -> str:
        """The advice where it would have switched too often; else empty."""
        return next((change.advice for change in self.changes if change.advice), "")

    @property
    def text(self) -> str:
        """The dry run in sentences: how often, when, why."""
        count = len(self.switches)
        lines = [f"It would have switched {count} time{'' if count == 1 else 's'}{':' if count else '.'}"]
        lines += [f"at {_at(change.at_ms)} from {change.before} to {change.choice.alternate}, because {change.because}"
                  for change in self.switches[:SHOWN]]
        if count > SHOWN:
            lines.append(f"and {count - SHOWN} times more")
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)


def dry_run(
    element: GuardedElement, catalog: GuardCatalog, events: Iterable[GuardEvent], *, begin_ms: int, end_ms: int,
    on: str = "",
    observe: Callable[[ElementWatch, int], None] = lambda watch, at_ms: None,
) -> GuardDryRun:
    """Evaluate an element's guards over events of the past, in the order in which they became known.

    Parameters
    ----------
    begin_ms, end_ms : int
        The time that it is for, in ms since the epoch. Earlier events make windows and figures known and count for
        nothing else; later ones are left out.
    on : str, optional
        The alternate that is on before the first event; without it guards say so while nothing is known.
    observe : callable, optional
        Told at each moment, in ms since the epoch, of the element as it is then (`guard_traces.GuardTracer`).
    """
    compiled = compile_element(element, catalog)
    watch: ElementWatch | None = None
    changes: list[ElementSwitch] = []
    now_ms = begin_ms
    for event in events:
        if watch is None:
            now_ms = min(event.at_ms, begin_ms)
            watch = ElementWatch(compiled, now_ms, state=state_with(on, event) if on else None)
            changes += watch.begun
        now_ms = max(now_ms, event.at_ms)
        if now_ms > end_ms:
            break
        changes += _passed(watch, now_ms, observe)
        changes += watch.take(event, now_ms)
        observe(watch, now_ms)
    if watch is None:
        watch = ElementWatch(compiled, begin_ms, state=state_with(on, GuardEvent(begin_ms, "")) if on else None)
        changes += watch.begun
    changes += _passed(watch, end_ms, observe)
    before = [change for change in changes if change.at_ms < begin_ms]
    within = [change for change in changes if change.at_ms >= begin_ms]
    first = before[-1].choice.alternate if before else on or changes[0].choice.alternate
    return GuardDryRun(element.name, begin_ms, end_ms, tuple(within),
                       _durations(element, first, within, begin_ms, end_ms), watch.late)


def _passed(watch: ElementWatch, to_ms: int, observe: Callable[[ElementWatch, int], None]) -> Iterator[ElementSwitch]:
    """Let time pass moment by moment."""
    while watch.due <= to_ms:
        at_ms = int(watch.due)
        yield from watch.advance(at_ms)
        observe(watch, at_ms)


def _durations(
    element: GuardedElement, first: str, changes: list[ElementSwitch], begin_ms: int, end_ms: int
) -> dict[str, int]:
    on_ms = dict.fromkeys((alternate.name for alternate in element.alternates), 0)
    on, since_ms = first, begin_ms
    for change in changes:
        on_ms[on] += change.at_ms - since_ms
        on, since_ms = change.choice.alternate, change.at_ms
    on_ms[on] += max(end_ms - since_ms, 0)
    return on_ms


def _at(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
