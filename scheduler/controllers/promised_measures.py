"""Measures that several controllers promise of queries and dataflows, and how exactly they can be told."""

CORES, LATENCY = "CPU of its queries", "latency, median"
LIMITED = "latency of its limit"  # as the limit counts it, mean or percentile
NOISE = 0.10  # of what is measured of CPU: two equal runs differ by as much
LATER, LATER_MS = 1.25, 100.0  # how much later than before events may come: a part, and a batch more
