"""History: what was measured over time, as series in three grains, and what happened meanwhile, as annotations.

Imports the model and NumPy alone. Read ``series.py`` first, then ``port.py``; ``memory_history.py`` keeps a history in
memory.
"""
