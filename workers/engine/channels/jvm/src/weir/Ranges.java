package weir;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Records where each batch of a query ends, before anything of it is published, where copies of the query's state are on
 * other nodes: who goes on from one repeats the same batches. Only of micro-batches.
 *
 * <p>Streams of one query share one: a batch ends at a place in all of their channels, and is recorded as one. Spark asks
 * them in turn, on one thread, and then all of them again: that is a round. The last one of a round records.
 */
final class Ranges {
  private static final Map<String, Ranges> OF_QUERIES = new ConcurrentHashMap<>(); // by what their streams have in common

  private final Broker broker;
  private final String fragment;
  private final List<String> keys;
  private final String common;
  private final int streams;
  private final List<ChannelStream> members = new ArrayList<>();
  private final Map<ChannelStream, ChannelOffset> starts = new HashMap<>(); // of the next batch, as far as they are known
  private final Map<ChannelStream, ChannelOffset> ends = new HashMap<>(); // that were said in this round
  private ChannelOffset repeated; // the end of the batch of this round, in all streams, where it is recorded already
  private boolean mayRepeat = true; // until a place is met whose end is not recorded

  private Ranges(Broker broker, CaseInsensitiveStringMap options) {
    this.broker = broker;
    fragment = options.get("reader");
    keys = List.of(Keys.ranges(fragment));
    common = options.getOrDefault("common", "");
    streams = options.getInt("streams", 1);
  }

  /** Null where the stream's options ask for none. */
  static Ranges of(Broker broker, CaseInsensitiveStringMap options) {
    if (!options.getBoolean("ranges", false)) return null;
    String common = options.getOrDefault("common", "");
    if (common.isEmpty()) return new Ranges(broker, options);
    return OF_QUERIES.computeIfAbsent(common, any -> new Ranges(broker, options));
  }

  void joins(ChannelStream stream) {
    members.add(stream);
  }

  void forget() {
    OF_QUERIES.remove(common, this);
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

  // -- of queries that read channels -----------------------------------------------------------------------------------

  /** A stream is asked where its next batch ends, which begins there. */
  void asks(ChannelStream stream, ChannelOffset from) {
    if (ends.containsKey(stream)) {
      ends.clear();
      repeated = null;
    }
    // Without a checkpoint all streams are at their beginning, and a first batch is repeated under the first number.
    if (starts.isEmpty() && stream.isAtBeginning()) {
      for (ChannelStream member : members) starts.put(member, (ChannelOffset) member.initialOffset());
    }
    ChannelOffset expected = starts.put(stream, from);
    if (repeated != null && !from.entries.equals(expected.entries)) {
      throw new IllegalStateException(fragment + " begins at " + from.json() + ", and not at " + expected.json());
    }
  }

  /** Whether a stream may look for what is new; else it stays where it is. */
  boolean isToLook() {
    // Where the others begin is known from the second round on. Who is asked behind one that did not look does not, either.
    return starts.size() == streams && (!mayRepeat || ends.isEmpty());
  }

  /** Where the batch ends for a stream, where it is recorded and another stream has come to know that; or null. */
  ChannelOffset repeated(ChannelStream stream) {
    if (repeated == null || streams == 1) return repeated;
    Map<String, String> own = new HashMap<>();
    repeated.entries.forEach((channel, entry) -> {
      if (stream.carries(channel) || starts.get(stream).entries.containsKey(channel)) own.put(channel, entry);
    });
    return new ChannelOffset(own);
  }

  /** The same of the first stream that is asked: it finds out. */
  ChannelOffset lookedUp(ChannelStream stream) {
    if (!mayRepeat) return null;
    String end = known(together(starts.values()).json());
    repeated = end.isEmpty() ? null : ChannelOffset.parse(end);
    return repeated(stream);
  }

  /** A stream says where its part of the batch ends; with the last one, the batch is recorded. Where it ends then. */
  ChannelOffset ends(ChannelStream stream, ChannelOffset end) {
    ends.put(stream, end);
    if (ends.size() < streams) return end;
    ChannelOffset from = together(starts.values());
    ChannelOffset to = together(ends.values());
    starts.putAll(ends);
    if (repeated != null && !to.entries.equals(repeated.entries)) {
      throw new IllegalStateException(fragment + " is to repeat a batch up to " + repeated.json() + ", and reads " + to.json());
    }
    if (repeated != null || to.entries.equals(from.entries)) return end;
    String recorded = recorded(from.json(), to.json());
    if (recorded.equals(to.json())) return end;
    if (streams > 1) { // the others have said where they end
      throw new IllegalStateException(fragment + " has to repeat a batch up to " + recorded + ": it does when it starts again");
    }
    ChannelOffset first = ChannelOffset.parse(recorded);
    starts.put(stream, first);
    return first;
  }

  private static ChannelOffset together(Collection<ChannelOffset> offsets) {
    Map<String, String> entries = new HashMap<>();
    offsets.forEach(offset -> entries.putAll(offset.entries));
    return new ChannelOffset(entries);
  }
}
