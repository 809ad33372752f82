package weir;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.TaskCompletionListener;

/** A valve within one Spark task, that is, within one batch: decides once, then counts and passes. */
final class ValveTask {
  private final Valve.Spec spec;
  private final Broker broker;
  private final boolean passes;
  private final BlockWriter writer; // null where the outlet is closed
  private final Map<String, Long> meters = new HashMap<>();
  private long events;
  private long nextSample = 1;
  private long lastBornMs = -1;

  ValveTask(Valve.Spec spec, TaskContext context) {
    this.spec = spec;
    broker = Broker.at(spec.url);
    String batch = context == null ? null : context.getLocalProperty("streaming.sql.batchId");
    if (batch == null) {
      // Not a streaming query, as where a test looks at a plan's result: there is no batch to publish or to count.
      passes = true;
      writer = null;
      return;
    }
    long batchId = Long.parseLong(batch);
    String run = context.getLocalProperty("spark.jobGroup.id");
    Control control = Control.of(broker, spec.fragment, run == null ? "" : run, batchId);
    passes = control.passes(spec.position);
    writer = control.publishes(spec.position) ? new BlockWriter(spec, broker, batchId) : null;
    context.addTaskCompletionListener((TaskCompletionListener) this::finish);
    if (writer != null && context.numPartitions() > 1) {
      throw new IllegalStateException("a valve stands on one partition, not on " + context.numPartitions());
    }
  }

  boolean isPublishing() {
    return writer != null;
  }

  boolean pass(long bornMs, InternalRow event) {
    events++;
    // The first events and ever fewer later ones: about log2(n) clock readings a task.
    if (bornMs >= 0 && events == nextSample) {
      sample(bornMs);
      nextSample *= 2;
    }
    lastBornMs = bornMs;
    if (event != null) writer.add(event);
    return passes;
  }

  private void sample(long bornMs) {
    long latencyMs = System.currentTimeMillis() - bornMs;
    meters.merge(spec.position + ":lat:" + Meters.bucket(latencyMs), 1L, Long::sum);
  }

  private void finish(TaskContext context) {
    boolean failed = context.isFailed() || context.isInterrupted();
    if (writer != null) writer.close(!failed);
    if (failed) return; // the batch is repeated and counted then
    if (lastBornMs >= 0 && events * 2 != nextSample) sample(lastBornMs);
    meters.merge(spec.position + ":n", events, Long::sum);
    broker.meters.add(spec.fragment, meters);
  }
}
