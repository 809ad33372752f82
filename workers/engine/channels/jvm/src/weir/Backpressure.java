package weir;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What keeps a source from planning its next batch: a pause of its query, or a full channel that the query writes, or a
 * full part of one; and its pace. The broker is asked only when there is something to plan, in the same round trip as the
 * question for it.
 */
final class Backpressure {
  private static final long ASK_ANYWAY_MS = 1_000; // a lost message costs a second at most

  private final Broker broker;
  private final String reader;
  private final List<String> channels;
  final Pace pace;
  private long askedAt;
  private String full = "";
  private boolean paused;

  Backpressure(Broker broker, String reader, String channels) {
    this.broker = broker;
    this.reader = reader;
    this.channels = split(channels);
    pace = Pace.of(broker, reader);
    broker.meters.throttle(reader, ""); // whatever a driver that was killed has left
  }

  static List<String> split(String names) {
    if (names == null || names.isBlank()) return List.of();
    return Arrays.asList(names.split(","));
  }

  /** Topics on which the source hears that it may be able to plan again. */
  List<String> topics() {
    List<String> topics = new ArrayList<>();
    topics.add(Keys.valve(reader));
    for (String channel : channels) topics.add(Keys.room(channel));
    return topics;
  }

  /** The question, to be sent first in a pipeline; its reply is for {@link #applies}. */
  Object[] question() {
    List<String> arguments = new ArrayList<>(List.of(Keys.channel("")));
    arguments.addAll(channels);
    return Broker.Script.BACKPRESSURE.command(List.of(Keys.valve(reader)), arguments.toArray());
  }

  /** Whether the source must not plan; a full channel is made visible as {@code throttled_by}. */
  boolean applies(Object reply) {
    List<?> answer = (List<?>) reply;
    paused = (Long) answer.get(0) == 1;
    String channel = Redis.text(answer.get(1));
    pace.set((Long) answer.get(2));
    if (!channel.equals(full)) broker.meters.throttle(reader, channel);
    full = channel;
    return paused || !full.isEmpty();
  }

  /**
   * Waits until the next batch is due, at most until {@code deadline}; whether it is. A pause ends the waiting, and the
   * interval may become another one. What the bell said meanwhile is heard afterwards.
   */
  boolean isDue(Arrivals.Bell bell, long deadline, boolean follows) {
    boolean rang = false;
    while (true) {
      long now = System.currentTimeMillis();
      long left = pace.leftMs(now, follows);
      if (left > 0 && (bell.heard() || now - askedAt >= ASK_ANYWAY_MS)) {
        rang = true;
        askedAt = now;
        applies(broker.pipeline(List.<Object[]>of(question())).get(0));
        continue;
      }
      if (left == 0 || paused || pace.isToRest() || now >= deadline) {
        if (rang) bell.ring();
        return left == 0;
      }
      bell.await(Math.min(left, deadline - now));
    }
  }

  /** Whether the query was paused when last asked: then its source does not even wait. */
  boolean isPaused() {
    return paused;
  }

  /** The full channel that the source waits for, or the empty string. */
  String throttledBy() {
    return full;
  }

  /** The query stops: nothing throttles it any more, its counts are complete, and its control is read anew. */
  void forget() {
    broker.meters.throttle(reader, "");
    broker.meters.flush();
    Control.forget(broker, reader);
    Pace.forget(broker, reader);
  }
}
