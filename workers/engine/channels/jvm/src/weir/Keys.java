package weir;

/** Names of what channels keep in the broker; the registry ({@code workers/engine/channels/keys.py}) uses the same names. */
final class Keys {
  /** Is there while the broker is nearly full ({@code broker_room.py}). */
  static final String CROWDED = "weir:crowded";

  private Keys() {}

  /** The stream of blocks, and the topic on which its readers hear of a new one. */
  static String channel(String channel) {
    return "weir:ch:" + channel;
  }

  /** The field of a fragment's control that opens the gate of one start of its query. */
  static String gate(String token) {
    return "gate:" + token;
  }

  static String meta(String channel) {
    return channel(channel) + ":meta";
  }

  static String readers(String channel) {
    return channel(channel) + ":readers";
  }

  /** The field of a channel's meta with the last entry for a reader whose place in the channel ends, or has ended. */
  static String limit(String reader) {
    return "limit:" + reader;
  }

  /** The field of a channel's meta with the last entry that a reader's node has on disk for it. */
  static String spill(String reader) {
    return "spill:" + reader;
  }

  /** The field that asks a reader to give up what it has not read, but for so many blocks. */
  static String lose(String reader) {
    return "lose:" + reader;
  }

  /** The field with the last step of a reader over blocks that it gave up: two entries. */
  static String skip(String reader) {
    return "skip:" + reader;
  }

  /** The hash of where the batches of a fragment end of which the oldest copy of its state has not read. */
  static String ranges(String fragment) {
    return "weir:ranges:" + fragment;
  }

  /** The topic on which writers hear that a full channel has room again. */
  static String room(String channel) {
    return channel(channel) + ":room";
  }

  static String valve(String fragment) {
    return "weir:valve:" + fragment;
  }

  /** The first event of each alternate of an element, switch by switch. */
  static String switches(String task) {
    return "weir:switches:" + task;
  }

  /** The same of its alternates by key. */
  static String keySwitches(String task) {
    return switches(task) + ":keys";
  }

  /** Which alternate an element that switches in waves has from which wave on. */
  static String waves(String task) {
    return "weir:waves:" + task;
  }

  /** The newest wave that a source is to begin. */
  static String wave(String source) {
    return "weir:wave:" + source;
  }

  static String meter(String fragment) {
    return "weir:meter:" + fragment;
  }

  /** What a fragment's meters say of each channel that it reads. */
  static String channelMeters(String fragment) {
    return meter(fragment) + ":channels";
  }

  /** How the events that a fragment deals out by keys spread over these, by reader. */
  static String keyMeters(String fragment) {
    return meter(fragment) + ":keys";
  }

  /** Is there while somebody looks at the streams of a fragment. */
  static String tap(String fragment) {
    return "weir:tap:" + fragment;
  }

  /** The queries whose valves copied of a running task's stream for whoever looks. */
  static String tapped(String task) {
    return "weir:tapped:" + task;
  }

  /** What the valve of one query copied of it: blocks, the newest first. */
  static String tapped(String task, String fragment) {
    return "weir:tapped:" + task + ":" + fragment;
  }
}
