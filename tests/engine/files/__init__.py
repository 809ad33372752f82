"""Files of sinks: exactly once with ends between any two changes of the disk, Spark's old folders, retention."""
