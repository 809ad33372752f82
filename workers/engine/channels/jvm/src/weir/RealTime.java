package weir;

import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import scala.jdk.javaapi.CollectionConverters;

/** What Python asks of real-time mode. */
public final class RealTime {
  // Each passes a row on before it takes the next one, and keeps nothing.
  private static final Set<String> ROW_BY_ROW = Set.of(
      "Project", "Filter", "SubqueryAlias", "Repartition", "Generate", "Expand", "StreamingRelationV2", "ResolvedHint",
      "DeserializeToObject", "MapPartitions", "SerializeFromObject"); // of Weir's own alone: HostedFold
  private static final Set<String> NOW = Set.of(
      "CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now", "CurrentBatchTimestamp");

  private RealTime() {}

  /** Whether a fragment that was paused has no batch open, and opens none until it is resumed. */
  public static boolean rests(String url, String fragment) {
    return Backpressure.rests(url, fragment);
  }

  /**
   * A line for each fragment that has a batch open: for how long it has been at work so far, not while it waited; for how long
   * it has neither taken an event nor looked for one, in ms; and the fragment.
   */
  public static String openTimes(String url) {
    return Backpressure.openTimes(url);
  }

  /** Why the query of a stream cannot run in real-time mode; empty where it can. */
  public static String refusal(Dataset<Row> events) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) events).queryExecution().analyzed();
    String refused = refusal(plan);
    if (!refused.isEmpty()) return refused;
    int streams = streams(plan);
    return streams == 1 ? "" : "it reads " + streams + " streams";
  }

  private static int streams(LogicalPlan plan) {
    int streams = plan instanceof StreamingRelationV2 ? 1 : 0;
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) streams += streams(child);
    return streams;
  }

  private static String refusal(LogicalPlan plan) {
    String name = plan.getClass().getSimpleName();
    if (name.contains("Python") || name.contains("InArrow") || name.contains("InPandas")) return "it runs Python (" + name + ")";
    if (!ROW_BY_ROW.contains(name)) return name + " does not pass on one event at a time";
    if (plan instanceof Repartition && ((Repartition) plan).shuffle()) return "it gathers what several threads made";
    for (Expression expression : CollectionConverters.asJava(plan.expressions())) {
      String refused = refusal(expression);
      if (!refused.isEmpty()) return refused;
    }
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      String refused = refusal(child);
      if (!refused.isEmpty()) return refused;
    }
    return "";
  }

  private static boolean isCountOfLate(Expression expression) {
    return expression instanceof ScalaUDF && ((ScalaUDF) expression).udfName().contains(LateEvents.NAME);
  }

  private static String refusal(Expression expression) {
    String name = expression.getClass().getSimpleName();
    if (name.contains("Python")) return "it runs Python (" + name + ")";
    if (NOW.contains(name)) return "it asks for the time, which stands still within a batch";
    if (name.contains("Subquery")) return "it has a query in a query";
    boolean isOwn = expression instanceof Valve || isCountOfLate(expression);
    for (Expression child : CollectionConverters.asJava(expression.children())) {
      String refused = refusal(child);
      if (!refused.isEmpty()) return refused;
    }
    return isOwn || expression.deterministic() ? "" : name + " gives something else when a batch is repeated";
  }
}
