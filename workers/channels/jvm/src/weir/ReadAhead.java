package weir;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Blocks that the driver fetched while it looked what there is. Where driver and executor are one JVM the batch takes
 * them from here and reads the broker once; elsewhere, and on a replay, it reads again.
 */
final class ReadAhead {
  private static final Map<String, Entry> BLOCKS = new ConcurrentHashMap<>();

  private static final class Entry {
    final String end;
    final List<Block> blocks;

    Entry(String end, List<Block> blocks) {
      this.end = end;
      this.blocks = blocks;
    }
  }

  private ReadAhead() {}

  static void keep(String stream, String channel, String end, List<Block> blocks) {
    BLOCKS.put(stream + '/' + channel, new Entry(end, blocks));
  }

  /** The blocks of exactly the range that begins after {@code start}, or null. */
  static List<Block> take(String stream, String channel, String end) {
    Entry entry = BLOCKS.get(stream + '/' + channel);
    return entry != null && entry.end.equals(end) ? entry.blocks : null;
  }

  static void drop(String stream, String channel) {
    BLOCKS.remove(stream + '/' + channel);
  }
}
