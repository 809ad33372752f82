package weir;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The driver's side of reading a stream from the channels that carry it: which blocks make the next batch, and which are
 * done with. The channels may be others when the query starts again, or is told so between two batches ({@link Inputs}): one
 * that comes begins where the reader is registered, one that goes must have been read to its end.
 */
final class ChannelStream extends LiveStream {
  private static final long ASK_ANYWAY_MS = 1_000; // a lost message costs a second at most
  private static final String NOTHING_LEFT = Long.MAX_VALUE + "-0";
  private static final double OPEN_PART = 0.4; // of what a channel holds: an open batch frees nothing that it has read

  private final StructType schema;
  private final String url;
  private final String reader;
  private final String spill;
  private List<String> channels;
  private volatile List<String> toRead; // from the next batch on; null: as before
  private final int leastBlocks; // of a batch at most, however few channels there are
  private final int blocksEach;
  private final int threads;
  private final long idleMs; // after which silence is noted, once; 0: never
  private long lastMs = System.currentTimeMillis(); // when a batch with events was last planned
  private Map<String, String> begin;
  private final boolean repeats; // another's batches, from just there on
  private final List<String> gone; // channels that these read to their end, of which this node knows nothing
  private List<String> carried; // channels that carry the stream or did so, of a query with several streams
  private boolean isAtBeginning; // there is no checkpoint, and no batch was planned
  private final Map<String, String> joined = new HashMap<>(); // where channels begin that the checkpoint lacks
  private final Map<String, String> committed = new HashMap<>();
  private final Map<String, String[]> skips = new HashMap<>(); // of each channel: the last step over what was given up
  private final boolean hasSiblings;
  private boolean isOpen; // a batch is, in real-time mode
  private boolean isToGiveUp; // when the open batch is over
  private long openBlocks; // that the open batch has read
  private long openAtMost = Long.MAX_VALUE;
  private final Waves waves; // shared by the streams of the query
  private final Map<String, String> marks = new HashMap<>(); // of each channel: from which block on it is of which wave
  private Long openWave; // of the open batch, once it has events
  private boolean hasLeft; // events, for they are of another wave than the batch
  private int askedAtMost = Integer.MAX_VALUE; // blocks of each channel: for more there was no room

  ChannelStream(StructType schema, CaseInsensitiveStringMap options, String checkpoint) {
    super(options, checkpoint, true, arrivals(options));
    this.schema = schema;
    url = options.get("redis_url");
    reader = options.get("reader");
    spill = options.getOrDefault("spill", "");
    channels = Backpressure.split(options.get("channels"));
    leastBlocks = options.getInt("max_blocks", 64);
    blocksEach = options.getInt("blocks_each", 0);
    threads = options.getInt("threads", 1);
    idleMs = options.getLong("idle_ms", 0);
    begin = parse(options.getOrDefault("begin", "{}"));
    repeats = options.getBoolean("repeats", false);
    gone = Backpressure.split(options.get("gone"));
    carried = Backpressure.split(options.get("carried"));
    if (ranges != null) ranges.joins(this);
    waves = Waves.of(url + ' ' + reader);
    hasSiblings = Backpressure.split(options.get("siblings")).size() > channels.size();
    Inputs.begins(url, reader, options.getInt("stream", 0), this);
  }

  /** Reads these channels from the next batch on; {@code siblings}: those of all streams of the query. From any thread. */
  void read(List<String> others, List<String> siblings) {
    broker.arrivals.subscribe(bell, siblings.stream().map(Keys::channel).toList());
    toRead = others;
    bell.ring();
  }

  private void readOthers() {
    List<String> others = toRead;
    if (others == null) return;
    toRead = null;
    carried = Stream.concat(carried.stream(), channels.stream()).distinct().toList();
    channels = others;
    joined.keySet().retainAll(others); // one that comes back begins where the reader is registered by then
  }

