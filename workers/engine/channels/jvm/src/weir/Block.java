package weir;

import java.util.ArrayList;
import java.util.List;

/** One entry of a channel: its id, the Arrow IPC stream, its events, and when it was written. */
final class Block {
  /** So many bytes of blocks are taken at a time, or one block that is larger; as by whoever else reads (`blocks.lua`). */
  static final long MOST_BYTES = 64L << 20;

  final String id;
  final byte[] payload;
  final long events;
  final long writtenMs;

  Block(String id, byte[] payload, long events, long writtenMs) {
    this.id = id;
    this.payload = payload;
    this.events = events;
    this.writtenMs = writtenMs;
  }

  /** From the reply to XRANGE: the blocks before the first for which there was no room. */
  static List<Block> listOf(Object reply) {
    List<Block> blocks = new ArrayList<>();
    for (Object entry : (List<?>) reply) {
      Block block = of(entry);
      if (block.payload == Redis.LEFT_OUT) break;
      blocks.add(block);
    }
    return blocks;
  }

  /** From one element of the reply to XRANGE. */
  static Block of(Object entry) {
    List<?> parts = (List<?>) entry;
    List<?> fields = (List<?>) parts.get(1);
    byte[] payload = new byte[0];
    long events = 0;
    long written = 0;
    for (int i = 0; i < fields.size(); i += 2) {
      switch (Redis.text(fields.get(i))) {
        case "b": payload = (byte[]) fields.get(i + 1); break;
        case "n": events = number(fields.get(i + 1), CheckedBlock.MOST_EVENTS); break;
        case "t": written = number(fields.get(i + 1), System.currentTimeMillis()); break;
        default: break; // A later version may say more of a block.
      }
    }
    return new Block(Redis.text(parts.get(0)), payload, events, written);
  }

  /** A number that somebody else wrote, within what it may be: readers add such numbers up. */
  private static long number(Object field, long most) {
    try {
      return Math.max(0, Math.min(Long.parseLong(Redis.text(field)), most));
    } catch (NumberFormatException none) {
      return 0;
    }
  }
}
