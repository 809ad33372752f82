package weir;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/** The valves of a task that works on an open batch, upstream first: they publish at the end of each group of events. */
final class OpenBatch {
  private static final Map<Long, OpenBatch> OPEN = new ConcurrentHashMap<>(); // by task

  private final List<ValveTask> valves = new ArrayList<>();

  static OpenBatch begin(TaskContext context) {
    OpenBatch batch = new OpenBatch();
    long task = context.taskAttemptId();
    OPEN.put(task, batch);
    context.addTaskCompletionListener((TaskCompletionListener) done -> OPEN.remove(task));
    return batch;
  }

  /** Notes a valve of this task where its batch is an open one. */
  static void join(TaskContext context, ValveTask valve) {
    OpenBatch batch = OPEN.get(context.taskAttemptId());
    if (batch != null) batch.valves.add(valve);
  }

  /** The group's events have been through all valves. Of a group that is repeated nothing is counted a second time. */
  void endGroup(boolean counts) {
    for (ValveTask valve : valves) valve.endGroup(counts);
  }
}
