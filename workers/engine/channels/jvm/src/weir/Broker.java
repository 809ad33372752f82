package weir;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The broker at one URL as this JVM sees it: pooled connections, the Lua scripts, {@link Arrivals} and {@link Meters}.
 * A broker that is away is tried again for {@link #PATIENCE_MS} before the query fails (and is restarted by its slot). For one
 * that is full a query waits as for a full channel: a restart would find no more room.
 */
final class Broker {
  private static final long PATIENCE_MS = 10_000;
  private static final int IDLE_CONNECTIONS = 8;
  private static final Map<String, Broker> BROKERS = new ConcurrentHashMap<>();

  /** The broker is there, and has lost what this user may not load: it is as good as away until the agent has. */
  private static final class ScriptsLost extends IOException {
    ScriptsLost(Redis.Refusal refusal) {
      super("it has lost Weir's scripts, which the node's agent loads: see whether it runs", refusal);
    }
  }

  /** What to do with a connection. */
  interface Use<T> {
    T with(Redis redis) throws IOException;
  }

  final String url;
  final boolean isReplicated; // what is written is lost with the primary until its replicas have it
  final Arrivals arrivals;
  final Meters meters;
  private final Deque<Redis> idle = new ArrayDeque<>();

  private Broker(String url) {
    this.url = url;
    this.isReplicated = Redis.namesSentinels(url);
    this.arrivals = new Arrivals(url);
    this.meters = new Meters(this);
  }

  static Broker at(String url) {
    return BROKERS.computeIfAbsent(url, Broker::new);
  }

  /** A connection of the pool, or a new one; to be given back or closed. */
  Redis borrow() throws IOException {
    synchronized (idle) {
      Redis redis = idle.pollFirst();
      if (redis != null) return redis;
    }
    return new Redis(url);
  }

  void giveBack(Redis redis) {
    synchronized (idle) {
      if (idle.size() < IDLE_CONNECTIONS) {
        idle.addFirst(redis);
        return;
      }
    }
    redis.close();
  }

  /** Runs what may be repeated, again and on a new connection while the broker is away. */
  <T> T call(Use<T> use) {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    boolean isBack = false;
    while (true) {
      try {
        return once(use);
      } catch (IOException away) {
        forgetIdle();
        if (away instanceof ScriptsLost && !isBack) { // its agent has as long for them, however long it was away
          isBack = true;
          deadline = System.currentTimeMillis() + PATIENCE_MS;
        }
        if (away instanceof Redis.Full) deadline = System.currentTimeMillis() + PATIENCE_MS;
        if (System.currentTimeMillis() > deadline) throw new IllegalStateException("the broker does not answer: " + away.getMessage(), away);
        pause(100);
      }
    }
  }

  /** The same, and waits until the broker's replicas have what it wrote. */
  <T> T write(Use<T> use) {
    return call(redis -> {
      T result = use.with(redis);
      redis.awaitReplicas();
      return result;
    });
  }

  /** Runs what must not be repeated; the caller decides what a lost connection means. */
  <T> T once(Use<T> use) throws IOException {
    Redis redis = borrow();
    boolean intact = false;
    try {
      T result = use.with(redis);
      intact = true;
      return result;
    } catch (Redis.Refusal refusal) {
      intact = true;
      throw refusal;
    } finally {
      if (intact) giveBack(redis);
      else redis.close();
    }
  }

  /** Sends commands that may be repeated and only write, all at once, and waits until the broker's replicas have that. */
  List<Object> writes(List<Object[]> commands) {
    List<Object> replies = write(redis -> redis.pipeline(commands));
    replies.forEach(Redis::checked);
    return replies;
  }

  /** Sends commands that may be repeated, all at once. */
  List<Object> pipeline(List<Object[]> commands) {
    return pipeline(commands, Long.MAX_VALUE, 1);
  }

  /** The same with room for so many bytes of blocks, see {@link Redis#pipeline(List, long, int)}. */
  List<Object> pipeline(List<Object[]> commands, long mostBytes, int shares) {
    List<Object> replies = call(redis -> {
      List<Object> answers = redis.pipeline(commands, mostBytes, shares);
      if (answers.stream().noneMatch(Script::isUnknown)) return answers;
      Script.loadAll(redis);
      return redis.pipeline(commands, mostBytes, shares);
    });
    replies.forEach(Redis::checked);
    return replies;
  }

  private void forgetIdle() {
    List<Redis> stale;
    synchronized (idle) {
      stale = new ArrayList<>(idle);
      idle.clear();
    }
    stale.forEach(Redis::close);
  }

  private static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException interrupted) {
      throw Broker.<RuntimeException>asItIs(interrupted);
    }
  }

  /** Lets an exception out unchanged: Spark knows a query that was stopped by its InterruptedException. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> E asItIs(Throwable thrown) throws E {
    throw (E) thrown;
  }

  /** A Lua script of {@code workers/engine/channels/lua}, run by its digest, and loaded where the broker has lost it. */
  enum Script {
    WRITE("trim", "write"),
    COMMIT("frees", "trim", "commit"),
    SKIP("frees", "trim", "skip"),
    RANGE("range"),
    BACKPRESSURE("backpressure");

    private final String text;
    private final String digest;

    Script(String... files) {
      StringBuilder all = new StringBuilder();
      for (String file : files) all.append(resource(file));
      text = all.toString();
      digest = sha1(text);
    }

    /** Loads all scripts, where this user may: a node's own processes have them from their agent. */
    private static void loadAll(Redis redis) throws IOException {
      try {
        for (Script script : values()) redis.call("SCRIPT", "LOAD", script.text);
      } catch (Redis.Refusal refusal) {
        if (!refusal.getMessage().startsWith("NOPERM")) throw refusal;
        throw new ScriptsLost(refusal);
      }
    }

    Object[] command(List<String> keys, Object... args) {
      List<Object> parts = new ArrayList<>(List.of("EVALSHA", digest, keys.size()));
      parts.addAll(keys);
      parts.addAll(List.of(args));
      return parts.toArray();
    }

    /** Runs the script alone. */
    Object run(Redis redis, List<String> keys, Object... args) throws IOException {
      Object[] command = command(keys, args);
      try {
        return redis.call(command);
      } catch (Redis.Refusal refusal) {
        if (!isUnknown(refusal)) throw refusal;
        loadAll(redis);
        return redis.call(command);
      }
    }

    static boolean isUnknown(Object reply) {
      return reply instanceof Redis.Refusal && ((Redis.Refusal) reply).getMessage().startsWith("NOSCRIPT");
    }

    private static String resource(String name) {
      try (InputStream stream = Broker.class.getResourceAsStream("/weir/lua/" + name + ".lua")) {
        return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
      } catch (IOException impossible) {
        throw new IllegalStateException(impossible);
      }
    }

    private static String sha1(String text) {
      try {
        byte[] digest = MessageDigest.getInstance("SHA-1").digest(text.getBytes(StandardCharsets.UTF_8));
        return HexFormat.of().formatHex(digest);
      } catch (java.security.NoSuchAlgorithmException impossible) {
        throw new IllegalStateException(impossible);
      }
    }
  }
}
