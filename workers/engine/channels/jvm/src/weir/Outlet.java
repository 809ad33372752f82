package weir;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

/** Publishes the events of one batch: all of them in the stream's channel, or each in one of a reader's parts. */
final class Outlet {
  private final Valve.Spec spec;
  private final Broker broker;
  private final long batch;
  private final long wave;
  private final List<String> channels;
  private final BlockWriter[] writers; // made with a part's first event
  private final Partitioning.Partitioner partitioner; // null for the whole stream

  /** The whole stream. */
  Outlet(Valve.Spec spec, Broker broker, long batch, long wave) {
    this(spec, broker, batch, wave, List.of(spec.channel), null);
  }

  /** One reader's parts of it. */
  Outlet(Valve.Spec spec, Broker broker, long batch, long wave, Partitioning how) {
    this(spec, broker, batch, wave, how.parts(), how.partitioner(batch, spec.schema));
  }

  private Outlet(
      Valve.Spec spec, Broker broker, long batch, long wave, List<String> channels, Partitioning.Partitioner partitioner) {
    this.wave = wave;
    this.spec = spec;
    this.broker = broker;
    this.batch = batch;
    this.channels = channels;
    this.partitioner = partitioner;
    writers = new BlockWriter[channels.size()];
  }

  void add(InternalRow event) {
    int part = partitioner == null ? 0 : partitioner.next(event);
    if (writers[part] == null) writers[part] = new BlockWriter(spec, channels.get(part), broker, batch, wave);
    writers[part].add(event);
  }

  /** Writes what there is as blocks, everywhere, and waits for all of it at once. */
  static void flush(List<Outlet> outlets) {
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
    List<BlockWriter> open = open(outlets);
    try {
      if (complete) open.forEach(BlockWriter::finish);
      if (complete) open.forEach(BlockWriter::awaitReplies);
    } finally {
      open.forEach(BlockWriter::close);
    }
  }
}
