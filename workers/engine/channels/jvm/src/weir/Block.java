package weir;

import java.util.List;

/** One entry of a channel: its id, the Arrow IPC stream, its events, and when it was written. */
final class Block {
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
        case "n": events = Long.parseLong(Redis.text(fields.get(i + 1))); break;
        case "t": written = Long.parseLong(Redis.text(fields.get(i + 1))); break;
        default: break; // A later version may say more of a block.
      }
    }
    return new Block(Redis.text(parts.get(0)), payload, events, written);
  }
}
