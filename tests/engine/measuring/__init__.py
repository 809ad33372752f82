"""What trials are made of, without Spark: figures from batches, events to feed, the broker's side of feeding."""
