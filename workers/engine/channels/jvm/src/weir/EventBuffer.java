package weir;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/** Events of a stream, until they are taken as one block: an Arrow IPC stream. */
final class EventBuffer {
  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final ArrowWriter rows;
  private int size;

  EventBuffer(StructType schema, String name) {
    allocator = ArrowUtils.rootAllocator().newChildAllocator(name, 0, Long.MAX_VALUE);
    root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(schema, "UTC", false, false, false), allocator);
    rows = ArrowWriter.create(root);
  }

  /** Copies an event. */
  void add(InternalRow event) {
    rows.write(event);
    size++;
  }

  int size() {
    return size;
  }

  /** About how much memory it takes. */
  long bytes() {
    return allocator.getAllocatedMemory();
  }

  /** The block of what was added; the buffer is empty then. */
  byte[] take() {
    rows.finish();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(1 << 14);
    try (ArrowStreamWriter stream = new ArrowStreamWriter(root, null, bytes)) {
      stream.start();
      stream.writeBatch();
      stream.end();
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    rows.reset();
    size = 0;
    return bytes.toByteArray();
  }

  void close() {
    root.close();
    allocator.close();
  }
}