  private int maxBlocks() {
    return Math.max(leastBlocks, blocksEach * channels.size());
  }

  /** Its channels' topics, and those of its siblings: a query with several inputs waits in one of them for all. */
  private static List<String> arrivals(CaseInsensitiveStringMap options) {
    return Stream.of("channels", "siblings")
        .flatMap(name -> Backpressure.split(options.get(name)).stream()).map(Keys::channel).toList();
  }

  private static Map<String, String> parse(String begin) {
    try {
      return new ObjectMapper().readValue(begin, new TypeReference<Map<String, String>>() {});
    } catch (JsonProcessingException broken) {
      throw new IllegalArgumentException("not entries by channel: " + begin, broken);
    }
  }

  /**
   * Where the query starts without a checkpoint: the offsets at which the reader was registered. One that stands by says
   * none, and so begins in each channel as in one that its checkpoint lacks. One that repeats batches of another begins
   * where the first of these does, in the channels that this one read.
   */
  @Override
  public Offset initialOffset() {
    isAtBeginning = true; // else Spark knows where the stream begins
    Map<String, String> entries = new HashMap<>();
    if (gate != null) return new ChannelOffset(entries);
    if (repeats) return new ChannelOffset(begin);
    for (String channel : channels) entries.put(channel, registeredOffset(channel));
    return new ChannelOffset(entries);
  }

  /** Where the reader was registered in a channel; null where it was not. */
  private Object registered(String channel) {
    Object registered = broker.call(redis -> redis.call("HGET", Keys.readers(channel), reader));
    return registered != null ? registered
        : broker.call(redis -> redis.call("HGET", Keys.meta(channel), Keys.limit(reader)));
  }

  private String registeredOffset(String channel) {
    Object offset = registered(channel);
    if (offset == null) {
      throw new IllegalStateException(
          "'" + reader + "' is not a reader of channel " + channel + ": register it before the query starts");
    }
    return Redis.text(offset);
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    ChannelOffset from = (ChannelOffset) start;
    commit(from);
    readOthers();
    if (openMs > 0) {
      from.entries.forEach(this::checkReadToEnd);
      return opens(from);
    }
    waves.asks(this);
    if (ranges == null) return next(from);
    ranges.asks(this, from);
    ChannelOffset end = ranges.repeated(this);
    if (end == null) end = ranges.isToLook() ? next(from) : from;
    return ranges.ends(this, end);
  }

  boolean isAtBeginning() {
    return isAtBeginning;
  }

  /** Whether a channel carries the stream, or has done so. */
  boolean carries(String channel) {
    return channels.contains(channel) || carried.contains(channel);
  }

  private ChannelOffset next(ChannelOffset from) {
    long deadline = System.currentTimeMillis() + backpressure.pace.waitMs(waitMs);
    if (gate != null && !gate.isOpen()) {
      if (!gate.opens(bell, deadline)) return from;
      begin = parse(gate.says("offsets"));
      bell.ring();
    }
    if (!backpressure.isDue(bell, deadline, true)) return from;
    ChannelOffset repeated = ranges == null ? null : ranges.lookedUp(this);
    if (repeated != null) return repeated; // in whichever channels that batch read
    from.entries.forEach(this::checkReadToEnd);
    do {
      long now = System.currentTimeMillis();
      boolean rang = bell.heard();
      if (rang || now - askedAt >= ASK_ANYWAY_MS) {
        askedAt = now;
        ChannelOffset end = ask(from);
        if (end != from) {
          backpressure.pace.begins(now);
          if (hasLeft) backpressure.pace.isDueAgain();
          return end;
        }
        if (hasLeft || (rang && hasSiblings)) return from; // for one of them
      }
    } while (!backpressure.isPaused() && bell.await(deadline - System.currentTimeMillis()));
    if (!isSilent(from) || (stamp == null && !waves.allows(waveAfter(from)))) return from;
    return from.silent();
  }

