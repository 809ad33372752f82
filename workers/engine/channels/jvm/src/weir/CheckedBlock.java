package weir;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.Field;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.KeyValue;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.flatbuf.Schema;
import org.apache.arrow.flatbuf.Timestamp;
import org.apache.arrow.flatbuf.Type;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseLargeVariableWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.NullVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;

/**
 * Reads the Arrow of a block that the slot of another team may have forged. Arrow and Spark trust what a block says of
 * itself: lengths for which they make room, and offsets by which they would show what else is in this driver's memory. So
 * both are looked at first. {@code workers/engine/slot_values.py} does so for Python.
 */
final class CheckedBlock extends ArrowStreamReader {
  static final long MOST_EVENTS = 20_000_000; // and values, unless there are as many bits (FILE_VALUES in bounds.py)
  private static final int MOST_FIELDS = 20_000; // those within others, too; a stream's types have 100,000 characters
  private static final int MOST_LEVELS = 100;
  private static final int MOST_TEXT = 1_000_000; // bytes of names and notes
  private static final Set<Byte> TYPES = Set.of(Type.Null, Type.Int, Type.FloatingPoint, Type.Binary, Type.Utf8, Type.Bool,
      Type.Decimal, Type.Date, Type.Time, Type.Timestamp, Type.Interval, Type.List, Type.Struct_, Type.Map, Type.Duration,
      Type.LargeBinary, Type.LargeUtf8);

  /** What was found forged, until it is said of which block. */
  private static final class Forged extends RuntimeException {
    Forged(String how) {
      super(how);
    }
  }

  private final String channel;
  private final String id;

  private CheckedBlock(String channel, Block block, BufferAllocator allocator) {
    super(new ByteArrayInputStream(block.payload), allocator);
    this.channel = channel;
    id = block.id;
  }

  /**
   * @throws IllegalStateException it is no block of a channel, or not of as many events as its entry says
   */
  static CheckedBlock open(String channel, Block block, BufferAllocator allocator) {
    CheckedBlock opened = new CheckedBlock(channel, block, allocator);
    try {
      new Frames(block.payload, block.events).check();
      opened.getVectorSchemaRoot();
      return opened;
    } catch (IOException | RuntimeException forged) {
      throw opened.refusal(forged);
    }
  }

  @Override
  protected void loadRecordBatch(ArrowRecordBatch batch) {
    try {
      new Columns(batch).check(getVectorSchemaRoot().getFieldVectors(), batch.getLength());
    } catch (IOException | RuntimeException forged) {
      batch.close();
      throw refusal(forged);
    }
    super.loadRecordBatch(batch);
  }

  private IllegalStateException refusal(Throwable forged) {
    try {
      close();
    } catch (IOException | RuntimeException ignored) {
      // It is of no use any more, and what keeps it from being closed is what is said.
    }
    String how = forged instanceof Forged ? forged.getMessage() : forged.toString();
    return new IllegalStateException("channel " + channel + " has a block, " + id + ", that no query of Weir wrote: " + how
        + ". Have an administrator look at who writes the channel; submitted anew, this dataflow begins behind the block", forged);
  }

  private static void require(boolean holds, String how) {
    if (!holds) throw new Forged(how);
  }

  /** What the messages of a block say of themselves, before Arrow makes room for any of it. */
  private static final class Frames {
    private final byte[] payload;
    private long eventsLeft;
    private int fieldsLeft = MOST_FIELDS;
    private int textLeft = MOST_TEXT;
    private long bodyLength;

    Frames(byte[] payload, long events) {
      this.payload = payload;
      eventsLeft = events;
    }

    void check() {
      ByteBuffer all = ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN);
      boolean isFirst = true;
      long at = 0;
      while (at + 4 <= payload.length) {
        int length = all.getInt((int) at);
        at += 4;
        if (length == -1 && at + 4 <= payload.length) { // the mark of a message, before its length
          length = all.getInt((int) at);
          at += 4;
        }
        if (length == 0) break;
        require(length > 0 && at + length <= payload.length, "a message is longer than it");
        check(Message.getRootAsMessage(ByteBuffer.wrap(payload, (int) at, length).slice()), isFirst);
        require(bodyLength >= 0 && bodyLength <= payload.length - at - length, "a message's body is longer than it");
        at += length + bodyLength;
        isFirst = false;
      }
      require(!isFirst, "it holds nothing");
      require(eventsLeft == 0, "its entry says other than it of how many events it has");
    }

    private void check(Message message, boolean isFirst) {
      bodyLength = message.bodyLength();
      byte expected = isFirst ? MessageHeader.Schema : MessageHeader.RecordBatch;
      require(message.headerType() == expected, "its messages are others than a schema and what goes by it");
      if (isFirst) {
        Schema schema = (Schema) message.header(new Schema());
        for (int i = 0; i < schema.customMetadataLength(); i++) take(schema.customMetadata(i));
        for (int i = 0; i < schema.fieldsLength(); i++) check(schema.fields(i), MOST_LEVELS);
      } else check((RecordBatch) message.header(new RecordBatch()));
    }

