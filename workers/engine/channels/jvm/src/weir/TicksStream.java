package weir;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Ticks: which sequence numbers are due. Everything about a batch follows from its offsets, so that a batch repeated
 * after a failure is the same batch: {@code t0} is part of the offset, and the clock is read only to plan.
 */
final class TicksStream extends LiveStream {
  private static final int BATCH_ROWS = 4_096;
  private static final long ASK_MS = 50; // how often an open batch asks whether it is held back

  private final Schedule schedule;
  private final long catchUpMs;
  private TicksOffset begin; // null: now, with number 0
  private boolean isHeldBack;
  private boolean isRepeated; // the batch that was planned last is one that another query has planned

  TicksStream(CaseInsensitiveStringMap options, String checkpoint) {
    super(options, checkpoint, false, List.of());
    schedule = Schedule.of(options);
    boolean skips = schedule instanceof Schedule.Constant && schedule.size() == Long.MAX_VALUE;
    catchUpMs = skips ? options.getLong("catch_up_ms", 300_000) : Long.MAX_VALUE;
    begin = options.containsKey("begin") ? TicksOffset.parse(options.get("begin")) : null;
  }

  @Override
  public Offset initialOffset() {
    if (gate != null) return TicksOffset.NOT_BEGUN;
    return begin != null ? begin : new TicksOffset(System.currentTimeMillis(), 0);
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (openMs > 0) return opens(start);
    long deadline = System.currentTimeMillis() + backpressure.pace.waitMs(waitMs);
    if (gate != null && !gate.isOpen()) {
      if (!gate.opens(bell, deadline)) return start;
      takeBeginning();
    }
    if (begin == null && !((TicksOffset) start).hasBegun()) begin = new TicksOffset(System.currentTimeMillis(), 0);
    TicksOffset from = afterPause(begun((TicksOffset) start));
    if (from.next >= schedule.size()) return start;
    if (!backpressure.isDue(bell, deadline, false)) return start;
    String known = ranges == null ? "" : ranges.known(from.json());
    isRepeated = !known.isEmpty();
    if (isRepeated) return TicksOffset.parse(known);
    while (true) {
      bell.heard();
      long now = System.currentTimeMillis();
      long nextDue = from.t0 + schedule.dueMs(from.next);
      boolean due = nextDue <= now;
      if (due && !backpressure.applies(broker.pipeline(List.<Object[]>of(backpressure.question())).get(0))) {
        backpressure.pace.begins(now);
        TicksOffset end = advance(from, now);
        return ranges == null ? end : TicksOffset.parse(ranges.recorded(from.json(), end.json()));
      }
      if (due && backpressure.isPaused()) return start;
      // Until the next number is due, or backpressure may have ended.
      long until = due ? deadline : Math.min(deadline, nextDue);
      boolean rang = bell.await(until - now);
      if (!rang && System.currentTimeMillis() >= deadline) return start;
    }
  }

  private void takeBeginning() {
    String told = gate.says("source_offset");
    if (told != null) begin = TicksOffset.parse(told);
  }

  /** In real-time mode: waits until a batch may be opened. Where it ends is known when it has ended. */
  private Offset opens(Offset start) {
    if (gate != null && !gate.isOpen()) {
      if (!gate.waits(bell)) return start;
      takeBeginning();
    }
    if (begin == null && !((TicksOffset) start).hasBegun()) begin = new TicksOffset(System.currentTimeMillis(), 0);
    backpressure.awaitTurn(bell);
    askedAt = 0;
    return start;
  }

  @Override
  public Offset ask(Offset start, boolean rang) {
    long now = System.currentTimeMillis();
    if (rang || now - askedAt >= ASK_MS) {
      askedAt = now;
      isHeldBack = backpressure.applies(broker.pipeline(List.<Object[]>of(backpressure.question())).get(0));
    }
    TicksOffset from = afterPause(begun((TicksOffset) start));
    boolean isDue = from.next < schedule.size() && from.t0 + schedule.dueMs(from.next) <= now;
    return isDue && !isHeldBack ? advance(from, now) : start;
  }

