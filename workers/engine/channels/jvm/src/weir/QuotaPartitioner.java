package weir;

import java.util.Map;

/**
 * The Quota Method (Balinski and Young, 1975) as a partitioner: which part of a divided stream each event of a batch goes
 * to.
 *
 * <p>The method gives a sequence of parts: after any number of events each part has had its share of them, rounded down
 * or up. A batch takes a stretch of that sequence whose start follows from the batch's number, so that small batches
 * spread over the parts as large ones do. Nothing is carried from batch to batch: a repeated batch is divided the same
 * way. What partitioners of other versions computed must not change, for a batch may be repeated after an upgrade.
 */
final class QuotaPartitioner {
  private static final long STARTS = 4_096; // positions of the sequence at which a batch may start

  private final double[] shares;
  private final long[] had; // events of each part so far
  private long position;

  /** Stands before the first event of a batch. */
  QuotaPartitioner(double[] shares, long batch) {
    this.shares = shares;
    had = new long[shares.length];
    for (long start = start(batch); position < start; ) next();
  }

  /**
   * Where a batch starts in the sequence: anywhere, as if by chance. A regular step would favour some part wherever the
   * sizes of batches and the sequence have a common rhythm, as with batches of one and of two events in turn.
   */
  private static long start(long batch) {
    long mixed = batch * 0x9E3779B97F4A7C15L;
    mixed = (mixed ^ mixed >>> 32) * 0xD6E8FEB86659FD93L;
    return (mixed ^ mixed >>> 32) & (STARTS - 1);
  }

  /** The part of the next event: of those that may have one more, the one whose share is due first. */
  int next() {
    position++;
    int chosen = 0;
    double earliest = Double.POSITIVE_INFINITY;
    for (int part = 0; part < shares.length; part++) {
      if (had[part] >= shares[part] * position) continue;
      double due = (had[part] + 1) / shares[part];
      if (due >= earliest) continue;
      chosen = part;
      earliest = due;
    }
    had[chosen]++;
    return chosen;
  }

  /** Weights, all above zero, as shares of 1, in their order. */
  static double[] shares(Map<String, Double> weights) {
    double total = 0;
    for (double weight : weights.values()) total += weight;
    double[] shares = new double[weights.size()];
    int part = 0;
    for (double weight : weights.values()) shares[part++] = weight / total;
    return shares;
  }
}
