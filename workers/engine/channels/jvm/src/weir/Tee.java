package weir;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
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
  private final boolean isHead; // it gives the first event alone, when it has pulled all

  private Tee(String id, boolean isFirst, boolean isHead) {
    this.id = id;
    this.isFirst = isFirst;
    this.isHead = isHead;
  }

  /** The events, for any number of readers that come together in one partition again. */
  public static Dataset<Row> of(Dataset<Row> events) {
    return events.coalesce(1).mapPartitions(new Tee(UUID.randomUUID().toString(), true, false), events.encoder());
  }

  /**
   * The first event of each batch, which comes when all others have come, too; and the events, for any number of readers that
   * Spark works on behind that, in the same partition. These readers have nothing before them in a plan, so it does not grow
   * with their number.
   */
  public static List<Dataset<Row>> headed(Dataset<Row> events) {
    String id = UUID.randomUUID().toString();
    Dataset<Row> head = events.coalesce(1).mapPartitions(new Tee(id, true, true), events.encoder());
    // A row, for a relation without one has no partition. Nobody reads it.
    Attribute column = new AttributeReference(
        "row", DataTypes.IntegerType, false, Metadata.empty(), NamedExpression.newExprId(),
        CollectionConverters.asScala(List.<String>of()).toSeq());
    LogicalPlan row = new LocalRelation(
        CollectionConverters.asScala(List.of(column)).toSeq(),
        CollectionConverters.asScala(List.<InternalRow>of(new GenericInternalRow(new Object[] {0}))).toSeq(), true,
        Option.empty());
    Dataset<Row> one = org.apache.spark.sql.classic.Dataset.ofRows(
        (org.apache.spark.sql.classic.SparkSession) events.sparkSession(), row);
    return List.of(head, one.mapPartitions(new Tee(id, false, false), events.encoder()));
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
        read.output(), CollectionConverters.asScala(List.<InternalRow>of()).toSeq(), true,
        Option.empty());
    LogicalPlan partition = new Repartition(1, false, nothing); // a relation without rows has no partition
    LogicalPlan child = (LogicalPlan) rows.withNewChildren(CollectionConverters.asScala(List.of(partition)).toIndexedSeq());
    return reader.copy((Function1) new Tee(id, false, isHead), reader.outputObjAttr(), child);
  }

  @Override
  public Iterator<Row> apply(Iterator<Row> events) {
    TaskContext context = TaskContext.get();
    String key = context.taskAttemptId() + " " + id;
    if (!isFirst && !OPEN.containsKey(key)) {
      throw new IllegalStateException("a reader of a tee came before the one that has its input");
    }
    Pulled pulled = OPEN.computeIfAbsent(key, unused -> {
      context.addTaskCompletionListener((TaskCompletionListener) ended -> OPEN.remove(key));
      return new Pulled(events);
    });
    return isHead ? pulled.head() : pulled.reader();
  }

  private static final class Pulled {
    private final Iterator<Row> rest;
    private final List<Row> events = new ArrayList<>();

    Pulled(Iterator<Row> rest) {
      this.rest = rest;
    }

    /** The first event, once all are there: who reads behind it may do so on another thread than what is before. */
    Iterator<Row> head() {
      return new AbstractIterator<Row>() {
        private boolean isOver;

        @Override
        public boolean hasNext() {
          if (isOver) return false;
          while (rest.hasNext()) events.add(rest.next());
          return !events.isEmpty();
        }

        @Override
        public Row next() {
          if (!hasNext()) throw new NoSuchElementException();
          isOver = true;
          return events.get(0);
        }
      };
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
