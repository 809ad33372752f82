package weir;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the blocks of one partition of one batch as columns, without copying them into rows first. */
final class ChannelReader implements PartitionReader<ColumnarBatch> {
  private static final int FETCH_BLOCKS = 32;

  /** The entries after {@code start} up to {@code end}, both of one channel. */
  static final class Range implements InputPartition {
    final String url;
    final String stream;
    final String channel;
    final String reader;
    final String start;
    final String end;
    final long plannedMs;

    Range(String url, String stream, String channel, String reader, String start, String end, long plannedMs) {
      this.url = url;
      this.stream = stream;
      this.channel = channel;
      this.reader = reader;
      this.start = start;
      this.end = end;
      this.plannedMs = plannedMs;
    }
  }

  /** Makes readers where the tasks run. */
  static final class Factory implements PartitionReaderFactory {
    private final StructType schema;

    Factory(StructType schema) {
      this.schema = schema;
    }

    @Override
    public boolean supportColumnarReads(InputPartition partition) {
      return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new ChannelReader(schema, (Range) partition);
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("channels are read as columns");
    }
  }

  private final StructType schema;
  private final Range range;
  private final Broker broker;
  private final BufferAllocator allocator;
  private final Map<String, Long> meters = new HashMap<>();
  private Iterator<Block> fetched;
  private String after;
  private ArrowStreamReader block;
  private ColumnarBatch batch;

  private ChannelReader(StructType schema, Range range) {
    this.schema = schema;
    this.range = range;
    broker = Broker.at(range.url);
    allocator = ArrowUtils.rootAllocator().newChildAllocator("weir " + range.channel, 0, Long.MAX_VALUE);
    List<Block> ahead = ReadAhead.take(range.stream, range.channel, range.end);
    fetched = ahead == null ? new ArrayList<Block>().iterator() : ahead.iterator();
    after = range.start;
  }

  @Override
  public boolean next() throws IOException {
    while (block == null || !block.loadNextBatch()) {
      closeBlock();
      if (after.equals(range.end)) return false;
      if (!fetched.hasNext()) fetched = fetch();
      Block next = fetched.next();
      after = next.id;
      meter(next);
      block = new ArrowStreamReader(new ByteArrayInputStream(next.payload), allocator);
    }
    VectorSchemaRoot root = block.getVectorSchemaRoot();
    batch = new ColumnarBatch(columns(root), root.getRowCount());
    return true;
  }

  private Iterator<Block> fetch() {
    List<Object[]> commands = new ArrayList<>();
    commands.add(new Object[] {"HMGET", Keys.meta(range.channel), "trimmed", "last"});
    commands.add(new Object[] {"XRANGE", Keys.channel(range.channel), "(" + after, range.end, "COUNT", FETCH_BLOCKS});
    List<Object> replies = broker.pipeline(commands);
    checkUnbroken(range.channel, after, (List<?>) replies.get(0));
    List<Block> blocks = new ArrayList<>();
    for (Object entry : (List<?>) replies.get(1)) blocks.add(Block.of(entry));
    if (blocks.isEmpty()) throw lost(range.channel, "entries after " + after + " up to " + range.end + " are gone");
    return blocks.iterator();
  }

  /** Columns by name; one that the block lacks is an error, because an event would lose a part of itself. */
  private ColumnVector[] columns(VectorSchemaRoot root) {
    ColumnVector[] columns = new ColumnVector[schema.length()];
    List<FieldVector> vectors = root.getFieldVectors();
    for (int i = 0; i < columns.length; i++) {
      String name = schema.fields()[i].name();
      // Written with the same schema as a rule: then the position is right, and names may even repeat.
      FieldVector vector = i < vectors.size() && vectors.get(i).getName().equals(name) ? vectors.get(i) : root.getVector(name);
      if (vector == null) throw new IllegalStateException("channel " + range.channel + " has no column " + name);
      columns[i] = new ArrowColumnVector(vector);
    }
    return columns;
  }

  private void meter(Block next) {
    long now = System.currentTimeMillis();
    meters.merge("in:n", next.events, Long::sum);
    meters.merge("in:bytes", (long) next.payload.length, Long::sum);
    meters.merge("in:chan:" + Meters.bucket(now - next.writtenMs), 1L, Long::sum);
    meters.merge("in:wait:" + Meters.bucket(range.plannedMs - next.writtenMs), 1L, Long::sum);
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    closeBlock();
    allocator.close();
    if (!meters.isEmpty()) broker.meters.add(range.reader, meters);
  }

  private void closeBlock() throws IOException {
    batch = null;
    if (block != null) block.close(); // with its vectors, and so the columns of the last batch
    block = null;
  }

  /** Fails where entries after {@code start} are no longer there: skipping them would lose events silently. */
  static void checkUnbroken(String channel, String start, List<?> trimmedAndLast) {
    String trimmed = Redis.text(trimmedAndLast.get(0));
    String last = Redis.text(trimmedAndLast.get(1));
    if (trimmed != null && ChannelOffset.compare(start, trimmed) < 0) {
      throw lost(channel, "this reader is at " + start + ", but everything up to " + trimmed + " was freed");
    }
    if (ChannelOffset.compare(start, last == null ? "0-0" : last) > 0) {
      throw lost(channel, "this reader is at " + start + ", but the channel ends at " + last);
    }
  }

  private static IllegalStateException lost(String channel, String how) {
    return new IllegalStateException("WEIRGAP channel " + channel + " lost events: " + how
        + "; the broker lost data, or the reader was unregistered and restarted from an old checkpoint");
  }
}