  @Override
  public long dueMs(Offset start) {
    TicksOffset from = afterPause(begun((TicksOffset) start));
    if (from.next >= schedule.size()) return Long.MAX_VALUE;
    return Math.max(from.t0 + schedule.dueMs(from.next), isHeldBack ? askedAt + ASK_MS : 0);
  }

  @Override
  public PartitionReader<ColumnarBatch> open(Offset from, Offset to) {
    TicksOffset end = (TicksOffset) to;
    return new Reader(new Range(schedule, end.t0, begun((TicksOffset) from).next, end.next));
  }

  @Override
  public Offset offset(String json) {
    return TicksOffset.parse(json);
  }

  @Override
  public boolean isToEnd(long batch, long openedAt) {
    return backpressure.endsBatch(batch, openedAt);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    Waves.begin(this, start, start);
    return new InputPartition[] {new LiveReader.Partition(id, start)};
  }

  /** Where a batch starts whose checkpoint says no number, for it stood by then: where it was told to begin. */
  private TicksOffset begun(TicksOffset from) {
    if (from.hasBegun()) return from;
    return begin != null ? begin : new TicksOffset(from.t0, 0);
  }

  /** After a pause, until the next number is planned, it is due later than the offset of the last batch says. */
  private TicksOffset afterPause(TicksOffset from) {
    return begin != null && begin.next == from.next && begin.t0 > from.t0 ? begin : from;
  }

  private TicksOffset advance(TicksOffset from, long now) {
    long behind = now - from.t0 - schedule.dueMs(from.next);
    // After a long pause a rate without an end goes on from now, instead of sending what it missed all at once.
    long t0 = behind > catchUpMs ? from.t0 + behind : from.t0;
    return new TicksOffset(t0, schedule.dueBy(now - t0, from.next, from.next + maxRows));
  }

  @Override
  public void begins(String run, long batch, Offset start, Offset end) {
    if (stamp != null) stamp.begins(run, batch, isRepeated);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    backpressure.pace.isPlanned();
    Waves.begin(this, start, end);
    TicksOffset to = (TicksOffset) end;
    return new InputPartition[] {new Range(schedule, to.t0, begun((TicksOffset) start).next, to.next)};
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return openMs > 0 ? new LiveReader.Factory() : new Factory();
  }

  @Override
  public void commit(Offset end) {
    // Ticks are made, not kept: nothing can be freed.
  }

  @Override
  public String toString() {
    return "weir ticks";
  }

  private static final class Range implements InputPartition {
    final Schedule schedule;
    final long t0;
    final long start;
    final long end;

    Range(Schedule schedule, long t0, long start, long end) {
      this.schedule = schedule;
      this.t0 = t0;
      this.start = start;
      this.end = end;
    }
  }

  private static final class Factory implements PartitionReaderFactory {
    @Override
    public boolean supportColumnarReads(InputPartition partition) {
      return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new Reader((Range) partition);
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("ticks are read as columns");
    }
  }

  private static final class Reader implements PartitionReader<ColumnarBatch> {
    private final Range range;
    private ColumnarBatch batch;
    private long seq;

    Reader(Range range) {
      this.range = range;
      seq = range.start;
    }

    /** In columns of their own each time: an Arrow UDF takes those that it passes through again when others are read. */
    @Override
    public boolean next() {
      int rows = (int) Math.min(BATCH_ROWS, range.end - seq);
      if (rows <= 0) return false;
      OnHeapColumnVector[] columns = OnHeapColumnVector.allocateColumns(rows, TicksProvider.SCHEMA);
      for (int i = 0; i < rows; i++, seq++) {
        columns[0].putLong(i, seq);
        columns[1].putLong(i, range.schedule.timeMs(seq, range.t0));
        columns[2].putLong(i, range.t0 + range.schedule.dueMs(seq));
      }
      batch = new ColumnarBatch(columns, rows);
      return true;
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    public void close() {
      batch = null;
    }
  }
}
