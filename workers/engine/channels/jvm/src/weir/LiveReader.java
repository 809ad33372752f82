package weir;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads an open batch: group after group of events, as they come. When Spark asks for the event behind a group's last, all
 * of the group has been through every valve of the query: they publish it then ({@link OpenBatch}).
 */
final class LiveReader implements SupportsRealTimeRead<InternalRow> {
  private static final long APART_MS = 5; // between the beginnings of two groups at least: each is a block for every reader
  private static final long MOST_APART_MS = 200; // whatever is asked for: a pause is seen when a group may begin
  private static final long ASK_ANYWAY_MS = 1_000; // a lost message costs a second at most
  private static final Map<String, Live> SOURCES = new ConcurrentHashMap<>(); // of this JVM, by id

  /** Lets tasks find a source. */
  static void register(String id, Live source) {
    SOURCES.put(id, source);
  }

  static void forget(String id) {
    SOURCES.remove(id);
  }

  /** The one partition of an open batch. */
  static final class Partition implements InputPartition {
    private final String source;
    private final String start;

    Partition(String source, Offset start) {
      this.source = source;
      this.start = start.json();
    }
  }

  /** Makes the reader where the task runs. */
  static final class Factory implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new LiveReader((Partition) partition);
    }
  }

  /** Where the batch has ended. */
  static final class End implements PartitionOffset {
    final String json;

    private End(String json) {
      this.json = json;
    }

    /** The end of the one partition that there is. */
    static String of(PartitionOffset[] ends) {
      if (ends.length != 1) throw new IllegalStateException("an open batch has one partition, not " + ends.length);
      return ((End) ends[0]).json;
    }
  }

  private final Live source;
  private final long batch;
  private final OpenBatch valves;
  private Journal journal; // null where the query stands by
  private Offset at;
  private PartitionReader<ColumnarBatch> group;
  private Iterator<InternalRow> rows = Collections.emptyIterator();
  private InternalRow row;
  private boolean isRepeated; // the group that is open
  private long openedAt; // when the first group was opened; 0 before
  private long groupAt;
  private long askedAt;
  private long waitedMs;
  private long events;

  private LiveReader(Partition partition) {
    source = SOURCES.get(partition.source);
    if (source == null) throw new IllegalStateException("real-time mode needs driver and executor in one process");
    TaskContext context = TaskContext.get();
    batch = Long.parseLong(context.getLocalProperty("streaming.sql.batchId"));
    at = source.offset(partition.start);
    valves = OpenBatch.begin(context);
    context.addTaskCompletionListener((TaskCompletionListener) done -> free(done));
    source.bell().ring(); // for what has come while the batch was planned
  }

  @Override
  public SupportsRealTimeRead.RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) throws IOException {
    return SupportsRealTimeRead.RecordStatus.newStatusWithoutArrivalTime(advance(startMs + timeoutMs));
  }

  @Override
  public boolean next() {
    throw new UnsupportedOperationException("an open batch is read with a timeout");
  }

  private boolean advance(long deadline) throws IOException {
    if (source.standsBy()) return false;
    if (journal == null) journal = new Journal(source.journals(), batch);
    while (true) {
      while (rows.hasNext() || nextColumns()) {
        if (!rows.hasNext()) continue;
        row = rows.next();
        events++;
        source.moves(waitedMs);
        return true;
      }
      Offset to = nextGroup(deadline);
      if (to == null) return false;
      group = source.open(at, to);
      at = to;
      groupAt = System.currentTimeMillis();
      if (openedAt == 0) openedAt = groupAt;
    }
  }

  /** The next events of the open group; false behind its last ones, when all have been through the query. */
  private boolean nextColumns() throws IOException {
    if (group == null) return false;
    if (group.next()) {
      rows = group.get().rowIterator();
      return true;
    }
    closeGroup();
    valves.endGroup(!isRepeated);
    return false;
  }

  /**
   * Where the next group ends: one that was read before the batch was repeated, or what comes; null ends the batch. A batch
   * that is repeated ends where it had ended before: what it has read frees no room in its channels before it is over.
   */
  private Offset nextGroup(long deadline) throws IOException {
    String written = journal.next();
    if (written == null && isRepeated) return null;
    isRepeated = written != null;
    if (isRepeated) return source.offset(written);
    Offset to = await(deadline);
    if (to != null) journal.add(to.json());
    return to;
  }

  private Offset await(long deadline) {
    while (true) {
      long now = System.currentTimeMillis();
      source.moves(waitedMs);
      long begins = groupAt + Math.min(Math.max(APART_MS, source.apartMs()), MOST_APART_MS);
      if (now < begins) {
        sleep(begins - now);
        waitedMs += System.currentTimeMillis() - now;
        continue;
      }
      boolean hasFew = events < source.openEvents(); // or none
      long until = hasFew ? deadline : Math.min(deadline, openedAt + source.openMs());
      if (now >= until || source.isToEnd(batch, openedAt)) return null;
      boolean rang = source.bell().heard();
      if (rang || now >= source.dueMs(at) || now - askedAt >= ASK_ANYWAY_MS) {
        askedAt = now;
        Offset to = source.ask(at, rang);
        if (to != at) return to;
        continue;
      }
      source.bell().await(Math.min(Math.min(until, askedAt + ASK_ANYWAY_MS), source.dueMs(at)) - now);
      waitedMs += System.currentTimeMillis() - now;
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stopped) {
      throw Broker.<RuntimeException>asItIs(stopped);
    }
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public PartitionOffset getOffset() {
    return new End(at.json());
  }

  @Override
  public void close() {}

  private void closeGroup() throws IOException {
    PartitionReader<ColumnarBatch> done = group;
    group = null;
    rows = Collections.emptyIterator();
    if (done != null) done.close();
  }

  private void free(TaskContext context) {
    OpenBatch.halt(context);
    try {
      closeGroup();
      source.waited(waitedMs);
      if (journal != null) journal.close();
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
  }
}
