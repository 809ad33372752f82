"""The linear program over patterns: the least parts of the known ones that hold all bundles of each shape."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.linear_solver import pywraplp

from .effort import Effort
from .shapes import Pattern

STEP = 1e-8  # what a solution is charged, in the solver's seconds, for each number in the table


class PatternProgram:
    """Solved by GLOP, again and again while patterns are added and what has to be held falls."""

    def __init__(self, counts: Sequence[int], patterns: Sequence[Pattern]) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._rows = [self._solver.Constraint(count, self._solver.infinity()) for count in counts]
        self._solver.Objective().SetMinimization()
        self._variables: list[pywraplp.Variable] = []
        self.patterns: list[Pattern] = []
        for pattern in patterns:
            self.add(pattern)

    def add(self, pattern: Pattern) -> None:
        """One pattern more."""
        variable = self._solver.NumVar(0, self._solver.infinity(), "")
        self._solver.Objective().SetCoefficient(variable, 1)
        for row, number in zip(self._rows, pattern, strict=True):
            if number:
                row.SetCoefficient(variable, number)
        self._variables.append(variable)
        self.patterns.append(pattern)

    def require(self, counts: Sequence[int]) -> None:
        """Hold so many of each shape from now on."""
        for row, count in zip(self._rows, counts, strict=True):
            row.SetLb(count)

    def solve(self, effort: Effort) -> tuple[list[float], float]:
        """The dual value of each shape, and the optimum."""
        self._solver.Solve()
        effort.charge(STEP * len(self._rows) * len(self._variables))
        return [row.dual_value() for row in self._rows], self._solver.Objective().Value()

    def parts(self) -> list[float]:
        """The amount of each pattern in the optimum."""
        return [variable.solution_value() for variable in self._variables]
