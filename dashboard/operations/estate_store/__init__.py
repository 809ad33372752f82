"""The estate's rows: read into the scheduler's values, changed under its lock, and what is reserved of its slots.

Imports the models alone. Read ``estate_loader.py`` first, then ``estate_writer.py``, which takes plans into it.
"""
