package weir;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What may keep a source from planning its next batch: a pause, or a channel that its query writes and that is full.
 * Asked only when there is something to plan, in the same round trip as the question for it.
 */
final class Gates {
  private final Broker broker;
  private final String reader;
  private final List<String> channels;
  private String full;
  private boolean paused;

  Gates(Broker broker, String reader, String channels) {
    this.broker = broker;
    this.reader = reader;
    this.channels = split(channels);
    broker.meters.throttle(reader, null); // whatever a driver that was killed has left
  }

  static List<String> split(String names) {
    if (names == null || names.isBlank()) return List.of();
    return Arrays.asList(names.split(","));
  }

  /** Topics on which the source hears that a gate may have opened. */
  List<String> topics() {
    List<String> topics = new ArrayList<>();
    topics.add(Keys.valve(reader));
    for (String channel : channels) topics.add(Keys.room(channel));
    return topics;
  }

  /** The questions, to be sent first in a pipeline; {@link #isClosed} reads as many replies. */
  List<Object[]> questions() {
    List<Object[]> commands = new ArrayList<>();
    commands.add(new Object[] {"HGET", Keys.valve(reader), "paused"});
    for (String channel : channels) {
      commands.add(new Object[] {"XLEN", Keys.channel(channel)});
      commands.add(new Object[] {"HMGET", Keys.meta(channel), "capacity", "retain"});
    }
    return commands;
  }

  int size() {
    return 1 + 2 * channels.size();
  }

  /** Whether the source must stand still; a full channel is made visible as {@code throttled_by}. */
  boolean isClosed(List<Object> replies) {
    String found = null;
    for (int i = 0; i < channels.size() && found == null; i++) {
      long blocks = (Long) replies.get(1 + 2 * i);
      List<?> settings = (List<?>) replies.get(2 + 2 * i);
      // A channel that is not open yet cannot be full.
      if (settings.get(0) == null) continue;
      if (blocks > number(settings.get(0)) + number(settings.get(1))) found = channels.get(i);
    }
    if (found == null ? full != null : !found.equals(full)) broker.meters.throttle(reader, found);
    full = found;
    paused = replies.get(0) != null;
    return found != null || paused;
  }

  /** Whether the query was paused when last asked: then its source does not even wait. */
  boolean isPaused() {
    return paused;
  }

  /** The full channel that the source waits for, or the empty string. */
  String throttledBy() {
    return full == null ? "" : full;
  }

  /** The query stops: nothing throttles it any more, its counts are complete, and its control is read anew. */
  void forget() {
    broker.meters.throttle(reader, null);
    broker.meters.flush();
    Control.forget(broker, reader);
  }

  private static long number(Object bulk) {
    return bulk == null ? 0 : Long.parseLong(Redis.text(bulk));
  }
}
