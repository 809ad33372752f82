package weir;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.util.TaskCompletionListener;

/** A valve within one Spark task, that is, within one batch: decides once, then counts, deals out and passes. */
final class ValveTask implements OpenBatch.Member {
  private static final long SAMPLES = 16; // of a batch's latencies, where it has as many events as the one before
  private static final Map<String, Long> LAST_EVENTS = new ConcurrentHashMap<>(); // of a batch, by fragment and position

  private final Valve.Spec spec;
  private final Broker broker;
  private final boolean passes;
  private final List<Outlet> outlets = new ArrayList<>(); // none where nobody reads the stream
  private final Tap tap; // null where nobody looks at the stream
  private final Map<String, Long> meters = new HashMap<>();
  private long events;
  private long stride; // events between two samples
  private long nextSample;
  private long samples;
  private long aged; // events that say when they were born
  private long bornMsSum;
  private long lastBornMs = -1;
  private long newestTimeMs = -1;

  ValveTask(Valve.Spec stated, TaskContext context) {
    broker = Broker.at(stated.url);
    String batch = context == null ? null : context.getLocalProperty("streaming.sql.batchId");
    String run = context == null ? null : context.getLocalProperty("spark.jobGroup.id");
    long batchId = batch == null ? -1 : Long.parseLong(batch);
    Control control = batch == null ? null : Control.of(broker, stated.fragment, run == null ? "" : run, batchId);
    spec = control == null ? stated : control.opened(stated);
    stride = stride();
    nextSample = 1 + stride / 2;
    if (control == null) {
      // Not a streaming query, as where a test looks at a plan's result: there is no batch to publish or to count.
      passes = true;
      tap = null;
      return;
    }
    passes = control.passes(spec.position);
    long wave = control.wave() == null ? 0 : control.wave();
    if (control.publishes(spec.position)) outlets.add(new Outlet(spec, broker, batchId, wave));
    control.routes(spec.position).forEach(
        (reader, how) -> outlets.add(new Outlet(spec, broker, batchId, wave, how, reader)));
    tap = control.tapped() > 0 ? new Tap(spec, control.tapped()) : null;
    context.addTaskCompletionListener((TaskCompletionListener) this::finish);
    OpenBatch.join(context, this);
    if (isPublishing() && context.numPartitions() > 1) {
      throw new IllegalStateException("a valve stands on one partition, not on " + context.numPartitions());
    }
  }

  boolean isPublishing() {
    return !outlets.isEmpty();
  }

  /** Whether the next event is needed itself, and not only that there is one. */
  boolean wantsEvent() {
    return isPublishing() || (tap != null && tap.wantsMore());
  }

  boolean pass(long bornMs, long timeMs, InternalRow event) {
    events++;
    if (timeMs > newestTimeMs) newestTimeMs = timeMs;
    if (bornMs >= 0) {
      aged++;
      bornMsSum += bornMs;
      // Evenly over the batch, for those that wait longest come first; of one that is larger than was thought, fewer.
      if (events >= nextSample) {
        sample(bornMs);
        if (++samples % (2 * SAMPLES) == 0) stride *= 2;
        nextSample = events + stride;
      }
    }
    lastBornMs = bornMs;
    if (event != null) {
      for (Outlet outlet : outlets) outlet.add(event);
      if (tap != null && tap.wantsMore()) tap.add(event);
    }
    return passes;
  }

  private void sample(long bornMs) {
    long latencyMs = System.currentTimeMillis() - bornMs;
    meters.merge(spec.position + ":lat:" + Meters.bucket(latencyMs), 1L, Long::sum);
  }

  private long stride() {
    return Math.max(1, LAST_EVENTS.getOrDefault(key(), 1L) / SAMPLES);
  }

  private String key() {
    return spec.fragment + ' ' + spec.position;
  }

  /** Of an open batch: publishes what has come since the last time, and counts it unless that was done before. */
  @Override
  public void endGroup(boolean counts) {
    Outlet.flush(outlets);
    if (counts) count();
    meters.clear();
    events = aged = bornMsSum = samples = 0;
    stride = stride();
    nextSample = 1 + stride / 2;
    lastBornMs = newestTimeMs = -1;
  }

  private void finish(TaskContext context) {
    OpenBatch.halt(context);
    boolean failed = context.isFailed() || context.isInterrupted();
    try {
      Outlet.close(outlets, !failed);
    } finally {
      if (tap != null) tap.close(broker.meters, !failed);
    }
    if (!failed) count(); // else the batch is repeated and counted then
  }

  private void count() {
    if (lastBornMs >= 0 && samples == 0) sample(lastBornMs);
    if (aged > 0) { // what a batch gives is there when it is done
      meters.merge(spec.position + ":age", Math.max(0, aged * System.currentTimeMillis() - bornMsSum), Long::sum);
      meters.merge(spec.position + ":aged", aged, Long::sum);
    }
    if (events > 0) LAST_EVENTS.put(key(), events);
    meters.merge(spec.position + ":n", events, Long::sum);
    broker.meters.add(spec.fragment, meters);
    for (Outlet outlet : outlets) outlet.reportKeys();
    if (newestTimeMs >= 0) broker.meters.reach(spec.fragment, spec.position + ":time", newestTimeMs);
  }
}
