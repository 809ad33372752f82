"""The data source and the valve of channels, in Java, compiled against PySpark's own jars.

Imports nothing of Weir but the scripts in ``channels/lua``. Read ``src/weir/ChannelStream.java`` and ``Valve.java``
first; ``build.py`` makes the jar.
"""
