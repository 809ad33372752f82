"""One contract, two implementations: what a channel, ticks and a valve promise, in Java and in Python."""
