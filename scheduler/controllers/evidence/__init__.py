"""Evidence: what controllers decide by, computed from values. A collector is named after what its controllers read.

``world.py`` has the ports: where values come from. The site implements them over its rows and reports, a replay over an
estate in played time. Read it first, then any collector; ``lines.py`` reads kept series.
"""
