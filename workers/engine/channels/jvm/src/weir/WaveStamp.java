package weir;

import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Says of which wave the batches of a source are: the newest that it was told. A batch that may have been planned before keeps
 * the wave that it had: the first one of a run, and each one that is repeated from a copy of another query's state. The next
 * batch takes the newer wave.
 */
final class WaveStamp {
  private final Broker broker;
  private final String fragment;
  private final String source;
  private long begun = -1; // the newest batch of this run

  private WaveStamp(Broker broker, String fragment, String source) {
    this.broker = broker;
    this.fragment = fragment;
    this.source = source;
  }

  /** Null where the stream's options name no task that is a source. */
  static WaveStamp of(Broker broker, CaseInsensitiveStringMap options) {
    String source = options.getOrDefault("source", "");
    return source.isEmpty() ? null : new WaveStamp(broker, options.get("reader"), source);
  }

  void begins(String run, long batch, boolean isRepeated) {
    if (batch == begun) return;
    Control control = Control.planned(broker, fragment, run, batch);
    long newest = Waves.newest(broker, source);
    Long wave = control.wave();
    if (wave == null) control.note(broker, fragment, newest, batch);
    else if (newest > wave && begun >= 0 && !isRepeated) control.note(broker, fragment, newest, batch);
    begun = batch;
  }
}
