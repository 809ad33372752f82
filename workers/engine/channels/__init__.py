"""Channels: durable, bounded streams of Arrow blocks over Redis Streams, read and written exactly once by Spark.

May import ``scheduler.model``, redis and pyarrow; pyspark only in ``spark.py`` and the Python sources and sink.
Read ``docs/channels.md`` first, then ``registry.py`` and ``spark.py``: the two faces that other packages use.
"""
