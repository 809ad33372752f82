"""Controllers: what adapts the estate by itself, as one loop. Collect, evaluate, propose or act, check, keep or roll
back.

Pure: values in, values out. Imports the algorithm families and the model. Read ``loop_values.py`` first, then
``controller_port.py`` and ``control_loop.py``; ``controller_registry.py`` lists the controllers, ``evidence`` computes
their inputs.
"""
