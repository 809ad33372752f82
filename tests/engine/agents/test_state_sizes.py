"""How much state queries have: looked at now and then, and not told where a file goes meanwhile."""

from __future__ import annotations

from workers.engine.agents.reconciling.state_sizes import LOOK_MS, StateSizes


def test_a_size_is_looked_at_now_and_then() -> None:
    looks: list[str] = []
    sizes = {"f1-0": 3 << 20, "f1-1": 100}

    def bytes_of(fragment: str) -> int:
        looks.append(fragment)
        if fragment not in sizes:
            raise FileNotFoundError(fragment)
        return sizes[fragment]

    seen = StateSizes(bytes_of)
    assert [seen.kb(name, now_ms=0) for name in ("f1-0", "f1-1", "f1-9")] == [3072, 0, None]
    sizes["f1-0"] = 4 << 20
    assert seen.kb("f1-0", now_ms=LOOK_MS - 1) == 3072 and looks == ["f1-0", "f1-1", "f1-9"]
    assert seen.kb("f1-0", now_ms=LOOK_MS) == 4096
    assert looks.count("f1-0") == 2 and seen.kb("f1-1", now_ms=3 * LOOK_MS) == 0
    assert seen.kb("f1-0", now_ms=3 * LOOK_MS) == 4096 and looks.count("f1-0") == 3, "what is old is forgotten"