  /** Whether nothing has come for as long as is asked for, and that is not noted yet. */
  private boolean isSilent(ChannelOffset from) {
    boolean waits = idleMs > 0 && !from.notesSilence && !from.entries.isEmpty() && !backpressure.isPaused();
    return waits && System.currentTimeMillis() > lastMs + idleMs + 1;
  }

  /**
   * In real-time mode: waits until a batch may be opened, and gives up before what was asked for. Where it ends is known
   * when it has ended.
   */
  private ChannelOffset opens(ChannelOffset from) {
    isOpen = false;
    if (gate != null && !gate.isOpen()) {
      if (!gate.waits(bell)) return from;
      begin = parse(gate.says("offsets"));
    }
    backpressure.awaitTurn(bell);
    if (isToGiveUp) ask(from);
    isToGiveUp = false;
    isOpen = true;
    openWave = null;
    openBlocks = 0;
    return from;
  }

  @Override
  public Offset ask(Offset from, boolean rang) {
    return askOnce((ChannelOffset) from);
  }

  @Override
  public long dueMs(Offset from) {
    return Long.MAX_VALUE;
  }

  @Override
  public PartitionReader<ColumnarBatch> open(Offset from, Offset to) {
    Waves.begin(this, from, to); // before the first event of the batch is at a valve; later groups are of the same
    openWave = stamp == null ? waves.newest() : null;
    List<Slice.Piece> pieces = new ArrayList<>();
    ((ChannelOffset) to).entries.forEach((channel, end) -> {
      String after = after((ChannelOffset) from, channel);
      if (ChannelOffset.compare(after, end) < 0) pieces.add(new Slice.Piece(channel, after, end));
    });
    return ChannelReader.ofGroup(schema, new Slice(url, spill, id, reader, System.currentTimeMillis(), pieces));
  }

  @Override
  public Offset offset(String json) {
    return ChannelOffset.parse(json);
  }

  @Override
  public boolean isToEnd(long batch, long openedAt) {
    return openBlocks >= openAtMost || ((isToGiveUp || hasLeft) && openedAt > 0) || backpressure.endsBatch(batch, openedAt);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    return new InputPartition[] {new LiveReader.Partition(id, start)};
  }

  /** A channel that is no longer read must have been read to its end, or to this reader's limit, or be gone. */
  private void checkReadToEnd(String channel, String entry) {
    if (channels.contains(channel) || gone.contains(channel)) return;
    List<?> state = (List<?>) broker.call(
        redis -> redis.call("HMGET", Keys.meta(channel), "capacity", "last", Keys.limit(reader)));
    if (state.get(0) == null || state.get(1) == null) return;
    String last = Redis.text(state.get(state.get(2) == null ? 1 : 2));
    if (ChannelOffset.compare(entry, last) >= 0) return;
    throw new IllegalStateException("WEIRGAP channel " + channel + " is no longer read by " + reader + ", which is at " + entry
        + " there, but it holds events up to " + last + ": read them before the channel is left out");
  }

  /** Where the next batch ends, behind what is given up first if that was asked for. */
  private ChannelOffset ask(ChannelOffset from) {
    ChannelOffset end = askOnce(from);
    return end == null ? askOnce(from) : end;
  }