    /** Fields may be told once and be at many places: they are counted as often as Arrow makes them. */
    private void check(Field field, int levels) {
      require(--fieldsLeft >= 0 && levels > 0, "it has more columns, or deeper ones, than a stream may");
      require(TYPES.contains(field.typeType()) && field.dictionary() == null, "it has columns as no query writes them");
      take(field.nameAsByteBuffer());
      if (field.typeType() == Type.Timestamp) take(((Timestamp) field.type(new Timestamp())).timezoneAsByteBuffer());
      for (int i = 0; i < field.customMetadataLength(); i++) take(field.customMetadata(i));
      for (int i = 0; i < field.childrenLength(); i++) check(field.children(i), levels - 1);
    }

    private void take(KeyValue note) {
      take(note.keyAsByteBuffer());
      take(note.valueAsByteBuffer());
      textLeft -= 10;
    }

    private void take(ByteBuffer text) {
      if (text != null) textLeft -= text.remaining();
      require(textLeft >= 0, "its columns' names are longer than a stream's may be");
    }

    private void check(RecordBatch batch) {
      require(batch.compression() == null, "it is compressed");
      eventsLeft -= batch.length();
      require(batch.length() >= 0 && eventsLeft >= 0, "its entry says other than it of how many events it has");
      long values = 0;
      for (int i = 0; i < batch.nodesLength(); i++) {
        FieldNode node = batch.nodes(i);
        require(node.length() >= 0 && node.nullCount() >= 0 && node.nullCount() <= node.length(), "a column has no length");
        values += node.length();
        require(values <= Math.max(MOST_EVENTS, 8 * bodyLength), "it has more values than it has bits");
      }
      long bytes = 0;
      for (int i = 0; i < batch.buffersLength(); i++) {
        Buffer buffer = batch.buffers(i);
        require(buffer.offset() >= 0 && buffer.length() >= 0 && buffer.length() <= bodyLength - buffer.offset(),
            "a column reaches beyond it");
        bytes += buffer.length(); // some at the same place would be many columns for the bytes of one
        require(bytes <= bodyLength, "its columns are at one place");
      }
    }
  }

  /** Whether the columns of a batch have the values that they say, each within their bytes. */
  private static final class Columns {
    private final Iterator<ArrowFieldNode> nodes;
    private final Iterator<ArrowBuf> buffers;

    Columns(ArrowRecordBatch batch) {
      nodes = batch.getNodes().iterator();
      buffers = batch.getBuffers().iterator();
    }

    void check(List<FieldVector> vectors, long events) {
      for (FieldVector vector : vectors) require(check(vector) == events, "a column is of other events");
      require(!nodes.hasNext() && !buffers.hasNext(), "it has values of no column");
    }

    /** Looks at one column and those within it; how many values it has. */
    private long check(FieldVector vector) {
      require(nodes.hasNext(), "a column is missing");
      ArrowFieldNode node = nodes.next();
      long count = node.getLength();
      if (vector instanceof NullVector) return count;
      long valid = next().capacity();
      require(valid >= (count + 7) / 8 || (valid == 0 && node.getNullCount() == 0), "a column does not say what is null");
      if (vector instanceof BitVector) require(next().capacity() >= (count + 7) / 8, "a column is cut short");
      else if (vector instanceof BaseFixedWidthVector) {
        require(next().capacity() / ((BaseFixedWidthVector) vector).getTypeWidth() >= count, "a column is cut short");
      } else if (vector instanceof BaseVariableWidthVector) {
        ArrowBuf offsets = next();
        require(end(offsets, count, Integer.BYTES) <= next().capacity(), "a value reaches beyond it");
      } else if (vector instanceof BaseLargeVariableWidthVector) {
        ArrowBuf offsets = next();
        require(end(offsets, count, Long.BYTES) <= next().capacity(), "a value reaches beyond it");
      } else if (vector instanceof ListVector) { // a map is one, too
        long end = end(next(), count, Integer.BYTES);
        require(check(((ListVector) vector).getDataVector()) >= end, "a list reaches beyond it");
      } else {
        require(vector instanceof StructVector, "it has columns as no query writes them");
        for (FieldVector part : vector.getChildrenFromFields()) require(check(part) >= count, "a record is cut short");
      }
      return count;
    }

    private ArrowBuf next() {
      require(buffers.hasNext(), "a column is missing");
      return buffers.next();
    }

    /** Where the last of some values ends, whose beginnings are in order. */
    private static long end(ArrowBuf offsets, long count, int width) {
      if (count == 0) return 0;
      require(offsets.capacity() / width > count, "a column is cut short");
      long last = offset(offsets, 0, width);
      require(last >= 0, "a value begins before it");
      for (long i = 1; i <= count; i++) {
        long next = offset(offsets, i, width);
        require(next >= last, "a value ends before it begins");
        last = next;
      }
      return last;
    }

    private static long offset(ArrowBuf offsets, long number, int width) {
      return width == Integer.BYTES ? offsets.getInt(width * number) : offsets.getLong(width * number);
    }
  }
}
