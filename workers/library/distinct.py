"""HyperLogLog: how many distinct values a stream has had, from a fixed number of small registers.

References
----------
.. [1] P. Flajolet, É. Fusy, O. Gandouet and F. Meunier, "HyperLogLog: the Analysis of a Near-optimal Cardinality
   Estimation Algorithm", AofA 2007. Hashes have 64 bits, so no correction for large counts is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .folds import hash64


@dataclass(frozen=True, slots=True)
class DistinctCount:
    """``step`` takes a value and gives (estimate, readings counted).

    With ``window`` 0 every reading gives a running estimate; otherwise every ``window``-th gives one and the count
    starts anew. A register is a byte, written as two hexadecimal digits.
    """

    precision: int
    window: int

    def start(self) -> list:
        return [0, "00" * 2**self.precision, 2**self.precision, 2**self.precision << 64]

    def step(self, state: list, reading: str | None) -> Iterable[tuple]:
        if reading is None:
            return ()
        state[0] += 1
        self._register(state, hash64(reading))
        if self.window and state[0] < self.window:
            return ()
        result = (estimate(2**self.precision, empty=state[2], harmonic=state[3] / 2**64), state[0])
        if self.window:
            state[:] = self.start()
        return [result]

    def _register(self, state: list, hashed: int) -> None:
        """Raise one register; the sum over registers of 2^−register is kept exact, as an integer times 2^−64."""
        at = 2 * (hashed >> (64 - self.precision))
        low_bits = hashed & (2 ** (64 - self.precision) - 1)
        rank = 64 - self.precision - low_bits.bit_length() + 1
        before = int(state[1][at:at + 2], 16)
        if rank > before:
            state[1] = f"{state[1][:at]}{rank:02x}{state[1][at + 2:]}"
            state[2] -= before == 0
            state[3] += (1 << (64 - rank)) - (1 << (64 - before))


def estimate(registers: int, *, empty: int, harmonic: float) -> float:
    """The count from the sum of 2^−register; by linear counting while many registers are empty."""
    alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(registers, 0.7213 / (1 + 1.079 / registers))
    raw = alpha * registers**2 / harmonic
    if raw <= 2.5 * registers and empty:
        return registers * math.log(registers / empty)
    return raw
