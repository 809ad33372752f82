"""Replay: the controllers themselves, round by round, over an estate in played time and load that was recorded or made.

Pure. It is above all that it drives: controllers, their evidence, plans and the simulation. Read ``playing.py`` first;
``flow.py`` has the queues and the CPU, ``played_world.py`` the ports, ``played_enacting.py`` the plans,
``slow_chains.py`` and ``played_profiles.py`` what isolation and re-measuring read.
"""
