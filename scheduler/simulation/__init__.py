"""Dataflows whose tasks have alternates, on machines that are rented: what they bring and what they cost, as chapter 4
of Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, states the problem.

Begin with ``elastic``, the values; ``problem`` has the equations. It imports the model alone.
"""
