package weir;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;

/**
 * One batch of a fold at the fold host (workers/engine/spark/fold_host.py): begun with the states before the batch when the
 * first events are worked on, and saved at the end. A batch without events asks nothing of the host.
 *
 * <p>Messages either way are a length (4 bytes), a letter, and a body; of rows it is a record batch of Arrow's.
 */
final class FoldSession {
  private static final byte BEGIN = 'b', WORK = 'w', SAVE = 's', DONE = 'd';
  private static final int HEAD = 5;
  private static final long HOST_STARTS_MS = 120_000; // one that has died is started again, on a busy machine
  private static final long ASK_AGAIN_MS = 20;

  /** What does not change while a query runs. */
  static final class Spec implements Serializable {
    final StructType reads;
    final StructType gives;
    final String socket;
    final String folder;
    final byte[] definition;

    Spec(StructType reads, StructType gives, String socket, String folder, byte[] definition) {
      this.reads = reads;
      this.gives = gives;
      this.socket = socket;
      this.folder = folder;
      this.definition = definition;
    }
  }

  private final Spec spec;
  private final long batch;
  private final Function1<Object, Object> toCatalyst;
  private final Function1<Object, Object> toRow;
  private final ArrowWriter events;
  private int added;
  private SocketChannel host; // null before the first events

  FoldSession(Spec spec, long batch) {
    this.spec = spec;
    this.batch = batch;
    toCatalyst = CatalystTypeConverters.createToCatalystConverter(spec.reads);
    toRow = CatalystTypeConverters.createToScalaConverter(spec.gives);
    events = ArrowWriter.create(rootOf(spec.reads));
  }

  private static VectorSchemaRoot rootOf(StructType columns) {
    return VectorSchemaRoot.create(ArrowUtils.toArrowSchema(columns, "UTC", false), ArrowUtils.rootAllocator());
  }

  void add(Row event) {
    events.write((InternalRow) toCatalyst.apply(event));
    added++;
  }

  /** What the fold makes of the events that were added since the last time. */
  Iterator<Row> work() {
    if (added == 0) return Collections.emptyIterator();
    added = 0;
    try {
      if (host == null) begin();
      byte[] made = ask(WORK, packed());
      return made.length == 0 ? Collections.emptyIterator() : rowsOf(made).iterator();
    } catch (IOException failed) {
      throw lost(failed);
    }
  }

  /** Keeps the states as they are now, before Spark commits the batch. */
  void save() {
    if (host == null) return;
    try {
      ask(SAVE, new byte[0]);
    } catch (IOException failed) {
      throw lost(failed);
    }
  }

  /** What was not saved is taken back. */
  void close() {
    events.root().close();
    try {
      if (host != null) host.close();
    } catch (IOException gone) {
      return; // so is what it held
    }
  }

  private void begin() throws IOException {
    host = connected();
    byte[] folder = spec.folder.getBytes(StandardCharsets.UTF_8);
    ByteBuffer body = ByteBuffer.allocate(12 + folder.length + spec.definition.length);
    body.putLong(batch).putInt(folder.length).put(folder).put(spec.definition);
    ask(BEGIN, body.array());
  }

  private SocketChannel connected() throws IOException {
    UnixDomainSocketAddress address = UnixDomainSocketAddress.of(spec.socket);
    long deadline = System.currentTimeMillis() + HOST_STARTS_MS;
    while (true) {
      SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
      try {
        channel.connect(address);
        return channel;
      } catch (ClosedByInterruptException stopped) {
        throw stopped;
      } catch (IOException away) {
        channel.close();
        if (System.currentTimeMillis() > deadline) throw away;
      }
      try {
        Thread.sleep(ASK_AGAIN_MS);
      } catch (InterruptedException stopped) {
        throw Broker.<RuntimeException>asItIs(stopped);
      }
    }
  }

  private byte[] packed() throws IOException {
    events.finish();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ArrowRecordBatch rows = new VectorUnloader(events.root()).getRecordBatch()) {
      MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), rows);
    }
    events.reset();
    return bytes.toByteArray();
  }

  private List<Row> rowsOf(byte[] message) throws IOException {
    List<Row> rows = new ArrayList<>();
    try (VectorSchemaRoot root = rootOf(spec.gives);
        ArrowRecordBatch made = MessageSerializer.deserializeRecordBatch(
            new ReadChannel(Channels.newChannel(new ByteArrayInputStream(message))), root.getVector(0).getAllocator())) {
      new VectorLoader(root).load(made);
      ColumnVector[] columns = root.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
      Iterator<InternalRow> each = new ColumnarBatch(columns, root.getRowCount()).rowIterator();
      while (each.hasNext()) rows.add((Row) toRow.apply(each.next()));
    }
    return rows;
  }

  private byte[] ask(byte what, byte[] body) throws IOException {
    ByteBuffer message = ByteBuffer.allocate(HEAD + body.length).putInt(body.length).put(what).put(body).flip();
    while (message.hasRemaining()) host.write(message);
    ByteBuffer head = read(HEAD);
    int length = head.getInt();
    byte said = head.get();
    byte[] answer = read(length).array();
    if (said != DONE) throw new IllegalStateException(new String(answer, StandardCharsets.UTF_8));
    return answer;
  }

  private ByteBuffer read(int length) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    while (bytes.hasRemaining()) if (host.read(bytes) < 0) throw new EOFException("it has ended");
    return bytes.flip();
  }

  private static RuntimeException lost(IOException failed) {
    if (failed instanceof ClosedByInterruptException) {
      throw Broker.<RuntimeException>asItIs(new InterruptedException("the task was stopped"));
    }
    return new IllegalStateException("The slot's fold host does not answer (" + failed.getMessage()
        + "). It is started again by itself, and the query goes on from its checkpoint.", failed);
  }
}
