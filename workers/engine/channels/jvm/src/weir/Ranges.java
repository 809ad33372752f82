package weir;

import java.util.List;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Records where each batch of a source ends, before anything of it is published, where copies of the query's state are on
 * other nodes: who goes on from one repeats the same batches. Only of micro-batches, and of queries with one source.
 */
final class Ranges {
  private final Broker broker;
  private final String fragment;
  private final List<String> keys;
  private boolean mayRepeat = true; // until a place is met whose end is not recorded

  private Ranges(Broker broker, String fragment) {
    this.broker = broker;
    this.fragment = fragment;
    keys = List.of(Keys.ranges(fragment));
  }

  /** Null where the stream's options ask for none. */
  static Ranges of(Broker broker, CaseInsensitiveStringMap options) {
    return options.getBoolean("ranges", false) ? new Ranges(broker, options.get("reader")) : null;
  }

  /** The end that is recorded for a batch which begins there, as text; empty where there is none. */
  String known(String place) {
    if (!mayRepeat) return "";
    String end = Redis.text(broker.call(redis -> Broker.Script.RANGE.run(redis, keys, fragment, place, "")));
    mayRepeat = !end.isEmpty();
    return end;
  }

  /** Where a batch ends that begins there and may end at {@code end}: what was recorded first. */
  String recorded(String place, String end) {
    return Redis.text(broker.write(redis -> Broker.Script.RANGE.run(redis, keys, fragment, place, end)));
  }
}
