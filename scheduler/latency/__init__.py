"""Latency that is promised: constraints, who watches them, and what is done where they are violated (paper [5])."""
