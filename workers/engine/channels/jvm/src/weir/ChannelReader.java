package weir;

import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads the blocks of one slice of one batch as columns, without copying them into rows first. Columns stay until the
 * task is over: an Arrow UDF takes those that it passes through again when the next ones, or the last, are read already.
 */
final class ChannelReader implements PartitionReader<ColumnarBatch> {
  private static final int FETCH_BLOCKS = 32;

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
      return new ChannelReader(schema, (Slice) partition, true);
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("channels are read as columns");
    }
  }

  private final StructType schema;
  private final Slice slice;
  private final boolean staysWhole; // until the task is over
  private final Broker broker;
  private final BufferAllocator allocator;
  private final Map<String, Long> meters = new HashMap<>();
  private final Map<String, Long> channelMeters = new HashMap<>();
  private final Iterator<Slice.Piece> pieces;
  private Slice.Piece piece;
  private Iterator<Block> fetched;
  private String after;
  private long skip; // events of the piece that are still to be left out
  private long left; // events of the piece that are still to come
  private ArrowStreamReader block;
  private final List<VectorSchemaRoot> shown = new ArrayList<>();
  private ColumnarBatch batch;

  /** Of a group of an open batch: nothing takes its columns again, and they go when it is closed. */
  static ChannelReader ofGroup(StructType schema, Slice slice) {
    return new ChannelReader(schema, slice, false);
  }

  private ChannelReader(StructType schema, Slice slice, boolean staysWhole) {
    this.schema = schema;
    this.staysWhole = staysWhole;
    this.slice = slice;
    broker = Broker.at(slice.url);
    allocator = ArrowUtils.rootAllocator().newChildAllocator("weir " + slice.reader, 0, Long.MAX_VALUE);
    pieces = slice.pieces.iterator();
    if (staysWhole) TaskContext.get().addTaskCompletionListener((TaskCompletionListener) done -> free());
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      while (block != null && left > 0 && block.loadNextBatch()) if (show(block.getVectorSchemaRoot())) return true;
      closeBlock();
      if ((piece == null || left == 0 || after.equals(piece.end)) && !nextPiece()) return false;
      if (!fetched.hasNext()) fetched = fetch(broker, slice.spill, slice.reader, piece.channel, after, piece.end).iterator();
      open(fetched.next());
    }
  }

  private boolean nextPiece() {
    if (!pieces.hasNext()) return false;
    piece = pieces.next();
    after = piece.start;
    skip = piece.skip;
    left = piece.take;
    List<Block> ahead = ReadAhead.take(slice.stream, piece.channel, piece.start, piece.end);
    fetched = ahead == null ? Collections.emptyIterator() : ahead.iterator();
    return true;
  }

  private void open(Block next) {
    after = next.id;
    block = CheckedBlock.open(piece.channel, next, allocator);
    meter(next); // as many events as it says it has
  }

  /** Shows the wanted events of those that were loaded; false where there are none. */
  private boolean show(VectorSchemaRoot loaded) {
    int rows = loaded.getRowCount();
    int from = (int) Math.min(skip, rows);
    int count = (int) Math.min(left, rows - from);
    skip -= from;
    left -= count;
    if (count == 0) return false;
    VectorSchemaRoot taken = taken(loaded, from, count);
    shown.add(taken);
    batch = new ColumnarBatch(columns(taken), count);
    return true;
  }

  /** Some of the events, in vectors of their own: what was loaded makes room for what comes next. */
  private VectorSchemaRoot taken(VectorSchemaRoot loaded, int from, int count) {
    List<FieldVector> vectors = new ArrayList<>();
    for (FieldVector vector : loaded.getFieldVectors()) {
      TransferPair pair = vector.getTransferPair(allocator);
      pair.splitAndTransfer(from, count);
      vectors.add((FieldVector) pair.getTo());
    }
    return new VectorSchemaRoot(loaded.getSchema().getFields(), vectors, count);
  }

  /** Some of the blocks after an entry, up to another; at least one. */
  static List<Block> fetch(Broker broker, String spill, String reader, String channel, String after, String end) {
    List<Object[]> commands = new ArrayList<>();
    commands.add(new Object[] {"HMGET", Keys.meta(channel), "trimmed", "last", Keys.spill(reader)});
    commands.add(new Object[] {"XRANGE", Keys.channel(channel), "(" + after, end, "COUNT", FETCH_BLOCKS});
    List<Object> replies = broker.pipeline(commands, Block.MOST_BYTES, 1);
    List<?> state = (List<?>) replies.get(0);
    String reach = Spill.reach(after, Redis.text(state.get(0)), Redis.text(state.get(2)));
    List<Block> blocks = new ArrayList<>();
    if (reach == null) {
      checkUnbroken(channel, after, state);
      blocks.addAll(Block.listOf(replies.get(1)));
    } else {
      String last = ChannelOffset.compare(reach, end) < 0 ? reach : end;
      blocks.addAll(Spill.at(spill).fetch(channel, after, last, FETCH_BLOCKS));
    }
    if (blocks.isEmpty()) throw lost(channel, "entries after " + after + " up to " + end + " are gone");
    return blocks;
  }

  /**
   * Columns by name; one that the block lacks is an error, because an event would lose a part of itself. Where its writer
   * did not tell of partitions, it told nothing.
   */
  private ColumnVector[] columns(VectorSchemaRoot root) {
    ColumnVector[] columns = new ColumnVector[schema.length()];
    List<FieldVector> vectors = root.getFieldVectors();
    for (int i = 0; i < columns.length; i++) {
      String name = schema.fields()[i].name();
      // Written with the same schema as a rule: then the position is right, and names may even repeat.
      FieldVector vector = i < vectors.size() && vectors.get(i).getName().equals(name) ? vectors.get(i) : root.getVector(name);
      if (vector == null && name.equals(PartitionMarks.TOLD)) {
        columns[i] = new ConstantColumnVector(root.getRowCount(), DataTypes.StringType);
        ((ConstantColumnVector) columns[i]).setNull();
        continue;
      }
      if (vector == null) throw new IllegalStateException("channel " + piece.channel + " has no column " + name);
      columns[i] = new ArrowColumnVector(inType(vector, schema.fields()[i].dataType()));
    }
    return columns;
  }

  /** Doubles of a version that had some whole numbers and decimals as such, in the type that their column has now. */
  private FieldVector inType(FieldVector vector, DataType type) {
    boolean isWhole = type instanceof LongType;
    if (!(vector instanceof Float8Vector) || !(isWhole || type instanceof DecimalType)) return vector;
    Float8Vector doubles = (Float8Vector) vector;
    StructType alone = new StructType().add(vector.getName(), type);
    FieldVector exact = ArrowUtils.toArrowSchema(alone, "UTC", false, false, false).getFields().get(0).createVector(allocator);
    exact.setInitialCapacity(doubles.getValueCount());
    exact.allocateNew();
    for (int row = 0; row < doubles.getValueCount(); row++) {
      if (doubles.isNull(row) || !Double.isFinite(doubles.get(row))) continue;
      if (isWhole) ((BigIntVector) exact).setSafe(row, (long) doubles.get(row));
      else {
        BigDecimal value = BigDecimal.valueOf(doubles.get(row)).setScale(((DecimalType) type).scale(), RoundingMode.HALF_EVEN);
        if (value.precision() <= ((DecimalType) type).precision()) ((DecimalVector) exact).setSafe(row, value);
      }
    }
    exact.setValueCount(doubles.getValueCount());
    shown.add(new VectorSchemaRoot(List.of(exact.getField()), List.of(exact), doubles.getValueCount()));
    return exact;
  }

  private void meter(Block next) {
    meters.merge("in:n", Math.min(next.events - Math.min(skip, next.events), left), Long::sum);
    if (skip > 0) return; // the slice before has metered the block
    long now = System.currentTimeMillis();
    meters.merge("in:bytes", (long) next.payload.length, Long::sum);
    meters.merge("in:chan:" + Meters.bucket(now - next.writtenMs), 1L, Long::sum);
    meters.merge("in:wait:" + Meters.bucket(slice.plannedMs - next.writtenMs), 1L, Long::sum);
    channelMeters.merge(piece.channel + ":blocks", 1L, Long::sum);
    channelMeters.merge(piece.channel + ":chan", Math.max(0, now - next.writtenMs), Long::sum);
    channelMeters.merge(piece.channel + ":wait", Math.max(0, slice.plannedMs - next.writtenMs), Long::sum);
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  public void close() throws IOException {
    closeBlock();
    if (!meters.isEmpty()) broker.meters.add(slice.reader, meters);
    if (!channelMeters.isEmpty()) broker.meters.addByChannel(slice.reader, channelMeters);
    if (!staysWhole) free();
  }

  private void free() {
    batch = null;
    shown.forEach(VectorSchemaRoot::close);
    allocator.close();
  }

  private void closeBlock() throws IOException {
    if (block != null) block.close();
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

  static IllegalStateException lost(String channel, String how) {
    return new IllegalStateException("WEIRGAP channel " + channel + " lost events: " + how
        + "; the broker lost data, or the reader was unregistered and restarted from an old checkpoint");
  }
}
