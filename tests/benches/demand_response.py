"""The thesis's evaluation of learned guards (3.6): which forecast for which customer, hour by hour.

The source `smart_meters` makes the readings, on Spark. Every method forecasts every hour of every customer; a network
learns from three weeks of some customers which was best, and chooses for the others in the week after. Three folds of
customers, so that each is chosen for once by a network that has seen neither the customer nor the week.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tests.benches.arguments import count, positive
from tests.benches.choice_learning import best_of, learn_choice
from tests.benches.results import machine, table, write
from workers.library.forecast_choice import ForecastChoice, features_of
from workers.library.forecasts import DAYS, METHODS, RANDOM, LoadHistory, error_of, forecast, method_of, variances
from workers.library.models import apply, write_model
from workers.library.smart_meters import SMART_METERS, smart_meters

NAMES = list(METHODS)
STEPS = 12  # readings of an hour
WIDTH = 24 * STEPS
FOLDS = 3
NEAR = 0.02  # a choice whose error is by so much larger than the least is as good as right
NEAR_CUSTOMER = 1.05  # and by customer and week, one that is so many times the least
_LEAST_ERROR = 1e-3  # of the errors whose logarithms the second network reads


def readings(*, customers: int, days: int, seed: int, unusual: float) -> tuple[np.ndarray, np.ndarray]:
    """What the source makes: consumption by customer, day and reading, and whether a day is no working day."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        ticks = spark.range(0, customers * days * WIDTH, 1, 2).select(
            F.col("id").alias("_seq"), F.col("id").alias("_time"), F.col("id").alias("_born"))
        made = smart_meters(ticks, {
            "seed": seed, "meters": customers, "interval": 3600 // STEPS, "unusual": unusual})
        rows = made.select("_seq", "kwh", "holiday").toArrow()
    finally:
        spark.stop()
    order = np.argsort(rows["_seq"].to_numpy())
    kwh = rows["kwh"].to_numpy()[order].reshape(-1, customers).T.reshape(customers, days, WIDTH)
    holiday = rows["holiday"].to_numpy()[order].reshape(-1, customers)[::WIDTH, 0]
    return kwh.astype(float), holiday.astype(bool) | (np.arange(days) % 7 >= 5)  # the source begins with a Monday


def errors_of(loads: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of one customer: each method's error in each hour for which there is a whole history, and how the hour before
    varied.

    Parameters
    ----------
    loads : array of shape (days, readings of a day)
    free : array of bool, shape (days,)

    Returns
    -------
    errors, varied : array of shape (hours, methods) and (hours, variances)
    """
    errors, varied = [], []
    for day in range(DAYS, len(loads)):
        days, kinds = loads[day - DAYS:day], free[day - DAYS:day]
        fits = {name: method.fit(days, kinds, STEPS) if method.fit else None for name, method in METHODS.items()}
        for begin in range(0, WIDTH, STEPS):
            history = LoadHistory(days, kinds, loads[day, :begin], bool(free[day]), STEPS)
            actual = loads[day, begin:begin + STEPS]
            hour = [error_of(actual, forecast(name, history, fits[name])) for name in NAMES]
            errors.append([np.nan if error is None else error for error in hour])
            varied.append([np.nan if value is None else value for value in variances(history)])
    return np.array(errors), np.array(varied)


@dataclass(frozen=True)
class Hours:
    """What is known of all customers' hours: arrays of shape (customers, hours, methods or variances)."""

    errors: np.ndarray
    varied: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """What the network reads of each hour."""
        return np.array([[features_of(_or_none(hour)) for hour in customer] for customer in self.varied])

    @property
    def best(self) -> np.ndarray:
        """The oracle's method of each hour, as a number."""
        return np.array([[NAMES.index(best_of(dict(zip(NAMES, hour, strict=True))) or NAMES[0]) for hour in customer]
                         for customer in np.where(np.isnan(self.errors), np.inf, self.errors)])

    @property
    def errors_before(self) -> np.ndarray:
        """Each method's error of the hour before, in logarithms."""
        before = np.concatenate([self.errors[:, :1], self.errors[:, :-1]], axis=1)
        return np.log(np.nan_to_num(before, nan=1.0) + _LEAST_ERROR)


def chosen_by(
    model: dict[str, Any], hours: Hours, customer: int, span: slice, *, bound: float
) -> list[tuple[int, bool]]:
    """The methods that a learned guard takes hour by hour, and whether it asked the network."""
    choice, taken = ForecastChoice(model, bound), []
    state, error = choice.start(), None
    for varied, errors in zip(hours.varied[customer, span], hours.errors[customer, span], strict=True):
        [(name, evaluates)] = choice.step(state, _or_none(varied), error)
        place = NAMES.index(name)
        error = _or_none(errors)[place]
        taken.append((place, evaluates))
    return taken


def _or_none(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def chosen_at_random(customer: int, count_hours: int, *, seed: int) -> list[int]:
    """The methods that chance takes."""
    return [NAMES.index(method_of(RANDOM, seed=seed, customer=str(customer), hour=hour)) for hour in range(count_hours)]


def evaluate(hours: Hours, *, training_h: int, neurons: int, bound: float, seed: int) -> dict[str, Any]:
    """The errors of each way to choose over the hours after the training, and how well each fold chose."""
    customers, total, _ = hours.errors.shape
    order = np.random.default_rng(seed).permutation(customers)
    learning, tested = slice(0, training_h), slice(training_h, total)
    best, before, features = hours.best, hours.errors_before, hours.features
    errors = hours.errors[:, tested]
    picked: dict[str, np.ndarray] = {name: np.full((customers, total - training_h), 0) for name in (
        RANDOM, "best of last hour", "learned", "learned, always asked", "learned, errors known")}
    evaluated = np.zeros((customers, total - training_h), dtype=bool)
    folds = []
    for number, held in enumerate(np.array_split(order, FOLDS), 1):
        others = np.setdiff1d(order, held)
        rows = features[others, learning].reshape(-1, features.shape[2])
        labels = [NAMES[place] for place in best[others, learning].ravel()]
        model = learn_choice(rows, labels, neurons=neurons)
        more = np.concatenate([features, before], axis=2)
        second = learn_choice(more[others, learning].reshape(-1, more.shape[2]), labels, neurons=neurons)
        usual = _best_over(hours.errors[others, learning])
        steady = learn_choice(rows, [NAMES[place] for place in np.repeat(usual, training_h)], neurons=neurons)
        commonest = Counter(usual.tolist()).most_common(1)[0][0]
        by_customer = []
        for customer in held:
            taken = chosen_by(model, hours, customer, tested, bound=bound)
            picked["learned"][customer] = [place for place, _ in taken]
            evaluated[customer] = [was for _, was in taken]
            picked["learned, always asked"][customer] = [
                place for place, _ in chosen_by(model, hours, customer, tested, bound=0.0)]
            picked["learned, errors known"][customer] = [
                NAMES.index(apply(second, row)) for row in more[customer, tested]]
            picked["best of last hour"][customer] = before[customer, tested].argmin(axis=1)
            picked[RANDOM][customer] = chosen_at_random(customer, total - training_h, seed=seed)
            votes = Counter(apply(steady, row) for row in features[customer, tested])
            by_customer.append(NAMES.index(votes.most_common(1)[0][0]))
        folds.append({"fold": number, "customers": len(held), **_fold_figures(
            errors[held], picked["learned"][held], picked["learned, always asked"][held], evaluated[held],
            by_customer), **_without_network(errors[held], commonest, _best_over(hours.errors[held, learning]))})
    ways = {name: errors[:, :, place] for place, name in enumerate(NAMES)}
    ways |= {name: _errors_at(errors, places) for name, places in picked.items()}
    fixed = _best_over(errors)
    before_test = _best_over(hours.errors[:, learning])
    ways["best of training weeks"] = _errors_at(errors, np.broadcast_to(before_test[:, None], errors.shape[:2]))
    ways["best of each customer"] = _errors_at(errors, np.broadcast_to(fixed[:, None], errors.shape[:2]))
    ways["oracle"] = np.nanmin(np.where(np.isnan(errors).all(axis=2, keepdims=True), 0.0, errors), axis=2)
    return {"ways": {name: _distribution(values) for name, values in ways.items()}, "folds": folds,
            "best of hours": {name: float((best[:, tested] == place).mean()) for place, name in enumerate(NAMES)},
            "best of customers": {name: int((fixed == place).sum()) for place, name in enumerate(NAMES)}}


def model_of(hours: Hours, training_h: int, *, neurons: int) -> dict[str, Any]:
    """The network that comes with Weir: learned from the training weeks of all customers, its weights in six digits."""
    rows = hours.features[:, :training_h]
    labels = [NAMES[place] for place in hours.best[:, :training_h].ravel()]
    model = learn_choice(rows.reshape(-1, rows.shape[2]), labels, name="forecast_choice", neurons=neurons)
    return json.loads(json.dumps(model), parse_float=lambda text: float(f"{float(text):.6g}"))


def _best_over(errors: np.ndarray) -> np.ndarray:
    """Each customer's method with the least mean error over all hours."""
    return np.nanmean(errors, axis=1).argmin(axis=1)


def _errors_at(errors: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.take_along_axis(errors, np.asarray(places)[:, :, None], axis=2)[:, :, 0]


def _fold_figures(
    errors: np.ndarray, learned: np.ndarray, always: np.ndarray, evaluated: np.ndarray, by_customer: Sequence[int]
) -> dict[str, Any]:
    best = np.where(np.isnan(errors), np.inf, errors).argmin(axis=2)
    over_week = np.nanmean(errors, axis=1)
    fixed = over_week.argmin(axis=1)
    oracle, got = np.nanmean(np.nanmin(errors, axis=2)), np.nanmean(_errors_at(errors, learned))
    near = _errors_at(errors, always) <= np.nanmin(errors, axis=2) + NEAR
    least, steady = over_week.min(axis=1).mean(), over_week[np.arange(len(errors)), by_customer].mean()
    return {
        "right hour": float((always == best).mean()), "near": float(near.mean()),
        "right customer": float((by_customer == fixed).mean()),
        "deviation, customer": float(steady / least - 1), "MAPE learned": float(got), "MAPE oracle": float(oracle),
        "deviation, hour": float(got / oracle - 1), "against best fixed": float(got / least - 1),
        "asked": float(evaluated.mean()), "switches a day": float((np.diff(learned, axis=1) != 0).mean() * 24)}


def _without_network(errors: np.ndarray, commonest: int, before: np.ndarray) -> dict[str, Any]:
    """How well a customer's best method of the week is named without a network: always the one that is the best of
    most others; and the customer's own of the weeks before. And how many customers have a second that is nearly as
    good."""
    week = np.nanmean(errors, axis=1)
    best, ordered = week.argmin(axis=1), np.sort(week, axis=1)
    chosen = week[np.arange(len(week)), before].mean()
    return {"right, commonest": float((best == commonest).mean()), "right, own past": float((best == before).mean()),
            "deviation, own past": float(chosen / ordered[:, 0].mean() - 1),
            "second is near": float((ordered[:, 1] <= NEAR_CUSTOMER * ordered[:, 0]).mean())}


def _distribution(errors: np.ndarray) -> dict[str, Any]:
    finite = errors[~np.isnan(errors)]
    return {"mean": float(finite.mean()), "cdf": [float(value) for value in np.percentile(finite, range(1, 100))]}


def printed(results: dict[str, Any]) -> str:
    """The tables: MAPE of each way to choose with points of its distribution function, and the folds; in percent."""
    ways = [{"way": name, "mean": _percent(way["mean"]), **{
        f"{share}%": _percent(way["cdf"][share - 1]) for share in (10, 25, 50, 75, 90, 95)}}
        for name, way in sorted(results["ways"].items(), key=lambda item: -item[1]["mean"])]
    folds = [{name: value if name in ("fold", "customers") else round(value, 1) if name == "switches a day"
              else _percent(value) for name, value in fold.items()} for fold in results["folds"]]
    return f"{table(ways)}\n\n{table(folds)}"


def _percent(share: float) -> float:
    return round(100 * share, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(
        description="Forecast each hour of households by every method, at random, by a learned guard and by an oracle: "
                    "distribution of MAPE, how often the guard is right, how far it is from the best.")
    parser.add_argument("--customers", type=count, default=48)
    parser.add_argument("--seed", type=count, default=1)
    parser.add_argument("--training-days", type=count, default=21)
    parser.add_argument("--test-days", type=count, default=7)
    parser.add_argument("--neurons", type=count, default=70)
    parser.add_argument("--bound", type=positive, default=0.1,
                        help="the error (a share) from which the guard asks again")
    parser.add_argument("--unusual", type=float, default=_default("unusual"),
                        help="the share of the time in which a household is away or restless")
    parser.add_argument("--model", type=Path, help="write the network that all customers' training weeks teach")
    parser.add_argument("--json", type=Path, default=Path("demand-response.json"))
    given = parser.parse_args(arguments)
    if given.customers < FOLDS:
        parser.error(f"{FOLDS} folds need {FOLDS} customers at least: give --customers {FOLDS} or more")
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes below: each has a core
    began_s = time.perf_counter()
    loads, free = readings(
        customers=given.customers, days=DAYS + given.training_days + given.test_days, seed=given.seed,
        unusual=given.unusual)
    made_s = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        figures = list(pool.map(partial(errors_of, free=free), loads))
    forecast_s = time.perf_counter()
    hours = Hours(np.array([errors for errors, _ in figures]), np.array([varied for _, varied in figures]))
    results = evaluate(hours, training_h=24 * given.training_days, neurons=given.neurons, bound=given.bound,
                       seed=given.seed)
    done_s = time.perf_counter()
    if given.model is not None:
        given.model.write_text(write_model(model_of(hours, 24 * given.training_days, neurons=given.neurons)) + "\n")
    write(given.json, {
        "machine": machine(), "customers": given.customers, "unusual": given.unusual, "seed": given.seed,
        "seconds": {"source": made_s - began_s, "forecasts": forecast_s - made_s, "choice": done_s - forecast_s},
        **results})
    print(printed(results))
    print(f"\n{given.customers} customers, {given.training_days} days of training, {given.test_days} of test; "
          f"{done_s - began_s:.0f} s")
    return 0


def _default(name: str) -> Any:
    return next(parameter.default for parameter in SMART_METERS.parameters if parameter.name == name)


if __name__ == "__main__":
    raise SystemExit(main())
