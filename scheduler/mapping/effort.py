"""The bound of a solver for one question, in its own measure of time: the same on every machine."""

from __future__ import annotations

from math import inf

from ortools.sat.python import cp_model


class Effort:
    """The bound of all calls of the solver for one question together, in its own measure of time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent = 0.0

    @property
    def left(self) -> float:
        """The bound of a further call; none is worth making where it is 0."""
        return max(0.0, self.seconds - self.spent)

    def charge(self, seconds: float) -> None:
        """Count work that was done without the solver, as what it would have taken of its time."""
        self.spent += seconds

    def solve(
        self, model: cp_model.CpModel, *, at_most: float = inf
    ) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
        """Solve with what is left: the answer depends on the question alone, for there is one worker and one seed.

        Parameters
        ----------
        at_most : float
            The bound of this call within what is left, in the solver's deterministic seconds; 0 or more.
        """
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = min(self.left, at_most)
        status = solver.solve(model)
        self.spent += solver.deterministic_time
        return solver, status
