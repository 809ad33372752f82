"""Channels: durable, bounded streams of Arrow blocks over Redis Streams, read and written exactly once by Spark.

Data goes through the Java side in ``jvm/``. May import ``scheduler.model``, redis and pyarrow, and pyspark in
``spark_channels.py`` alone.
Read ``docs/channels.md`` first, then ``channel_registry.py`` and ``spark_channels.py``: the two faces that other
packages use.
"""
