package weir;

import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A source as an open batch asks it. In real-time mode Spark leaves a batch open for seconds, and its one task takes what
 * comes meanwhile; driver and task are one JVM.
 */
interface Live {
  /**
   * What can be read after an offset, at once; the same offset where there is nothing, or the query must not read.
   *
   * @param rang whether there may be something new to obey
   */
  Offset ask(Offset from, boolean rang);

  /** When something comes by itself that no bell tells of, in ms since the epoch. */
  long dueMs(Offset from);

  /** The events between two offsets. They are needed until the reader is closed. */
  PartitionReader<ColumnarBatch> open(Offset from, Offset to);

  /** An offset from its JSON. */
  Offset offset(String json);

  /**
   * Whether its batch should end with what it has, by what was heard when last asked.
   *
   * @param batch its number
   * @param openedAt when it got its first events, in ms since the epoch; 0 where it has none
   */
  boolean isToEnd(long batch, long openedAt);

  /** Whether its query stands by: then its batch is empty. */
  boolean standsBy();

  /** What rings when there may be something to read, or to obey. */
  Arrivals.Bell bell();

  /** The folder of the journals of its batches. */
  String journals();

  /** Notes for how long a batch that has ended waited for events, in ms. */
  void waited(long ms);

  /** What holds it back, paces it and sees it move: as its query's control says, which may change meanwhile. */
  Backpressure backpressure();

  /** For how long a batch stays open once it has events, in ms: one that has few stays open for longer. */
  long openMs();

  /** How many events are no longer few. */
  long openEvents();
}
