package weir;

import java.io.Serializable;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Counts the events that a fold left out as too late (workers/library/state.py): a row with a number in the column
 * {@code _late} stands for so many, and goes no further. A batch that fails is repeated, and counts then.
 */
public final class LateEvents implements UDF1<Long, Boolean>, Serializable {
  static final String NAME = "weir_late"; // of the function: it passes the same events on each time

  private static final String COLUMN = "_late";

  private final String url;
  private final String fragment;
  private final String field;
  private transient TaskContext counted; // the task whose end is listened for
  private transient long late;

  private LateEvents(String url, String fragment, int position) {
    this.url = url;
    this.fragment = fragment;
    field = position + ":late";
  }

  /** The stream without the rows that stand for late events, and without the column. */
  public static Dataset<Row> counted(Dataset<Row> events, String url, String fragment, int position) {
    UDF1<Long, Boolean> counts = new LateEvents(url, fragment, position);
    return events
        .filter(functions.udf(counts, DataTypes.BooleanType).asNondeterministic().withName(NAME).apply(events.col(COLUMN)))
        .drop(COLUMN);
  }

  @Override
  public Boolean call(Long number) {
    if (number == null || number == 0) return true;
    TaskContext context = TaskContext.get();
    if (context != null && context != counted) {
      counted = context;
      late = 0;
      context.addTaskCompletionListener((TaskCompletionListener) this::finish);
    }
    late += number;
    return false;
  }

  private void finish(TaskContext context) {
    boolean failed = context.isFailed() || context.isInterrupted();
    if (!failed) Broker.at(url).meters.add(fragment, Map.of(field, late));
  }
}