  /**
   * One round trip: backpressure, and the next blocks of every channel, kept for the batch that will read them. Null where
   * blocks were given up instead: then it is asked again.
   */
  private ChannelOffset askOnce(ChannelOffset from) {
    int perChannel = Math.min((maxBlocks() + channels.size() - 1) / channels.size(), askedAtMost);
    List<Object[]> commands = new ArrayList<>(List.<Object[]>of(backpressure.question()));
    for (String channel : channels) {
      commands.add(new Object[] {"XRANGE", Keys.channel(channel), "(" + after(from, channel), "+", "COUNT", perChannel});
      // Behind the blocks: a limit is there before any block beyond it.
      commands.add(new Object[] {
          "HMGET", Keys.meta(channel), "trimmed", "last", Keys.limit(reader), Keys.spill(reader), Keys.lose(reader),
          "capacity", "waves"});
    }
    List<Object> replies = broker.pipeline(commands, Block.MOST_BYTES, channels.size());
    boolean isHeldBack = backpressure.applies(replies.get(0));
    boolean hasGivenUp = false;
    for (int i = 0; i < channels.size() && !isHeldBack; i++) {
      List<?> state = (List<?>) replies.get(2 + 2 * i);
      if (state.get(4) != null && isOpen) isToGiveUp = true;
      else if (state.get(4) != null) hasGivenUp |= giveUp(from, channels.get(i), Redis.text(state.get(3)));
      openAtMost = openAtMost(i == 0 ? Long.MAX_VALUE : openAtMost, state.get(5));
      marks.put(channels.get(i), Waves.marks(state.get(6)));
    }
    if (hasGivenUp) return null;
    List<List<Block>> waiting = new ArrayList<>(); // of each channel
    int hadRoom = perChannel < Integer.MAX_VALUE / 2 ? 2 * perChannel : perChannel; // blocks of each, for the next time
    boolean isCut = false; // what was left out goes with the next batch
    for (int i = 0; i < channels.size(); i++) {
      List<?> state = (List<?>) replies.get(2 + 2 * i);
      String limit = Redis.text(state.get(2));
      // Whoever has come to its limit misses nothing of what is freed beyond it.
      String after = after(from, channels.get(i));
      String reach = Spill.reach(after, Redis.text(state.get(0)), Redis.text(state.get(3)));
      List<Block> found = new ArrayList<>();
      if (reach != null) {
        found.addAll(Spill.at(spill).fetch(channels.get(i), after, reach, perChannel));
        if (found.isEmpty()) throw ChannelReader.lost(channels.get(i), "what follows " + after + " is not in " + spill);
        isCut |= ChannelOffset.compare(found.get(found.size() - 1).id, reach) < 0;
      } else {
        if (!after.equals(limit)) ChannelReader.checkUnbroken(channels.get(i), after, state);
        found.addAll(Block.listOf(replies.get(1 + 2 * i)));
        if (found.size() < ((List<?>) replies.get(1 + 2 * i)).size()) {
          isCut = true;
          hadRoom = Math.max(1, Math.min(hadRoom, found.size()));
        }
      }
      List<Block> blocks = new ArrayList<>();
      for (Block block : found) if (limit == null || ChannelOffset.compare(block.id, limit) <= 0) blocks.add(block);
      waiting.add(blocks);
    }
    askedAtMost = hadRoom;
    hasLeft = false;
    int[] taken = isHeldBack ? new int[waiting.size()] : admit(waiting);
    if (hasLeft || (isCut && !isHeldBack)) bell.ring(); // it is asked for the next batch, without waiting for a message
    Map<String, String> end = new HashMap<>();
    boolean hasBlocks = false;
    for (int i = 0; i < taken.length; i++) {
      String channel = channels.get(i);
      String after = after(from, channel);
      List<Block> blocks = waiting.get(i).subList(0, taken[i]);
      end.put(channel, blocks.isEmpty() ? after : blocks.get(taken[i] - 1).id);
      if (blocks.isEmpty()) continue;
      hasBlocks = true;
      openBlocks += taken[i];
      ReadAhead.keep(id, channel, after, new ArrayList<>(blocks));
      // More may be waiting than one batch takes: look again without waiting for a message.
      if (taken[i] < waiting.get(i).size() || taken[i] == perChannel) bell.ring();
    }
    return hasBlocks ? new ChannelOffset(end) : from;
  }

  private static long openAtMost(long others, Object capacity) {
    return capacity == null ? others : Math.min(others, Math.round(OPEN_PART * Long.parseLong(Redis.text(capacity))));
  }

