package weir;

import java.util.Collections;
import java.util.Iterator;
import java.util.concurrent.SynchronousQueue;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.Row;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Pulls the events of an open batch through what is above a fold, on a thread of its own, and gives what the fold makes of a
 * group to what is below it when the group ends. Spark's operators pull: one that waits for the next event could not pass on
 * what it has. Either thread works only while the other one waits for it.
 */
final class GroupFeeder implements Iterator<Row>, OpenBatch.Member {
  private static final Object END = new Object();
  private static final long STOPS_MS = 10_000; // what is interrupted ends at once; a task is not held up by it for ever

  private final Iterator<Row> events;
  private final FoldSession session;
  private final TaskContext context;
  private final int atOnce;
  private final SynchronousQueue<Object> given = new SynchronousQueue<>(); // rows, a failure, or the end
  private final SynchronousQueue<Object> asked = new SynchronousQueue<>(); // all that was given has gone on
  private Thread thread;
  private Iterator<Row> rows = Collections.emptyIterator();
  private boolean isOver;
  private boolean hasJoined;
  private int added;

  GroupFeeder(Iterator<Row> events, FoldSession session, TaskContext context, int atOnce) {
    this.events = events;
    this.session = session;
    this.context = context;
    this.atOnce = atOnce;
  }

  @Override
  @SuppressWarnings("unchecked")
  public boolean hasNext() {
    while (!rows.hasNext() && !isOver) {
      Object next;
      try {
        if (thread == null) start();
        else asked.put(END);
        next = given.take();
      } catch (InterruptedException stopped) {
        halt();
        throw Broker.<RuntimeException>asItIs(stopped);
      }
      isOver = next == END || next instanceof Throwable;
      if (next instanceof Throwable) throw Broker.<RuntimeException>asItIs((Throwable) next);
      if (!isOver) rows = (Iterator<Row>) next;
    }
    return rows.hasNext();
  }

  @Override
  public Row next() {
    return rows.next();
  }

  private void start() {
    OpenBatch.feeds(context, this);
    context.addTaskCompletionListener((TaskCompletionListener) ended -> OpenBatch.halt(context));
    thread = new Thread(this::feed, "weir-fold-" + context.taskAttemptId());
    thread.setDaemon(true);
    thread.start();
  }

  private void feed() {
    TaskContext$.MODULE$.setTaskContext(context);
    try {
      Object last = END;
      try {
        pull();
      } catch (Throwable failed) {
        last = failed;
      }
      given.put(last);
    } catch (InterruptedException stopped) {
      return; // nobody waits for it any more
    } finally {
      TaskContext$.MODULE$.unset();
    }
  }

  private void pull() throws InterruptedException {
    while (events.hasNext()) {
      if (!hasJoined) OpenBatch.join(context, this);
      hasJoined = true;
      session.add(events.next());
      if (++added >= atOnce) give();
    }
    give();
    session.save();
  }

  /** Lets the fold work on what has been added, and waits until what it makes has been through what is below. */
  private void give() throws InterruptedException {
    added = 0;
    Iterator<Row> made = session.work();
    if (!made.hasNext()) return;
    given.put(made);
    asked.take();
  }

  @Override
  public void endGroup(boolean counts) {
    try {
      give();
    } catch (InterruptedException stopped) {
      throw Broker.<RuntimeException>asItIs(stopped);
    }
  }

  /** Ends its thread, so that nothing above is worked on when the task's valves are closed. */
  void halt() {
    if (thread == null || thread == Thread.currentThread()) return;
    thread.interrupt();
    try {
      thread.join(STOPS_MS);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }
}
