package weir;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What each part of a stream is told of the events that other parts get: how far their partitions have come. So whose
 * results go by marks of partitions has these at each of its events where they are for who gets all events. {@code
 * workers/library/watermarks.py} says what marks are, and takes in what is told.
 *
 * <p>Of one batch: what it tells adds to what was told before, and a repeated batch tells the same. What comes between two
 * events of a part is told in stretches, in which each partition has one entry: its furthest time and latest arrival. In a
 * stretch it must not matter who came first. So it ends before a partition comes that may have been silent: until then
 * others need not wait for that one. And it is shorter than any silence.
 */
final class PartitionMarks {
  static final String TOLD = "_weir_marks";
  private static final long NO_EVENT = -1; // the number of a row that is there for what it tells alone
  private static final int NUMBER_BITS = 42; // of an event's number; those above are its partition's
  // Half of the shortest silence after which a partition is waited for no more: of arrivals in a stretch, and before it.
  private static final long STRETCH_MS = 500;

  private final StructType schema;
  private final long aheadMs;
  private final int seq;
  private final int time;
  private final int born;
  private final Untold[] parts;
  private final Map<Long, Long> arrivals = new HashMap<>(); // the latest of each partition, in this batch
  private long clock = Long.MIN_VALUE;

  PartitionMarks(StructType schema, long aheadMs, int count) {
    this.schema = schema;
    this.aheadMs = aheadMs;
    seq = schema.fieldIndex("_seq");
    time = schema.fieldIndex("_time");
    born = schema.fieldIndex("_born");
    parts = new Untold[count];
    for (int i = 0; i < count; i++) parts[i] = new Untold();
  }

  /** The schema of a part that is told. */
  static StructType told(StructType schema) {
    return schema.add(TOLD, DataTypes.StringType, true);
  }

  /** Notes an event, and gives what the part that gets it is to be told before it; null for nothing. */
  UTF8String before(InternalRow event, int part) {
    long partition = event.getLong(seq) >> NUMBER_BITS;
    long arrival = event.getLong(born);
    long reach = Math.min(event.getLong(time), arrival + aheadMs);
    clock = Math.max(clock, arrival);
    Long latest = arrivals.put(partition, arrival);
    boolean mayHaveBeenSilent = latest == null || clock - latest >= STRETCH_MS;
    if (latest != null && latest > arrival) arrivals.put(partition, latest);
    UTF8String text = parts[part].take();
    for (int i = 0; i < parts.length; i++) if (i != part) parts[i].note(partition, reach, arrival, mayHaveBeenSilent, clock);
    return text;
  }

  /** A row that is no event, with what a part has to be told behind its last one; null for nothing. */
  InternalRow behind(int part) {
    UTF8String text = parts[part].take();
    if (text == null) return null;
    GenericInternalRow row = new GenericInternalRow(schema.length() + 1);
    row.update(seq, NO_EVENT);
    row.update(time, 0L);
    row.update(born, 0L);
    row.update(schema.length(), text);
    return row;
  }

  /** What one part is to be told. */
  private static final class Untold {
    private final StringBuilder text = new StringBuilder();
    private final Map<Long, long[]> reached = new LinkedHashMap<>(); // of this stretch: furthest time and latest arrival
    private long began;

    void note(long partition, long reach, long arrival, boolean mayHaveBeenSilent, long clock) {
      if (mayHaveBeenSilent || clock - began >= STRETCH_MS) write();
      if (reached.isEmpty()) began = clock;
      long[] own = reached.get(partition);
      if (own == null) reached.put(partition, new long[] {reach, arrival});
      else {
        own[0] = Math.max(own[0], reach);
        own[1] = Math.max(own[1], arrival);
      }
    }

    UTF8String take() {
      write();
      if (text.length() == 0) return null;
      UTF8String all = UTF8String.fromString(text.toString());
      text.setLength(0);
      return all;
    }

    private void write() {
      reached.forEach((partition, own) -> {
        if (text.length() > 0) text.append(';');
        text.append(partition).append(',').append(own[0]).append(',').append(own[1]);
      });
      reached.clear();
    }
  }
}