  /**
   * Gives up what was not read but for the newest blocks, as the node has asked: the batch that is planned next begins behind
   * that, also when it is repeated. Whether anything was given up.
   */
  private boolean giveUp(ChannelOffset from, String channel, String mark) {
    String after = after(from, channel);
    String entry = begins(from, channel);
    String reach = mark != null && ChannelOffset.compare(after, mark) < 0 ? mark : after;
    long[] onDisk = Spill.at(spill).count(channel, after, reach);
    List<String> keys = List.of(Keys.channel(channel), Keys.meta(channel), Keys.readers(channel));
    String to = Redis.text(broker.write(
        redis -> Broker.Script.SKIP.run(redis, keys, reader, entry, after, reach, onDisk[0], onDisk[1])));
    if (to.isEmpty()) return false;
    skips.put(channel, new String[] {entry, to});
    return true;
  }

  /** Where a batch begins whose offset is an entry: behind what was given up there. */
  private String behindSkip(String channel, String entry) {
    String[] skip = skips.computeIfAbsent(channel, name -> {
      Object step = broker.call(redis -> redis.call("HGET", Keys.meta(name), Keys.skip(reader)));
      return step == null ? new String[0] : Redis.text(step).split(" ");
    });
    boolean applies = skip.length == 2 && ChannelOffset.compare(skip[0], entry) <= 0 && ChannelOffset.compare(entry, skip[1]) < 0;
    return applies ? skip[1] : entry;
  }

  /**
   * How many blocks of each channel the next batch takes: those that were written first, one at least, and all of one wave.
   * There is none where it is already of another wave than all that is here.
   */
  private int[] admit(List<List<Block>> waiting) {
    int[] taken = new int[waiting.size()];
    long rows = 0;
    Long of = openMs > 0 ? openWave : waves.wave();
    for (int blocks = 0, most = maxBlocks(); blocks < most; blocks++) {
      int oldest = -1;
      for (int i = 0; i < taken.length; i++) {
        if (taken[i] == waiting.get(i).size()) continue;
        long next = stamp != null ? 0 : Waves.ofBlock(marks.get(channels.get(i)), waiting.get(i).get(taken[i]).id);
        if (of != null && next != of) {
          hasLeft = true;
          waves.waits(next);
          continue;
        }
        if (oldest < 0 || waiting.get(i).get(taken[i]).writtenMs < waiting.get(oldest).get(taken[oldest]).writtenMs) oldest = i;
      }
      if (oldest < 0) return taken;
      rows += waiting.get(oldest).get(taken[oldest]).events;
      if (rows > maxRows && blocks > 0) return taken;
      if (of == null && stamp == null) {
        of = Waves.ofBlock(marks.get(channels.get(oldest)), waiting.get(oldest).get(taken[oldest]).id);
        waves.takes(of);
      }
      taken[oldest]++;
    }
    return taken;
  }

  /** The wave of the newest block that a batch which begins there has behind it; one that stands by may have no channel yet. */
  private long waveAfter(ChannelOffset from) {
    long newest = 0;
    for (String channel : channels) {
      if (gate != null && !from.entries.containsKey(channel) && registered(channel) == null) continue;
      newest = Math.max(newest, Waves.ofBlock(marks.computeIfAbsent(channel, this::marksOf), after(from, channel)));
    }
    return newest;
  }

  /** The wave of a batch is that of its blocks; of one without any, that of the newest block before it. */
  @Override
  public void begins(String run, long batch, Offset start, Offset end) {
    if (stamp != null) {
      stamp.begins(run, batch, false);
      return;
    }
    Long of = null;
    for (Map.Entry<String, String> ends : ((ChannelOffset) end).entries.entrySet()) {
      if (ChannelOffset.compare(after((ChannelOffset) start, ends.getKey()), ends.getValue()) >= 0) continue;
      of = Waves.ofBlock(marks.computeIfAbsent(ends.getKey(), this::marksOf), ends.getValue());
    }
    if (of == null) of = waveAfter((ChannelOffset) start);
    if (of.equals(waves.newest())) return;
    Control control = Control.planned(broker, reader, run, batch);
    if (of != (control.wave() == null ? 0 : control.wave())) control.note(broker, reader, of, batch);
    waves.begins(of);
  }

