package weir;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Writes one batch of a stream, or of a part of it, to its channel in blocks. Blocks are sent as they fill and their
 * replies read later, so a long batch does not wait for the broker; a block that is sent twice is written once. The
 * token is that of the stream: whoever may write its channel may write its parts.
 */
final class BlockWriter {
  private static final int IN_FLIGHT = 8;

  private final Valve.Spec spec;
  private final Broker broker;
  private final long batchId;
  private final long wave;
  private final List<String> keys;
  private final EventBuffer events;
  private final Deque<Object[]> unanswered = new ArrayDeque<>(); // each block's arguments of the script
  private Redis connection;
  private long n;

  BlockWriter(Valve.Spec spec, String channel, Broker broker, long batchId, long wave) {
    this.wave = wave;
    this.spec = spec;
    this.broker = broker;
    this.batchId = batchId;
    keys = List.of(Keys.channel(channel), Keys.meta(channel), Keys.readers(channel), Keys.meta(spec.channel));
    events = new EventBuffer(spec.schema, "weir valve " + channel);
  }

  void add(InternalRow event) {
    events.add(event);
    if (events.size() == spec.blockRows) send();
  }

  /** Sends what is left. */
  void finish() {
    if (events.size() > 0) send();
  }

  /** Waits until everything is written. */
  void awaitReplies() {
    awaitReplies(0);
  }

  /** Waits until everything is written, and keeps no connection while there is nothing more. */
  void settle() {
    awaitReplies(0);
    release(true);
  }

  /** Lets everything go, whether it was written or not. */
  void close() {
    boolean isDone = events.size() == 0 && unanswered.isEmpty();
    events.close();
    release(isDone);
  }

  private void send() {
    int count = events.size();
    Object[] arguments = {spec.fence, spec.batchBase + batchId + 1, n++, count, events.take(), System.currentTimeMillis(), wave};
    awaitReplies(IN_FLIGHT - 1);
    unanswered.add(arguments);
    try {
      if (connection == null) connection = broker.borrow();
      connection.send(Broker.Script.WRITE.command(keys, arguments));
      connection.flush();
    } catch (IOException lost) {
      release(false); // awaitReplies() sends what is unanswered again
    }
  }

  /** Reads replies until at most that many blocks are unanswered. */
  private void awaitReplies(int most) {
    try {
      while (connection != null && unanswered.size() > most) {
        Object reply = connection.receive();
        if (Broker.Script.isUnknown(reply)) break; // every block in flight is refused for this; all are sent again
        Redis.checked(reply);
        unanswered.remove();
      }
    } catch (IOException lost) {
      release(false);
    }
    if (unanswered.size() > most) resend();
  }

  private void resend() {
    release(false);
    broker.call(redis -> {
      for (Object[] arguments : unanswered) Broker.Script.WRITE.run(redis, keys, arguments);
      return null;
    });
    unanswered.clear();
  }

  private void release(boolean intact) {
    if (connection == null) return;
    if (intact) broker.giveBack(connection);
    else connection.close();
    connection = null;
  }
}
