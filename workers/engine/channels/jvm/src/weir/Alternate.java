package weir;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Whether one alternate of a dynamic task works in a batch (docs/dynamic.md). It is the condition of a filter on all that the
 * alternate makes: a mark, which {@link OneAlternate} looks for when the batch is planned, and takes out with all that is off.
 * So an alternate that is off reads nothing, and no task runs for it.
 *
 * <p>It is asked in the driver, on the thread that plans the batch: the batch's number is a property of that thread. Where
 * the element switches in waves, the batch's wave says which is on ({@link Waves}). What works in a batch is said as
 * {@code <alternate>}, or {@code <alternate>+<the one that warms up beside it>}.
 */
public final class Alternate extends FixedCondition {
  private static final String WARMING = "warming"; // while it warms up
  private static final String FOR_KEYS = "keys"; // while it was set for any key
  private final String url;
  private final String fragment;
  private final int position;
  private final String name;
  private final boolean isFirst; // on where nobody has said which is
  private final String task; // of an element that switches in waves; else empty
  private final String beside; // when it works beside the one that is on: WARMING, FOR_KEYS, or empty for never

  private Alternate(String url, String fragment, int position, String name, boolean isFirst, String task, String beside) {
    this.url = url;
    this.beside = beside;
    this.task = task;
    this.fragment = fragment;
    this.position = position;
    this.name = name;
    this.isFirst = isFirst;
  }

  /**
   * What an alternate makes, in the batches in which it is on; of an element that switches in waves, by running task.
   *
   * @param beside {@code warming}: also in those in which it warms up; {@code keys}: also in those in which it works for any
   *     key; else empty
   */
  public static Dataset<Row> whileOn(
      Dataset<Row> made, String url, String fragment, int position, String name, boolean isFirst, String task,
      String beside) {
    OneAlternate.plansIn(made.sparkSession());
    return made.filter(ExpressionUtils.column(new Alternate(url, fragment, position, name, isFirst, task, beside)));
  }

  /**
   * What an element reads; the first event that an alternate gets after a switch is noted, under the running task.
   *
   * @param first the alternate of an element that switches in waves before the first one; else empty
   */
  public static Dataset<Row> noted(
      Dataset<Row> events, String url, String task, String fragment, int position, String first) {
    UDF1<Long, Boolean> notes = new FirstEvent(url, task, fragment, position, first);
    return events.filter(functions.udf(notes, DataTypes.BooleanType).asNondeterministic().apply(events.col("_seq")));
  }

  /**
   * Which alternate works on an event, where all of an element share one function: that of the event's key, where one was set
   * for that, or the element's own, with the one that warms up beside it.
   *
   * @param task of an element that switches in waves, its running task; else empty
   */
  public static Column ofEvent(
      String url, String fragment, int position, Column key, String[] names, String task) {
    UDF1<String, String> chosen = new ChosenByKey(url, fragment, position, names, task);
    return functions.udf(chosen, DataTypes.StringType).asNondeterministic().apply(key);
  }

  /** The control of the batch that a property of its thread names; null outside of a streaming query. */
  private static Control control(String url, String fragment, String batch, String run) {
    if (batch == null) return null;
    return Control.of(Broker.at(url), fragment, run == null ? "" : run, Long.parseLong(batch));
  }

  /** Whether it may be one of several that work in a batch. */
  boolean mayBeBeside() {
    return !beside.isEmpty();
  }

  /** Whether it works in the batch that is planned. */
  boolean isOn() {
    SparkContext context = SparkContext.getOrCreate();
    String batch = context.getLocalProperty("streaming.sql.batchId"), run = context.getLocalProperty("spark.jobGroup.id");
    if (batch == null) return isFirst; // outside of a streaming query
    Broker broker = Broker.at(url);
    Control control = Control.planned(broker, fragment, run == null ? "" : run, Long.parseLong(batch));
    String on = task.isEmpty() ? control.alternate(position) : control.alternateInWave(broker, task);
    if (beside.equals(FOR_KEYS) && control.alternatesByKey(position).containsValue(name)) return true;
    return on == null ? isFirst : name.equals(on(on)) || beside.equals(WARMING) && name.equals(warming(on));
  }

