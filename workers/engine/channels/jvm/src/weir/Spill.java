package weir;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.CRC32;

/**
 * Blocks that the node agent has taken to disk for readers that are too slow for the broker to keep them. Files and names
 * are those of {@code workers/engine/channels/spill.py}: a segment is named after the entry that its first block follows.
 */
final class Spill {
  private static final String SUFFIX = ".blocks";
  private static final int HEADER = 40;
  private static final int COUNTED_AT_ONCE = 64;
  private static final Map<String, Spill> SPILLS = new ConcurrentHashMap<>();

  private final Path folder;
  private final Map<String, Cursor> cursors = new ConcurrentHashMap<>(); // by channel: where the next batch goes on

  /** Behind an entry: the file and the position there. */
  private static final class Cursor {
    final String after;
    final Path file;
    final long position;

    Cursor(String after, Path file, long position) {
      this.after = after;
      this.file = file;
      this.position = position;
    }
  }

  private Spill(Path folder) {
    this.folder = folder;
  }

  /** The spills below a folder. */
  static Spill at(String folder) {
    return SPILLS.computeIfAbsent(folder, name -> new Spill(Path.of(name)));
  }

  /**
   * Up to which entry the blocks after another are on disk for a reader; null where the broker has them itself.
   *
   * @param trimmed the newest entry that the broker has freed, or null
   * @param mark up to where the node has blocks for the reader, or null
   */
  static String reach(String after, String trimmed, String mark) {
    boolean isFreed = trimmed != null && ChannelOffset.compare(after, trimmed) < 0;
    return isFreed && mark != null && ChannelOffset.compare(mark, trimmed) >= 0 ? mark : null;
  }

  /** At most {@code count} blocks after an entry, up to another, oldest first; none where they are not there. */
  List<Block> fetch(String channel, String after, String end, int count) {
    List<Block> blocks = new ArrayList<>();
    String at = after;
    try {
      boolean hasRoom = true;
      while (hasRoom && blocks.size() < count && ChannelOffset.compare(at, end) < 0) {
        int had = blocks.size();
        Cursor known = cursors.get(channel);
        if (known != null && known.after.equals(at) && Files.exists(known.file)) {
          hasRoom = read(channel, known.file, known.position, at, end, count, blocks);
        }
        if (hasRoom && blocks.size() == had) {
          Path file = segment(channel, at);
          if (file != null) hasRoom = read(channel, file, 0, at, end, count, blocks);
        }
        if (blocks.size() == had) break;
        at = blocks.get(blocks.size() - 1).id;
      }
    } catch (IOException broken) {
      throw new UncheckedIOException("the spill of channel " + channel + " cannot be read: " + broken.getMessage(), broken);
    }
    return blocks;
  }

  /** How many blocks there are after an entry up to another that is on disk, and how many events they hold. */
  long[] count(String channel, String after, String end) {
    long blocks = 0;
    long events = 0;
    String at = after;
    while (ChannelOffset.compare(at, end) < 0) {
      List<Block> some = fetch(channel, at, end, COUNTED_AT_ONCE);
      if (some.isEmpty()) throw ChannelReader.lost(channel, "what follows " + at + " is not in " + folder);
      for (Block block : some) events += block.events;
      blocks += some.size();
      at = some.get(some.size() - 1).id;
    }
    return new long[] {blocks, events};
  }

  /** The segment that holds the block after an entry, if one does: the last that begins there or before. */
  private Path segment(String channel, String after) throws IOException {
    Path own = folder.resolve(channel);
    if (!Files.isDirectory(own)) return null;
    Path last = null;
    String start = null;
    try (DirectoryStream<Path> files = Files.newDirectoryStream(own, "*" + SUFFIX)) {
      for (Path file : files) {
        String name = file.getFileName().toString();
        String begins = name.substring(0, name.length() - SUFFIX.length());
        if (ChannelOffset.compare(begins, after) > 0) continue;
        if (start == null || ChannelOffset.compare(begins, start) > 0) {
          start = begins;
          last = file;
        }
      }
    }
    return last;
  }

  /** Adds what a segment has; false where there was no room for the next block. */
  private boolean read(String channel, Path path, long from, String after, String end, int count, List<Block> blocks)
      throws IOException {
    byte[] head = new byte[HEADER];
    long bytes = 0;
    for (Block block : blocks) bytes += block.payload.length;
    try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "r")) {
      long position = from;
      long size = file.length();
      while (blocks.size() < count && position + HEADER <= size) {
        file.seek(position);
        file.readFully(head);
        ByteBuffer header = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN);
        String id = header.getLong() + "-" + header.getLong();
        long events = header.getLong();
        long written = header.getLong();
        int length = header.getInt();
        int checksum = header.getInt();
        if (ChannelOffset.compare(id, end) > 0) return true;
        if (position + HEADER + length > size) return true;
        position += HEADER + length;
        if (ChannelOffset.compare(id, after) <= 0) continue;
        bytes += length;
        if (!blocks.isEmpty() && bytes > Block.MOST_BYTES) return false;
        byte[] payload = new byte[length];
        file.readFully(payload);
        CRC32 sum = new CRC32();
        sum.update(payload);
        if ((int) sum.getValue() != checksum) throw new IOException(path + " is damaged at byte " + (position - length));
        blocks.add(new Block(id, payload, events, written));
        cursors.put(channel, new Cursor(id, path, position));
      }
    }
    return true;
  }
}
