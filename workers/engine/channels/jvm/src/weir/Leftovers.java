package weir;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;

/** Tasks that still work though the stage that they are of is over: their query was stopped, and they do not notice. */
public final class Leftovers {
  private static final Pattern TASK = Pattern.compile("Executor task launch worker for (.* in stage (\\d+)\\..*)");
  private static final String RUNNER = "org.apache.spark.executor.Executor$TaskRunner";

  private Leftovers() {}

  /** What they are called, a line each. A thread keeps the name of its last task while it has none. */
  public static String of(SparkContext context) {
    ThreadGroup all = Thread.currentThread().getThreadGroup();
    while (all.getParent() != null) all = all.getParent();
    Thread[] threads = new Thread[2 * all.activeCount() + 16];
    int count = all.enumerate(threads);
    int[] active = context.statusTracker().getActiveStageIds();
    List<String> left = new ArrayList<>();
    for (Thread thread : Arrays.copyOf(threads, count)) {
      Matcher task = TASK.matcher(thread.getName());
      if (!task.matches()) continue;
      int stage = Integer.parseInt(task.group(2));
      if (Arrays.stream(active).noneMatch(id -> id == stage) && isAtWork(thread)) left.add(task.group(1));
    }
    return String.join("\n", left);
  }

  private static boolean isAtWork(Thread thread) {
    return Arrays.stream(thread.getStackTrace()).anyMatch(frame -> frame.getClassName().equals(RUNNER));
  }
}
