package weir;

import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Says of which wave the batches of a source are: the newest that it was told. A batch that may be planned anew, for it is the
 * first of its run, keeps the wave that it had; the next one takes the newer.
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

  void begins(String run, long batch) {
    if (batch == begun) return;
    Control control = Control.planned(broker, fragment, run, batch);
    long newest = Waves.newest(broker, source);
    Long wave = control.wave();
    if (wave == null) control.note(broker, fragment, newest, batch);
    else if (newest > wave) control.note(broker, fragment, newest, begun < 0 ? batch + 1 : batch);
    begun = batch;
  }
}
