"""What a process tree uses."""

import os
import subprocess
import sys

from workers.agents.usage import TREND_SAMPLES, TreeMeter, trend_per_h


def test_a_trend_is_the_slope_of_memory_per_hour():
    steady = [(second * 10_000, 500.0) for second in range(TREND_SAMPLES)]
    growing = [(second * 10_000, 500.0 + second * 10 / 3600 * 36) for second in range(TREND_SAMPLES)]
    assert trend_per_h(steady) == 0.0
    assert trend_per_h(growing) == 36.0
    assert trend_per_h(growing[:5]) is None


def test_cpu_and_memory_are_those_of_the_whole_tree():
    code = "import sys\nblock = bytearray(50 << 20)\nprint('ready', flush=True)\nwhile True: pass"
    meter = TreeMeter(os.getpid())
    alone = meter.sample(0)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        meter.sample(10_000)
        own = os.times()
        child.stdout.close()
        while sum(os.times()[:2]) - sum(own[:2]) < 0.2:  # both are busy for a while
            pass
        with_child = meter.sample(20_000)
        assert with_child.memory_mb > alone.memory_mb + 40
        assert with_child.cpu > 0
    finally:
        child.kill()
        child.wait()
