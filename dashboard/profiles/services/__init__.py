"""Writing profiles and sweeps: importing, asking for sweeps and steering them, and driving them trial by trial.

Every public function enters ``audited``. Read ``sweeps.py`` first, then ``sweep_driver.py``.
"""
