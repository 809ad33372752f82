package weir;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The valves and folds of a task that works on an open batch, upstream first. At the end of each group of events a fold works
 * on what has come to it, and what it makes goes through all below; then these publish.
 */
final class OpenBatch {
  private static final Map<Long, OpenBatch> OPEN = new ConcurrentHashMap<>(); // by task
  private static final Map<Long, List<GroupFeeder>> FEEDERS = new ConcurrentHashMap<>(); // likewise, the lowest first

  /** What is told that a group ends. */
  interface Member {
    void endGroup(boolean counts);
  }

  private final List<Member> members = new ArrayList<>();

  static OpenBatch begin(TaskContext context) {
    OpenBatch batch = new OpenBatch();
    long task = context.taskAttemptId();
    OPEN.put(task, batch);
    context.addTaskCompletionListener((TaskCompletionListener) done -> OPEN.remove(task));
    return batch;
  }

  /** Notes a member of this task, at its first event, where its batch is an open one. */
  static void join(TaskContext context, Member member) {
    OpenBatch batch = OPEN.get(context.taskAttemptId());
    if (batch != null) batch.members.add(member);
  }

  /** Notes what feeds a fold of this task on a thread of its own. */
  static void feeds(TaskContext context, GroupFeeder feeder) {
    FEEDERS.computeIfAbsent(context.taskAttemptId(), none -> new CopyOnWriteArrayList<>()).add(feeder);
  }

  /** Ends the threads of a task that is over, before what they use is closed. */
  static void halt(TaskContext context) {
    List<GroupFeeder> feeders = FEEDERS.remove(context.taskAttemptId());
    if (feeders != null) for (GroupFeeder feeder : feeders) feeder.halt();
  }

  /**
   * The group's events have been through all that stands above the first fold. Of a group that is repeated nothing is counted
   * a second time.
   */
  void endGroup(boolean counts) {
    for (int i = 0; i < members.size(); i++) members.get(i).endGroup(counts); // one below may join meanwhile
  }
}
