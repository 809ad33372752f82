"""The rates of dataflows' sources and the speeds of nodes' cores in the next minutes, as adaptation uses them and pages
show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from scheduler.history.series import MINUTE

from .minute_forecasts import AHEAD, MinuteForecast
from .world import World

SLOWER = 0.03  # what is less is not worth a sentence


@dataclass(frozen=True, slots=True)
class ExpectedMinute:
    """The expected events a second of a dataflow's sources together in a minute, with bounds from the mean absolute
    errors of their forecasts."""

    at_s: float
    per_s: float
    low_per_s: float
    high_per_s: float


def expected_minutes(world: World, name: str) -> list[ExpectedMinute]:
    """The next minutes by the forecasts of a dataflow's sources; nothing where one of them has none."""
    forecasts = world.minute_forecasts.rates(world.history, sources := sources_of(world, name), world.now_s)
    if not sources or not all(source in forecasts and forecasts[source].values for source in sources):
        return []
    minutes = []
    for number in range(min(len(forecast.values) for forecast in forecasts.values())):
        at_s = max(forecast.begin_s for forecast in forecasts.values()) + number * MINUTE.step_s
        per_s = sum(forecast.values[number] for forecast in forecasts.values())
        off = sum(forecast.values[number] * forecast.errors[number] for forecast in forecasts.values())
        minutes.append(ExpectedMinute(at_s, per_s, max(0.0, per_s - off), per_s + off))
    return minutes


def sources_of(world: World, name: str) -> list[str]:
    """The running tasks by which events come to a dataflow from outside; none where it does not work."""
    submitted = world.estate.submitted.get(name)
    return [] if submitted is None or name not in world.running else [
        task for task in submitted.running.values() if task in world.estate.tasks
        and not world.estate.tasks[task].parents]


def expected_course(forecast: MinuteForecast | None, seen_per_s: float, now_s: float) -> tuple[float, ...]:
    """A source's rate in the next minutes: never less than what comes now, for what is worth more waits until there is
    room for it, while what is cheaper is to be on when more comes."""
    ahead = () if forecast is None else forecast.ahead(now_s)
    return tuple(max(seen_per_s, rate_per_s) for rate_per_s in ahead) or (seen_per_s,) * AHEAD


def expected_slowing(forecast: MinuteForecast, now_s: float) -> tuple[float, ...]:
    """The expected speed of a node's cores in the next minutes, as a part of their present speed. At most 1: a core
    that is expected to become faster counts as such once it is."""
    ahead = forecast.ahead(now_s) if forecast.last > 0 else ()
    return tuple(min(1.0, speed / forecast.last) for speed in ahead) or (1.0,) * AHEAD


def speed_expectation(node: str, forecast: MinuteForecast, now_s: float) -> str:
    """The expected speed of a node's cores and its certainty, or why the last minute decides."""
    if not (ahead := forecast.ahead(now_s)):
        return f"The cores of {node} are expected to stay as fast as in the last minute. {forecast.why_averages}"
    wrong = sum(forecast.errors) / len(forecast.errors)
    return (f"The cores of {node} are expected to have {sum(ahead) / len(ahead):.0%} of their calibrated speed in the "
            f"next {AHEAD} minutes, {forecast.last:.0%} now (forecast by {forecast.method}, {wrong:.0%} wrong).")


def told_slowing(forecasts: Mapping[str, MinuteForecast], nodes: Set[str], now_s: float) -> Iterator[str]:
    """Sentences about nodes whose cores are expected to become slower by more than `SLOWER`."""
    for node in sorted(nodes & forecasts.keys()):
        if sum(course := expected_slowing(forecasts[node], now_s)) < (1 - SLOWER) * len(course):
            yield speed_expectation(node, forecasts[node], now_s)


def told_expectations(
    running: Mapping[str, str], rates_now: Mapping[str, float], courses: Mapping[str, Sequence[float]],
    forecasts: Mapping[str, MinuteForecast],
) -> Iterator[str]:
    """Sentences about rates that are expected to rise or to last, and their certainty."""
    for task, course in courses.items():
        name, forecast = name_of(running, task), forecasts.get(task)
        if forecast is not None and forecast.why_averages:
            yield f"{name} is expected to go on as in the last minute. {forecast.why_averages}"
        elif forecast is not None and (mean := sum(course) / len(course)) > rates_now[task]:
            wrong = sum(forecast.errors) / len(forecast.errors)
            yield (f"{name} is expected to make {mean:,.0f} events/s in the next {AHEAD} minutes, "
                   f"{rates_now[task]:,.0f} now (forecast by {forecast.method}, {wrong:.0%} wrong).")


def name_of(running: Mapping[str, str], task: str) -> str:
    """A running task's id in the document."""
    return next(name for name, running_id in running.items() if running_id == task)
