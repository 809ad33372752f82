package weir;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Writes one batch of a stream, or of a part of it, to its channel in blocks. Blocks are sent as they fill and their
 * replies read later, so a long batch does not wait for the broker; a block that is sent twice is written once. The
 * token is that of the stream: whoever may write its channel may write its parts.
 */
final class BlockWriter {
  private static final int IN_FLIGHT = 8;
  private static final int MOST_BYTES = 256 << 20; // of a value of the broker (workers/launcher/broker.py)

  private final Valve.Spec spec;
  private final Broker broker;
  private final long batchId;
  private final long wave;
  private final List<String> keys;
  private final EventBuffer events;
  private final Deque<Object[]> unanswered = new ArrayDeque<>(); // each block's arguments of the script
  private final Deque<Object[]> answered = new ArrayDeque<>(); // what the broker's replicas may lack
  private boolean isLost;
  private Redis connection;
  private long n;

  BlockWriter(Valve.Spec spec, StructType schema, String channel, Broker broker, long batchId, long wave) {
    this.wave = wave;
    this.spec = spec;
    this.broker = broker;
    this.batchId = batchId;
    keys = List.of(Keys.channel(channel), Keys.meta(channel), Keys.readers(channel), Keys.meta(spec.channel));
    events = new EventBuffer(schema, "weir valve " + channel);
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
    boolean isDone = events.size() == 0 && unanswered.isEmpty() && !isLost;
    events.close();
    release(isDone);
  }

  private void send() {
    int count = events.size();
    byte[] block = events.take();
    if (block.length > MOST_BYTES) {
      throw new IllegalStateException("a block of " + count + " events has " + (block.length >> 20) + " MB, and the broker takes "
          + (MOST_BYTES >> 20) + " MB: make events smaller");
    }
    Object[] arguments = {spec.fence, spec.batchBase + batchId + 1, n++, count, block, System.currentTimeMillis(), wave};
    awaitReplies(answered.size() < IN_FLIGHT ? IN_FLIGHT - 1 : 0);
    unanswered.add(arguments);
    try {
      if (connection == null) connection = broker.borrow();
      connection.send(Broker.Script.WRITE.command(keys, arguments));
      connection.flush();
    } catch (IOException lost) {
      isLost = true; // awaitReplies() sends again what may be lost with it
    }
  }

  /** Reads replies until at most that many blocks are unanswered; with none of them, replicas have all that was answered. */
  private void awaitReplies(int most) {
    try {
      while (!isLost && unanswered.size() > most) {
        Object reply = connection.receive();
        if (Broker.Script.isUnknown(reply)) isLost = true; // every block in flight is refused for this; all are sent again
        else {
          Redis.checked(reply);
          Object[] block = unanswered.remove();
          if (broker.isReplicated) answered.add(block);
        }
      }
      if (!isLost && most == 0 && !answered.isEmpty()) {
        connection.awaitReplicas();
        answered.clear();
      }
    } catch (IOException lost) {
      isLost = true;
    }
    if (isLost) resend();
  }

  private void resend() {
    release(false);
    broker.write(redis -> {
      for (Object[] arguments : answered) Broker.Script.WRITE.run(redis, keys, arguments);
      for (Object[] arguments : unanswered) Broker.Script.WRITE.run(redis, keys, arguments);
      return null;
    });
    answered.clear();
    unanswered.clear();
    isLost = false;
  }

  private void release(boolean intact) {
    if (connection == null) return;
    if (intact) broker.giveBack(connection);
    else connection.close();
    connection = null;
  }
}
