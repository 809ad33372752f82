package weir;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads of a batch: events that follow one another. Slices in their order are the batch in its order, so
 * that what the tasks make of them can be put together again as if one had read it all.
 */
final class Slice implements InputPartition {
  /** Entries of one channel, after {@code start} up to {@code end}; of their events {@code take}, from {@code skip} on. */
  static final class Piece implements Serializable {
    final String channel;
    final String start;
    final String end;
    final long skip;
    final long take;

    Piece(String channel, String start, String end, long skip, long take) {
      this.channel = channel;
      this.start = start;
      this.end = end;
      this.skip = skip;
      this.take = take;
    }

    /** All events of these entries. */
    Piece(String channel, String start, String end) {
      this(channel, start, end, 0, Long.MAX_VALUE);
    }
  }

  final String url;
  final String spill; // the folder of spills
  final String stream;
  final String reader;
  final long plannedMs;
  final List<Piece> pieces;

  Slice(String url, String spill, String stream, String reader, long plannedMs, List<Piece> pieces) {
    this.url = url;
    this.spill = spill;
    this.stream = stream;
    this.reader = reader;
    this.plannedMs = plannedMs;
    this.pieces = pieces;
  }

  /** Gives the blocks of a piece. */
  interface Blocks {
    List<Block> of(Piece piece);
  }

  /**
   * Cuts pieces, taken one after the other, into one slice a thread, of equally many events within one; into fewer where
   * there are fewer events than threads.
   */
  static List<List<Piece>> cut(List<Piece> whole, int threads, Blocks blocks) {
    List<List<Block>> blocksOfPieces = new ArrayList<>();
    long events = 0;
    for (Piece piece : whole) {
      List<Block> ofPiece = blocks.of(piece);
      blocksOfPieces.add(ofPiece);
      for (Block block : ofPiece) events += block.events;
    }
    long count = Math.max(1, Math.min(threads, events));
    List<List<Piece>> slices = new ArrayList<>();
    for (long i = 0; i < count; i++) {
      slices.add(stretch(whole, blocksOfPieces, events * i / count, events * (i + 1) / count));
    }
    return slices;
  }

  /** The events from {@code first} up to, but without, {@code end}. */
  private static List<Piece> stretch(List<Piece> whole, List<List<Block>> blocksOfPieces, long first, long end) {
    List<Piece> pieces = new ArrayList<>();
    long position = 0;
    for (int i = 0; i < whole.size(); i++) {
      String before = whole.get(i).start;
      String start = null;
      String last = null;
      long skip = 0;
      long take = 0;
      for (Block block : blocksOfPieces.get(i)) {
        long from = Math.max(first, position);
        long to = Math.min(end, position + block.events);
        if (from < to) {
          if (start == null) {
            start = before;
            skip = from - position;
          }
          last = block.id;
          take += to - from;
        }
        position += block.events;
        before = block.id;
      }
      if (start != null) pieces.add(new Piece(whole.get(i).channel, start, last, skip, take));
    }
    return pieces;
  }
}
