package weir;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.types.StructType;

/** Publishes the events of one batch: all of them in the stream's channel, or each in one of a reader's parts. */
final class Outlet {
  private final Valve.Spec spec;
  private final Broker broker;
  private final long batch;
  private final long wave;
  private final List<String> channels;
  private final BlockWriter[] writers; // made with the first that a part gets
  private Partitioning.Partitioner partitioner; // null for the whole stream
  private String reader; // likewise
  private KeyCounts keys; // null where nothing is divided by keys
  private PartitionMarks marks; // null where parts are not told of each other's partitions

  /** The whole stream. */
  Outlet(Valve.Spec spec, Broker broker, long batch, long wave) {
    this(spec, broker, batch, wave, List.of(spec.channel));
  }

  /** One reader's parts of it. */
  Outlet(Valve.Spec spec, Broker broker, long batch, long wave, Partitioning how, String reader) {
    this(spec, broker, batch, wave, how.parts());
    this.reader = reader;
    partitioner = how.partitioner(batch, spec.schema, () -> keys = KeyCounts.of(broker, spec.fragment, reader));
    marks = how.marks(spec.schema);
  }

  private Outlet(Valve.Spec spec, Broker broker, long batch, long wave, List<String> channels) {
    this.wave = wave;
    this.spec = spec;
    this.broker = broker;
    this.batch = batch;
    this.channels = channels;
    writers = new BlockWriter[channels.size()];
  }

  void add(InternalRow event) {
    int part = partitioner == null ? 0 : partitioner.next(event);
    if (marks == null) writer(part).add(event);
    else writer(part).add(new JoinedRow(event, new GenericInternalRow(new Object[] {marks.before(event, part)})));
  }

  private BlockWriter writer(int part) {
    if (writers[part] == null) {
      StructType schema = marks == null ? spec.schema : PartitionMarks.told(spec.schema);
      writers[part] = new BlockWriter(spec, schema, channels.get(part), broker, batch, wave);
    }
    return writers[part];
  }

  /** Tells each part what it has not been told of the events of others. */
  private void tell() {
    for (int part = 0; marks != null && part < writers.length; part++) {
      InternalRow row = marks.behind(part);
      if (row != null) writer(part).add(row);
    }
  }

  /** Tells of the keys that its events had, where these divide them. */
  void reportKeys() {
    if (keys != null) keys.report(broker.meters, spec.fragment, reader);
  }

  /** Writes what there is as blocks, everywhere, and waits for all of it at once. */
  static void flush(List<Outlet> outlets) {
    outlets.forEach(Outlet::tell);
    List<BlockWriter> open = open(outlets);
    open.forEach(BlockWriter::finish);
    open.forEach(BlockWriter::settle);
  }

  private static List<BlockWriter> open(List<Outlet> outlets) {
    List<BlockWriter> open = new ArrayList<>();
    for (Outlet outlet : outlets) for (BlockWriter writer : outlet.writers) if (writer != null) open.add(writer);
    return open;
  }

  /** Writes what is left everywhere, and then waits for all of it at once; or lets it go where the task failed. */
  static void close(List<Outlet> outlets, boolean complete) {
    if (complete) outlets.forEach(Outlet::tell);
    List<BlockWriter> open = open(outlets);
    try {
      if (complete) open.forEach(BlockWriter::finish);
      if (complete) open.forEach(BlockWriter::awaitReplies);
    } finally {
      open.forEach(BlockWriter::close);
    }
  }
}