  private String marksOf(String channel) {
    return Waves.marks(broker.call(redis -> redis.call("HGET", Keys.meta(channel), "waves")));
  }

  /** The entry after which a batch that starts there begins: behind what was given up. */
  private String after(ChannelOffset from, String channel) {
    return gone.contains(channel) ? NOTHING_LEFT : behindSkip(channel, begins(from, channel));
  }

  /** The same before anything was given up: a reader that was paused leaves out what came meanwhile. */
  private String begins(ChannelOffset from, String channel) {
    String entry = from.entries.get(channel);
    if (entry == null) entry = joined.computeIfAbsent(channel, this::registeredOffset);
    String least = begin.getOrDefault(channel, "0-0");
    return ChannelOffset.compare(entry, least) < 0 ? least : entry;
  }

  /** Reads what the offsets name, in the order of its name, whichever channels are read now: a repeated batch is the same. */
  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    isAtBeginning = false;
    backpressure.pace.isPlanned();
    Waves.begin(this, start, end);
    List<Slice.Piece> whole = new ArrayList<>();
    ((ChannelOffset) end).entries.forEach((channel, to) -> {
      String after = after((ChannelOffset) start, channel);
      if (ChannelOffset.compare(after, to) < 0) whole.add(new Slice.Piece(channel, after, to));
    });
    long now = System.currentTimeMillis();
    if (!whole.isEmpty()) lastMs = now;
    List<List<Slice.Piece>> cut = threads == 1 ? List.of(whole) : Slice.cut(whole, threads, this::blocks);
    return cut.stream().map(pieces -> new Slice(url, spill, id, reader, now, pieces)).toArray(InputPartition[]::new);
  }

  private List<Block> blocks(Slice.Piece piece) {
    List<Block> blocks = ReadAhead.take(id, piece.channel, piece.start, piece.end);
    if (blocks != null) return blocks;
    blocks = new ArrayList<>();
    for (String after = piece.start; !after.equals(piece.end); after = blocks.get(blocks.size() - 1).id) {
      blocks.addAll(ChannelReader.fetch(broker, spill, reader, piece.channel, after, piece.end));
    }
    ReadAhead.keep(id, piece.channel, piece.start, blocks);
    return blocks;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return openMs > 0 ? new LiveReader.Factory() : new ChannelReader.Factory(schema);
  }

  /**
   * The batch up to {@code end} is done: note it, and free what no other reader needs either. Spark says so only when
   * it has planned the next batch, which may never come where the writer waits for room; but when it asks for the next
   * batch after {@code end}, that one is in its commit log already.
   */
  @Override
  public void commit(Offset end) {
    List<Object[]> commands = new ArrayList<>();
    ((ChannelOffset) end).entries.forEach((channel, entry) -> {
      if (gone.contains(channel) || entry.equals(committed.put(channel, entry))) return;
      ReadAhead.drop(id, channel);
      List<String> keys = List.of(Keys.channel(channel), Keys.meta(channel), Keys.readers(channel));
      commands.add(Broker.Script.COMMIT.command(keys, reader, entry));
    });
    if (!commands.isEmpty()) broker.pipeline(commands);
  }

  @Override
  public void stop() {
    super.stop();
    Inputs.end(this);
    Waves.forget(url + ' ' + reader);
    if (ranges != null) ranges.forget();
    committed.keySet().forEach(channel -> ReadAhead.drop(id, channel));
    channels.forEach(channel -> ReadAhead.drop(id, channel));
  }

  @Override
  public String toString() {
    return "weir channel " + String.join(",", channels);
  }
}
