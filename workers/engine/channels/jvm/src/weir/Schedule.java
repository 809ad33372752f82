package weir;

import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * When each sequence number is due, in ms after number 0: at a constant rate, or as a file says.
 *
 * <p>A schedule file holds little-endian 64-bit integers: the due offsets, not descending. One that begins with the
 * eight bytes {@code WEIRTCK2} holds pairs instead: due offset, recorded time in ms since the epoch.
 */
abstract class Schedule implements Serializable {
  /** How many numbers there are; Long.MAX_VALUE where the source never ends. */
  abstract long size();

  abstract long dueMs(long seq);

  /** The event time of a number, where number 0 is due at {@code t0}. */
  long timeMs(long seq, long t0) {
    return t0 + dueMs(seq);
  }

  static Schedule of(CaseInsensitiveStringMap options) {
    long limit = options.getLong("limit", Long.MAX_VALUE);
    String file = options.get("schedule_file");
    if (file == null) return new Constant(options.getDouble("rate_per_s", 1.0), limit);
    long repeatMs = options.getLong("repeat_ms", 0);
    return new Recorded(file, limit, repeatMs, options.getLong("repeat_time_ms", repeatMs));
  }

  /** How many numbers are due at {@code elapsedMs}, of those from {@code from} (which are counted too) to {@code most}. */
  final long dueBy(long elapsedMs, long from, long most) {
    long low = from;
    long high = Math.max(from, Math.min(size(), most));
    while (low < high) { // the first number that is not due yet
      long middle = (low + high) >>> 1;
      if (dueMs(middle) <= elapsedMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** A constant rate; without a limit, the only kind that may skip time it missed. */
  static final class Constant extends Schedule {
    private final double ratePerS;
    private final long limit;

    Constant(double ratePerS, long limit) {
      if (!(ratePerS > 0)) throw new IllegalArgumentException("rate_per_s must be positive, not " + ratePerS);
      this.ratePerS = ratePerS;
      this.limit = limit;
    }

    @Override
    long size() {
      return limit;
    }

    @Override
    long dueMs(long seq) {
      return (long) Math.floor(seq * 1000.0 / ratePerS);
    }
  }

  /** As recorded; repeated without end where {@code repeatMs} is positive, each time moved on by it. */
  static final class Recorded extends Schedule {
    private static final long PAIRS = 0x324B435452494557L; // "WEIRTCK2", little-endian

    private final String file;
    private final long limit;
    private final long repeatMs;
    private final long repeatTimeMs;
    private transient ByteBuffer entries;
    private transient int width;
    private transient int count;

    Recorded(String file, long limit, long repeatMs, long repeatTimeMs) {
      this.file = file;
      this.limit = limit;
      this.repeatMs = repeatMs;
      this.repeatTimeMs = repeatTimeMs;
    }

    private void open() {
      if (entries != null) return;
      try (FileChannel channel = FileChannel.open(Path.of(file))) {
        ByteBuffer all = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()).order(ByteOrder.LITTLE_ENDIAN);
        boolean pairs = all.remaining() >= 8 && all.getLong(0) == PAIRS;
        width = pairs ? 16 : 8;
        entries = pairs ? all.position(8).slice().order(ByteOrder.LITTLE_ENDIAN) : all;
        count = entries.remaining() / width;
      } catch (IOException absent) {
        throw new IllegalStateException("the schedule file cannot be read: " + file, absent);
      }
    }

    @Override
    long size() {
      open();
      return Math.min(limit, repeatMs > 0 && count > 0 ? Long.MAX_VALUE : count);
    }

    @Override
    long dueMs(long seq) {
      open();
      return seq / count * repeatMs + entries.getLong((int) (seq % count) * width);
    }

    @Override
    long timeMs(long seq, long t0) {
      open();
      if (width == 8) return t0 + dueMs(seq);
      return seq / count * repeatTimeMs + entries.getLong((int) (seq % count) * width + 8);
    }
  }
}