  /** Of what works at an element, the alternate that is on. */
  private static String on(String working) {
    int beside = working.indexOf('+');
    return beside < 0 ? working : working.substring(0, beside);
  }

  /** Of what works at an element, the alternate that warms up; empty where none does. */
  private static String warming(String working) {
    int beside = working.indexOf('+');
    return beside < 0 ? "" : working.substring(beside + 1);
  }

  @Override
  public Object eval(InternalRow row) {
    throw new IllegalStateException("the alternates of " + fragment + "." + position + " were not planned");
  }

  private static final class FirstEvent implements UDF1<Long, Boolean>, Serializable {
    private final String url;
    private final String task;
    private final String fragment;
    private final int position;
    private final String first;
    private transient TaskContext seen; // the task whose first event has come

    FirstEvent(String url, String task, String fragment, int position, String first) {
      this.first = first;
      this.url = url;
      this.task = task;
      this.fragment = fragment;
      this.position = position;
    }

    @Override
    public Boolean call(Long seq) {
      TaskContext context = TaskContext.get();
      if (context != seen) {
        seen = context;
        note(context, seq);
      }
      return true;
    }

    private void note(TaskContext context, Long seq) {
      if (context == null || context.partitionId() != 0) return; // its slice is the first
      String batch = context.getLocalProperty("streaming.sql.batchId"), run = context.getLocalProperty("spark.jobGroup.id");
      if (batch == null) return;
      Broker broker = Broker.at(url);
      Control control = Control.of(broker, fragment, run == null ? "" : run, Long.parseLong(batch));
      String on = first.isEmpty() ? null : control.alternateInWave(broker, task);
      control.noteFirstEvent(
          broker, task, fragment, position, on == null && !first.isEmpty() ? first : on, Long.parseLong(batch), seq);
    }
  }

  private static final class ChosenByKey implements UDF1<String, String>, Serializable {
    private final String url;
    private final String fragment;
    private final int position;
    private final String[] names; // the one first that is on where nothing was said
    private final String task; // of an element that switches in waves; else empty
    private transient TaskContext seen; // the task whose alternates are known
    private transient String on;
    private transient Map<String, String> byKey;

    ChosenByKey(String url, String fragment, int position, String[] names, String task) {
      this.task = task;
      this.url = url;
      this.fragment = fragment;
      this.position = position;
      this.names = names;
    }

    @Override
    public String call(String key) {
      TaskContext context = TaskContext.get();
      if (byKey == null || context != seen) {
        Control control = context == null ? null : control(
            url, fragment, context.getLocalProperty("streaming.sql.batchId"), context.getLocalProperty("spark.jobGroup.id"));
        on = known(
            control == null ? null
                : task.isEmpty() ? control.alternate(position) : control.alternateInWave(Broker.at(url), task), names[0]);
        byKey = control == null ? Map.of() : control.alternatesByKey(position);
        seen = context;
      }
      return known(byKey.get(key), on);
    }

    private String known(String name, String otherwise) {
      return name != null && Arrays.asList(names).contains(on(name)) ? name : otherwise;
    }
  }

  @Override
  public scala.collection.immutable.Seq<Expression> children() {
    return CollectionConverters.asScala(java.util.List.<Expression>of()).toList();
  }

  @Override
  public Expression withNewChildrenInternal(scala.collection.immutable.IndexedSeq<Expression> children) {
    return this;
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return name;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Alternate;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Alternate && toString().equals(other.toString());
  }

  @Override
  public int hashCode() {
    return Objects.hash(fragment, position, name);
  }

  @Override
  public String toString() {
    return "weir_alternate(" + fragment + "." + position + " " + name + " " + beside + ")";
  }
}
