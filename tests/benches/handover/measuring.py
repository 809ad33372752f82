"""Hands the chain over again and again, and looks afterwards at what all outputs showed meanwhile.

    wish ──── window with the handover ────┤ settle ├──── window without, of the same length ────┤ next wish

A window is as long as the handover where that takes longer than asked for. Outputs are read when all is over.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from .chains import CHAIN, Chains, Change
from .figures import WITH, WITHOUT, Window, joined, phases, roles, shown, whole

SETTLE_S = 2.0
FIRST_SETTLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Pair:
    """A handover, its window, and the one without that it is held against."""

    change: Change
    moved: Window
    quiet: Window


def measure(chains: Chains, *, repeats: int, warm_ups: int, window_s: float) -> dict[str, Any]:
    """Bring the chain into each form so often; what outputs show of it.

    Parameters
    ----------
    chains : Chains
        What runs.
    repeats : int
        How often.
    warm_ups : int
        How often before that, which is not measured: drivers compile what they do for the first times.
    window_s : float
        How long a window is at least, in seconds.

    Returns
    -------
    dict
        ``handovers``, one after the other, and of each output how many events it had, and lost or doubled.
    """
    chains.begin()
    time.sleep(FIRST_SETTLE_S)
    for form in [*chains.forms] * warm_ups:
        chains.run(form)
        time.sleep(SETTLE_S)
    pairs = [_pair(chains, form, window_s) for form in [*chains.forms] * repeats]
    time.sleep(SETTLE_S + max(chains.load.trigger_ms, chains.load.bystanders_ms or 0) / 1000)
    return _measured_handovers(chains, pairs)


def _pair(chains: Chains, form: str, window_s: float) -> Pair:
    change = chains.run(form)
    length_s = max(window_s, change.took_s)
    time.sleep(length_s - change.took_s + SETTLE_S)
    quiet_ms = time.time_ns() // 1_000_000
    time.sleep(length_s)
    print(f"{form}: in force after {change.took_s:.2f} s", file=sys.stderr, flush=True)
    length_ms = round(1000 * length_s)
    return Pair(
        change, Window(change.began_ms, change.began_ms + length_ms), Window(quiet_ms, quiet_ms + length_ms))


def _measured_handovers(chains: Chains, pairs: list[Pair]) -> dict[str, Any]:
    outputs = {name: joined(chains.blocks(name)) for name in chains.outputs}
    gaps, slots = chains.handovers(), outputs.keys() - {CHAIN}
    handovers = []
    for pair in pairs:
        change = pair.change
        sides = {
            name: {WITH: shown(blocks, pair.moved), WITHOUT: shown(blocks, pair.quiet)}
            for name, blocks in outputs.items()}
        role_of = roles(sorted(slots), before=change.before, after=change.after)
        handovers.append({
            "form": change.form, "took_s": change.took_s, "chain": sides[CHAIN],
            "phases": phases(outputs[CHAIN], gaps.get(change.writer)),
            "bystanders": {slot: {"role": role, **sides[slot]} for slot, role in role_of.items()}})
    return {"handovers": handovers, "outputs": {name: whole(blocks) for name, blocks in outputs.items()}}
