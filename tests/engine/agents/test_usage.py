"""What a process tree uses."""

import os
import subprocess
import sys

from tests.engine.measuring.test_load import COMPILING
from workers.engine.agents.supervising.slot_usage import TREND_SAMPLES, TreeMeter, trend_per_h


def test_a_trend_is_the_slope_of_memory_per_hour():
    steady = [(second * 10_000, 500.0) for second in range(TREND_SAMPLES)]
    growing = [(second * 10_000, 500.0 + second * 10 / 3600 * 36) for second in range(TREND_SAMPLES)]
    assert trend_per_h(steady) == 0.0
    assert trend_per_h(growing) == 36.0
    assert trend_per_h(growing[:5]) is None


def test_cpu_and_memory_are_those_of_the_whole_tree():
    code = "import sys\nblock = bytearray(200 << 20)\nprint('ready', flush=True)\nwhile True: pass"
    meter = TreeMeter(os.getpid())
    alone = meter.sample(0)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        meter.sample(10_000)
        begun = os.times()
        child.stdout.close()
        while sum(os.times()[:2]) - sum(begun[:2]) < 0.2:  # both are busy for a while
            pass
        with_child = meter.sample(20_000)
        assert with_child.memory_mb > alone.memory_mb + 100  # its own may shrink meanwhile
        assert with_child.cpu > 0
    finally:
        child.kill()
        child.wait()


def test_totals_grow_by_what_the_tree_uses_and_count_a_process_from_its_start():
    meter = TreeMeter(os.getpid())
    first = meter.sample(5_000)
    assert first.since_ms == 5_000 and first.memory_mb_s == 0
    assert first.cpu_ms >= 1000 * sum(os.times()[:2]) - 100  # this process was busy before it was metered
    busy = "import os\nwhile sum(os.times()[:2]) < 0.4: pass\nprint('done', flush=True)\nimport time; time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        child.stdout.close()
        second = meter.sample(15_000)
        assert second.cpu_ms - first.cpu_ms >= 400
        assert second.memory_mb_s >= 10 * (min(first.memory_mb, second.memory_mb) - 1) > 0  # each figure is rounded
        assert second.since_ms == first.since_ms
    finally:
        child.kill()
        child.wait()
    assert meter.sample(16_000).cpu_ms >= second.cpu_ms  # what a process used stays used when it is gone


def test_what_the_compilers_take_is_told_apart_and_stays_in_the_whole(tmp_path):
    (tmp_path / "go").touch()
    argv = [sys.executable, "-c", COMPILING, str(tmp_path / "go")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        meter = TreeMeter(process.pid)
        first = meter.sample(0)
        process.stdin.write("\n")
        process.stdin.flush()
        assert {process.stdout.readline(), process.stdout.readline()} == {"compiled\n", "done\n"}
        second = meter.sample(1_000)
        process.kill()
    compiled_ms = second.compiling_ms - first.compiling_ms
    assert compiled_ms >= 450, "the compiler worked for half a second"
    assert second.cpu_ms - first.cpu_ms - compiled_ms >= 350, "the rest for 0.4 s"
