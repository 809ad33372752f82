package weir;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The valve behind a task (architecture.md): counts its events, publishes them where its outlet is open, copies a few
 * for whoever looks, and says whether they go on. It is the condition of a filter, so an event that is only passed on is never copied.
 *
 * <p>The optimiser must neither repeat it, reorder it nor drop it, and does not: it names every column, so none is pruned
 * below it; and the coalesced stream under it keeps it from being pushed into the projection below,
 * which would compute the task's columns twice. One partition also means one writer, whose blocks are numbered.
 */
public final class Valve extends FixedCondition {
  private final Spec spec;
  private final List<Expression> columns;
  private transient ValveTask task;
  private transient int born;
  private transient int time;
  private transient GenericInternalRow copy;

  /** What does not change while a query runs. */
  static final class Spec implements Serializable {
    final String url;
    final String task;
    final String fragment;
    final int position;
    final String channel;
    final long fence;
    final long batchBase;
    final int blockRows;
    final StructType schema;
    final String gate; // of a query that stands by: its control says the token and where numbers begin; else empty

    Spec(
        String url, String task, String fragment, int position, String channel, long fence, long batchBase, int blockRows,
        StructType schema, String gate) {
      this.url = url;
      this.task = task;
      this.fragment = fragment;
      this.position = position;
      this.channel = channel;
      this.fence = fence;
      this.batchBase = batchBase;
      this.blockRows = blockRows;
      this.schema = schema;
      this.gate = gate;
    }

    /** The same with what the control says of a query that stood by. */
    Spec opened(long fence, long batchBase) {
      return new Spec(url, task, fragment, position, channel, fence, batchBase, blockRows, schema, gate);
    }
  }

  /** Puts a valve behind {@code events}; its blocks are numbered from {@code batchBase} on, where the channel has others. */
  public static Dataset<Row> behind(
      Dataset<Row> events, String url, String task, String fragment, int position, String channel, long fence,
      long batchBase, int blockRows, String gate) {
    Dataset<Row> single = events.coalesce(1);
    List<Expression> columns = new ArrayList<>();
    for (String name : single.columns()) columns.add(ExpressionUtils.expression(single.col("`" + name.replace("`", "``") + "`")));
    Spec spec = new Spec(url, task, fragment, position, channel, fence, batchBase, blockRows, single.schema(), gate);
    return single.filter(ExpressionUtils.column(new Valve(spec, columns)));
  }

  private Valve(Spec spec, List<Expression> columns) {
    this.spec = spec;
    this.columns = columns;
  }

  @Override
  public Object eval(InternalRow row) {
    if (task == null) open();
    return task.pass(longAt(row, born), longAt(row, time), task.wantsEvent() ? project(row) : null);
  }

  private static long longAt(InternalRow row, int ordinal) {
    return ordinal < 0 || row.isNullAt(ordinal) ? -1 : row.getLong(ordinal);
  }

  private void open() {
    born = ordinalOf("_born");
    time = ordinalOf("_time");
    copy = new GenericInternalRow(columns.size());
    task = new ValveTask(spec, TaskContext.get());
  }

  private int ordinalOf(String name) {
    int index = spec.schema.getFieldIndex(name).isEmpty() ? -1 : spec.schema.fieldIndex(name);
    boolean isPlain = index >= 0 && spec.schema.apply(index).dataType().equals(DataTypes.LongType);
    return isPlain && columns.get(index) instanceof BoundReference ? ((BoundReference) columns.get(index)).ordinal() : -1;
  }

  private InternalRow project(InternalRow row) {
    for (int i = 0; i < columns.size(); i++) copy.update(i, columns.get(i).eval(row));
    return copy;
  }

  @Override
  public scala.collection.immutable.Seq<Expression> children() {
    return CollectionConverters.asScala(columns).toList();
  }

  @Override
  public Expression withNewChildrenInternal(scala.collection.immutable.IndexedSeq<Expression> children) {
    return new Valve(spec, new ArrayList<>(CollectionConverters.asJava(children)));
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? spec : children();
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Valve;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Valve && ((Valve) other).spec == spec && ((Valve) other).columns.equals(columns);
  }

  @Override
  public int hashCode() {
    return Objects.hash(spec.fragment, spec.position, columns);
  }

  @Override
  public String toString() {
    return "weir_valve(" + spec.fragment + "." + spec.position + ")";
  }
}
