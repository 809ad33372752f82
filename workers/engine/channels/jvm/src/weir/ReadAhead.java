package weir;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/**
 * Blocks that the driver fetched while it looked what there is. Where driver and executor are one JVM the batch takes
 * them from here and reads the broker once; elsewhere, and on a replay, it reads again.
 */
final class ReadAhead {
  private static final Map<String, Entry> BLOCKS = new ConcurrentHashMap<>();

  /** All blocks after {@code start}, up to the last of them. */
  private static final class Entry {
    final String start;
    final List<Block> blocks;

    Entry(String start, List<Block> blocks) {
      this.start = start;
      this.blocks = blocks;
    }

    boolean has(String from, String to) {
      return ChannelOffset.compare(from, start) >= 0 && ChannelOffset.compare(to, blocks.get(blocks.size() - 1).id) <= 0;
    }
  }

  private ReadAhead() {}

  /** Keeps the blocks of a channel that follow {@code start}; at least one. */
  static void keep(String stream, String channel, String start, List<Block> blocks) {
    BLOCKS.put(stream + '/' + channel, new Entry(start, blocks));
  }

  /** The blocks after {@code start} up to {@code end}, or null where they are not all here. */
  static List<Block> take(String stream, String channel, String start, String end) {
    Entry entry = BLOCKS.get(stream + '/' + channel);
    if (entry == null || !entry.has(start, end)) return null;
    return entry.blocks.stream()
        .filter(block -> ChannelOffset.compare(block.id, start) > 0 && ChannelOffset.compare(block.id, end) <= 0)
        .collect(Collectors.toList());
  }

  static void drop(String stream, String channel) {
    BLOCKS.remove(stream + '/' + channel);
  }
}
