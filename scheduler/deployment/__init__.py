"""Online task deployment (OTD, paper [4], section 5): which bundle moves to which slot, one a round.

Imports nothing of the site or the engine. Read ``deployed_bundles.py`` first, then ``online.py``.
"""
