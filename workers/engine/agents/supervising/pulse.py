"""A slot's pulse: whether its JVM answers, told to the agent twice a second whatever the slot's own loop waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PULSE_S = 0.5


class Pulse:
    """Asks the JVM for nothing, again and again, and tells for how long it has not answered.

    Parameters
    ----------
    ask : callable
        A call that the JVM answers at once; it blocks while the JVM is frozen, and raises where the JVM is gone.
    monotonic_s : callable, optional
        The clock, in seconds.
    """

    def __init__(
        self, ask: Callable[[], Any], tell: Callable[[Mapping[str, Any]], None], *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._tell = tell
        self._monotonic_s = monotonic_s
        self._answered_s = monotonic_s()
        self._end_event = threading.Event()
        self._teller = threading.Thread(target=self._keep_telling, name="pulse teller", daemon=True)

    @classmethod
    def of_driver(cls, spark: SparkSession, tell: Callable[[Mapping[str, Any]], None]) -> Pulse:
        """The pulse of a session's JVM."""
        jvm = spark.sparkContext._jvm
        return cls(lambda: jvm.java.lang.System.nanoTime(), tell)

    def start(self) -> None:
        """Begin, on two daemon threads: one waits for the JVM, the other must not."""
        threading.Thread(target=self._keep_asking, name="pulse", daemon=True).start()
        self._teller.start()

    def stop(self) -> None:
        """End both threads; nothing more is told when this returns."""
        self._end_event.set()
        if self._teller.is_alive():
            self._teller.join()

    def silent_ms(self) -> int:
        """For how long the JVM has not answered; what is within one turn counts as nothing."""
        silent_s = self._monotonic_s() - self._answered_s
        return 0 if silent_s <= 2 * PULSE_S else round(1000 * silent_s)

    def _keep_asking(self) -> None:
        while not self._end_event.is_set():
            try:
                self._ask()
            except Exception:  # the slot's loop notices by itself that its JVM is gone
                return
            self._answered_s = self._monotonic_s()
            self._end_event.wait(PULSE_S)

    def _keep_telling(self) -> None:
        while not self._end_event.wait(PULSE_S):
            self._tell({"pulse": self.silent_ms()})
