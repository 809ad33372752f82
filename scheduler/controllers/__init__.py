"""Controllers: what adapts the estate by itself, as one loop. Collect, evaluate, propose or act, check, keep or roll
back.

Pure: values in, values out. Imports the algorithm families and the model. Read ``values.py`` first, then
``protocol.py`` and ``engine.py``; ``registry.py`` has every controller that there is, ``evidence`` what they are told.
"""
