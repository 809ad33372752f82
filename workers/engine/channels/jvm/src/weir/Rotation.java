package weir;

import java.util.Map;

/**
 * The Quota Method (Balinski and Young, 1975) as a rotation: which part of a divided stream each event of a batch goes
 * to. The same as {@code workers/engine/channels/rotation.py}, which says more.
 */
public final class Rotation {
  private static final long PLACES = 4_096;

  private final double[] shares;
  private final long[] had;
  private long turn;

  /** Stands before the first event of a batch. */
  Rotation(double[] shares, long batch) {
    this.shares = shares;
    had = new long[shares.length];
    for (long start = place(batch); turn < start; ) next();
  }

  private static long place(long batch) {
    long mixed = batch * 0x9E3779B97F4A7C15L;
    mixed = (mixed ^ mixed >>> 32) * 0xD6E8FEB86659FD93L;
    return (mixed ^ mixed >>> 32) & (PLACES - 1);
  }

  /** The part of the next event: of those that may have one more, the one whose share is due first. */
  int next() {
    turn++;
    int chosen = 0;
    double due = Double.POSITIVE_INFINITY;
    for (int i = 0; i < shares.length; i++) {
      if (had[i] >= shares[i] * turn) continue;
      double when = (had[i] + 1) / shares[i];
      if (when >= due) continue;
      chosen = i;
      due = when;
    }
    had[chosen]++;
    return chosen;
  }

  /** The weights that are more than nothing, as parts of one, in their order. */
  static double[] shares(Map<String, Double> weights) {
    double total = 0;
    for (double weight : weights.values()) total += weight;
    double[] shares = new double[weights.size()];
    int i = 0;
    for (double weight : weights.values()) shares[i++] = weight / total;
    return shares;
  }

  /** The parts of the first {@code count} events of a batch, for whoever compares the two implementations. */
  public static int[] turns(double[] shares, long batch, int count) {
    Rotation rotation = new Rotation(shares, batch);
    int[] turns = new int[count];
    for (int i = 0; i < count; i++) turns[i] = rotation.next();
    return turns;
  }
}
