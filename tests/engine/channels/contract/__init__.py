"""The contract of channels: what a channel, ticks and a valve promise, asked of Spark and the Java side."""
