"""Adaptation: which alternates, how many cores, on which rented machines, now and for the time ahead.

After Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, chapters 4 and 5. May import
the model and ``scheduler.simulation``, which states the problem. Read ``adaptation_port`` first, then
``placement_draft`` and ``greedy_deployment``; ``adaptation_registry`` has all algorithms.
"""
