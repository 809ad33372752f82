"""Apache Flink beside Weir, as its Python package brings it: one JobManager, one TaskManager, jobs in Java."""
