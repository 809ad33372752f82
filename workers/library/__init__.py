"""The task library: what each task type declares and the DataFrame function behind it, one file a family.

May import scheduler.model and the standard library; PySpark only inside build functions. Read ``registry.py`` first.
"""
