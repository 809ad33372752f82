package weir;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Copies the first events of a batch for somebody who looks at the stream. Nothing waits for it: what was copied goes
 * to the broker with the meters, and is lost where that is away.
 */
final class Tap {
  private static final int EVENTS = 5;
  private static final int MOST_EVENTS = 200; // for who searches
  private static final int BLOCKS = 10; // of the newest batches
  private static final int MOST_BYTES = 1 << 20;
  private static final int KEPT_S = 60;

  private final Valve.Spec spec;
  private final int wanted;
  private EventBuffer events; // made with the first event

  Tap(Valve.Spec spec, int wanted) {
    this.spec = spec;
    this.wanted = wanted;
  }

  /** How many events of a batch are wanted by what stands in the broker; 0 where nothing does. */
  static int wanted(Object reply) {
    if (!(reply instanceof byte[])) return 0;
    String text = Redis.text(reply);
    int most = text.matches("[0-9]{1,6}") ? Integer.parseInt(text) : EVENTS;
    return Math.max(EVENTS, Math.min(most, MOST_EVENTS));
  }

  boolean wantsMore() {
    return events == null || events.size() < EVENTS || (events.size() < wanted && events.bytes() < MOST_BYTES);
  }

  void add(InternalRow event) {
    if (events == null) events = new EventBuffer(spec.schema, "weir tap " + spec.fragment + "." + spec.position);
    events.add(event);
  }

  /** Hands over what was copied, or lets it go where the batch is to be repeated. */
  void close(Meters meters, boolean complete) {
    if (events == null) return;
    try {
      byte[] block = complete ? events.take() : new byte[0];
      if (complete && block.length <= MOST_BYTES) meters.send(commands(block));
    } finally {
      events.close();
    }
  }

  private List<Object[]> commands(byte[] block) {
    String copies = Keys.tapped(spec.task, spec.fragment), queries = Keys.tapped(spec.task);
    return List.of(
        new Object[] {"LPUSH", copies, block}, new Object[] {"LTRIM", copies, 0, BLOCKS - 1},
        new Object[] {"EXPIRE", copies, KEPT_S},
        new Object[] {"SADD", queries, spec.fragment}, new Object[] {"EXPIRE", queries, KEPT_S});
  }
}
