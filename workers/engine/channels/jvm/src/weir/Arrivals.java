package weir;

import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Wakes queries when something happened to what they wait for: one subscriber connection and one thread a JVM serve
 * every source in it, so that an idle query costs nothing. A message can be lost with its connection: then every bell
 * rings, and a source asks again by itself about once a second.
 */
final class Arrivals {
  /** What one source waits on. Rings once for any number of messages since it was last heard. */
  static final class Bell {
    private boolean rung = true;

    synchronized void ring() {
      rung = true;
      notifyAll();
    }

    /** Whether it rang since it was last heard. */
    synchronized boolean heard() {
      boolean was = rung;
      rung = false;
      return was;
    }

    /** Waits until it rings or the time is over; says whether there is something to hear. */
    synchronized boolean await(long ms) {
      long deadline = System.nanoTime() + ms * 1_000_000;
      try {
        while (!rung) {
          long left = (deadline - System.nanoTime()) / 1_000_000;
          if (left <= 0) return false;
          wait(left);
        }
        return true;
      } catch (InterruptedException stopped) {
        throw Broker.<RuntimeException>asItIs(stopped);
      }
    }
  }

  private final String url;
  private final Map<String, Set<Bell>> bells = new HashMap<>();
  private Redis connection;
  private Thread listener;

  Arrivals(String url) {
    this.url = url;
  }

  synchronized Bell subscribe(Collection<String> topics) {
    Bell bell = new Bell();
    subscribe(bell, topics);
    if (listener == null) {
      listener = new Thread(this::listen, "weir-arrivals");
      listener.setDaemon(true);
      listener.start();
    }
    return bell;
  }

  /** Lets a bell ring for these topics, too. */
  synchronized void subscribe(Bell bell, Collection<String> topics) {
    for (String topic : topics) {
      if (bells.computeIfAbsent(topic, any -> new HashSet<>()).add(bell)) tell("SUBSCRIBE", topic);
    }
  }

  synchronized void unsubscribe(Bell bell) {
    bells.entrySet().removeIf(entry -> {
      boolean last = entry.getValue().remove(bell) && entry.getValue().isEmpty();
      if (last) tell("UNSUBSCRIBE", entry.getKey());
      return last;
    });
  }

  private void tell(String command, String topic) {
    if (connection == null) return; // The listener subscribes to everything when it connects.
    try {
      connection.send(command, topic);
      connection.flush();
    } catch (IOException lost) {
      connection.close(); // The listener notices, connects again and subscribes anew.
    }
  }

  private void listen() {
    while (true) {
      try (Redis redis = new Redis(url)) {
        redis.waitForever();
        synchronized (this) {
          for (String topic : bells.keySet()) redis.send("SUBSCRIBE", topic);
          redis.flush();
          connection = redis;
          bells.values().forEach(ringing -> ringing.forEach(Bell::ring));
        }
        while (true) hear(redis.receive());
      } catch (IOException | RuntimeException lost) {
        synchronized (this) {
          connection = null;
        }
        if (!rest()) return;
      }
    }
  }

  private synchronized void hear(Object message) {
    List<?> parts = (List<?>) message;
    if (!"message".equals(Redis.text(parts.get(0)))) return;
    bells.getOrDefault(Redis.text(parts.get(1)), Set.of()).forEach(Bell::ring);
  }

  private static boolean rest() {
    try {
      Thread.sleep(200);
      return true;
    } catch (InterruptedException interrupted) {
      return false;
    }
  }
}
