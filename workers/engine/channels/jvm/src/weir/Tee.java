package weir;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.util.TaskCompletionListener;

/**
 * A stream that several tasks of a path read (docs/dynamic.md). Spark works out what is before them once for each; valves
 * there would count and publish as often. All readers are parts of one Spark task, one after another: the first pulls the
 * events, the others get those that it has pulled, and pull the rest.
 */
public final class Tee implements MapPartitionsFunction<Row, Row> {
  private static final Map<String, Pulled> OPEN = new ConcurrentHashMap<>();
  private final String id = UUID.randomUUID().toString(); // the same for all readers, wherever Spark copies it

  /** The events, for any number of readers that come together in one partition again. */
  public static Dataset<Row> of(Dataset<Row> events) {
    return events.coalesce(1).mapPartitions(new Tee(), events.encoder());
  }

  @Override
  public Iterator<Row> call(Iterator<Row> events) {
    TaskContext context = TaskContext.get();
    String key = context.taskAttemptId() + " " + id;
    return OPEN.computeIfAbsent(key, unused -> {
      context.addTaskCompletionListener((TaskCompletionListener) ended -> OPEN.remove(key));
      return new Pulled(events);
    }).reader();
  }

  private static final class Pulled {
    private final Iterator<Row> rest;
    private final List<Row> events = new ArrayList<>();

    Pulled(Iterator<Row> rest) {
      this.rest = rest;
    }

    Iterator<Row> reader() {
      return new Iterator<Row>() {
        private int next;

        @Override
        public boolean hasNext() {
          return next < events.size() || rest.hasNext();
        }

        @Override
        public Row next() {
          if (next == events.size()) events.add(rest.next());
          return events.get(next++);
        }
      };
    }
  }
}
