package weir;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.util.TaskCompletionListener;
import scala.Function1;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * A stream that several tasks of a path read, or alternates of which one warms up (docs/dynamic.md). Spark copies what is
 * before them once for each: valves there would count and publish as often, and what has state would be as many operators
 * as alternates that are on have readers, while a checkpoint has a fixed number. All readers are parts of one Spark task, one
 * after another: the first pulls the events, the others get those that it has pulled, and pull the rest. So of the copies only
 * that of the first reader stays in a batch's plan.
 */
public final class Tee extends AbstractFunction1<Iterator<Row>, Iterator<Row>> implements Serializable {
  private static final Map<String, Pulled> OPEN = new ConcurrentHashMap<>();
  private final String id; // the same for all readers, wherever Spark copies it
  private final boolean isFirst;

  private Tee(String id, boolean isFirst) {
    this.id = id;
    this.isFirst = isFirst;
  }

  /** The events, for any number of readers that come together in one partition again. */
  public static Dataset<Row> of(Dataset<Row> events) {
    return events.coalesce(1).mapPartitions(new Tee(UUID.randomUUID().toString(), true), events.encoder());
  }

  /** A batch's plan in which only the first reader of each tee has before it what the tee reads. */
  static LogicalPlan readOnce(LogicalPlan plan) {
    Set<String> read = new HashSet<>();
    return (LogicalPlan) plan.transformDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan node) {
        return first(node) != null;
      }

      @Override
      public LogicalPlan apply(LogicalPlan node) {
        Tee tee = first(node);
        return read.add(tee.id) ? node : tee.withoutInput((MapPartitions) node);
      }
    });
  }

  private static Tee first(LogicalPlan node) {
    Object function = node instanceof MapPartitions ? ((MapPartitions) node).func() : null;
    return function instanceof Tee && ((Tee) function).isFirst ? (Tee) function : null;
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // Spark has no type for what a plan's functions take
  private LogicalPlan withoutInput(MapPartitions reader) {
    LogicalPlan rows = reader.child(), read = rows.children().head();
    LogicalPlan nothing = new LocalRelation(
        read.output(), CollectionConverters.asScala(List.<org.apache.spark.sql.catalyst.InternalRow>of()).toSeq(), true,
        Option.empty());
    LogicalPlan partition = new Repartition(1, false, nothing); // a relation without rows has no partition
    LogicalPlan child = (LogicalPlan) rows.withNewChildren(CollectionConverters.asScala(List.of(partition)).toIndexedSeq());
    return reader.copy((Function1) new Tee(id, false), reader.outputObjAttr(), child);
  }

  @Override
  public Iterator<Row> apply(Iterator<Row> events) {
    TaskContext context = TaskContext.get();
    String key = context.taskAttemptId() + " " + id;
    if (!isFirst && !OPEN.containsKey(key)) {
      throw new IllegalStateException("a reader of a tee came before the one that has its input");
    }
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
      return new AbstractIterator<Row>() {
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
