"""Every setting that the environment can give, declared once; ``docs/settings.md`` documents the same table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.model.errors import WeirError

ROOT = Path(__file__).resolve().parents[2]


class InvalidSetting(WeirError):
    """An environment variable holds a value that Weir cannot use."""

    code = "invalid_setting"
    http_status = 500


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting: the variable's name, its default as text and what it does, in a sentence."""

    name: str
    default: str
    doc: str


DECLARED: tuple[Declared, ...] = (
    Declared("REDIS_URL", "redis://127.0.0.1:6379/0", "Broker: Redis 7 or Valkey. `./weir up` starts an embedded one."),
    Declared("DATABASE_URL", "", "Database; empty means SQLite in the data folder. PostgreSQL: `postgres://…`."),
    Declared("WEIR_DATA_DIR", "", "The one folder that holds all state; empty means `data` next to the launcher."),
    Declared("WEIR_SECRET_KEY", "", "Signs sessions; empty means a key generated once and kept in the data folder."),
    Declared("WEIR_DEBUG", "0", "1 shows tracebacks in the browser. Never on a server that others reach."),
    Declared("WEIR_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", "Host names that the site answers to, by commas."),
    Declared("WEIR_HTTPS", "0", "1 when the site is reached over HTTPS: cookies become secure, HSTS is sent."),
    Declared("WEIR_LOG_LEVEL", "INFO", "Lowest level of the site's and the Celery worker's log."),
    Declared("WEIR_SELF_APPROVAL", "0", "1 lets an author approve the own proposal, where the role allows approving."),
    Declared("WEIR_NODE", "n1", "Name of this machine's node."),
    Declared("WEIR_SLOTS", "2", "Slots of this machine's node: one core and one Spark driver each."),
    Declared("WEIR_SPARK_MASTER", "", "Spark master of every slot, such as `spark://host:7077`; empty: this machine."),
    Declared("WEIR_SLOT_THREADS", "4", "Threads of a slot's Spark driver, where the master is this machine."),
    Declared("WEIR_SLOT_MEMORY_MB", "1024", "Heap of a slot's JVM; Python workers and state come on top."),
    Declared("WEIR_PIN", "auto", "Whether a slot is pinned to its core: `auto`, `always` or `never`."),
    Declared("WEIR_REPLAY_DIRS", "", "Folders of recordings, as in PATH; empty: `replay` in the data folder."),
    Declared("WEIR_TRIGGER_MS", "500", "Trigger interval of every query, in milliseconds."),
    Declared("WEIR_CORE_HOUR_PRICE", "0.048", "Price of one core for one hour, for the price of a plan."),
    Declared("WEIR_CURRENCY", "USD", "Currency of that price."),
    Declared("WEIR_CHANNEL", "auto", "Channel implementation: `jvm`, `python`, or `auto` (jvm where javac is found)."),
)
_BY_NAME = {declared.name: declared for declared in DECLARED}


class Environment:
    """Reads declared settings from a mapping (``os.environ`` unless told) and names the one that is wrong."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables

    def text(self, name: str) -> str:
        """The value, or the declared default where the variable is absent or empty."""
        return self._variables.get(name, "").strip() or _BY_NAME[name].default

    def flag(self, name: str) -> bool:
        """1, true, yes, on; 0, false, no, off."""
        value = self.text(name).lower()
        if value in {"1", "true", "yes", "on"}:
            return True
        if value in {"0", "false", "no", "off", ""}:
            return False
        raise _invalid(name, value, "1 or 0")

    def integer(self, name: str, *, minimum: int) -> int:
        """A whole number, not below ``minimum``."""
        value = self.text(name)
        if not value.isdecimal() or int(value) < minimum:
            raise _invalid(name, value, f"a whole number, at least {minimum}")
        return int(value)

    def number(self, name: str, *, minimum: float) -> float:
        """A finite number, not below ``minimum``."""
        value = self.text(name)
        try:
            number = float(value)
        except ValueError:
            raise _invalid(name, value, "a number") from None
        if not minimum <= number < float("inf"):
            raise _invalid(name, value, f"a number, at least {minimum}")
        return number

    def words(self, name: str) -> list[str]:
        """Words by commas."""
        return [word.strip() for word in self.text(name).split(",") if word.strip()]

    def choice(self, name: str, *choices: str) -> str:
        """One of ``choices``."""
        value = self.text(name)
        if value not in choices:
            raise _invalid(name, value, " or ".join(choices))
        return value

    def redis_url(self) -> str:
        """The broker's URL."""
        value = self.text("REDIS_URL")
        if urlsplit(value).scheme not in {"redis", "rediss"}:
            raise _invalid("REDIS_URL", value, "redis://host:port/db")
        return value

    def data_dir(self) -> Path:
        """The folder of all state, absolute."""
        return Path(self.text("WEIR_DATA_DIR") or ROOT / "data").expanduser().resolve()


def _invalid(name: str, value: str, wanted: str) -> InvalidSetting:
    return InvalidSetting(f"{name} is {value!r}.", remedy=f"Set {name} to {wanted}.", setting=name)
