import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Submits jobs to a Flink cluster, each what a small dataflow of {@code latency_cost_estate.py} is: a paced generator of
 * messages with five observations, JSON, parse, range, the average of each ten readings of a sensor's observation, and
 * the age of what comes out, a line each in a file of the job.
 *
 * <p>Arguments: port of the REST API, jar of this class, folder of the ages, jobs, messages/s of each.
 */
public final class SmallDataflows {
  private static final String[] OBSERVATIONS = {"temperature", "humidity", "light", "dust", "air_quality"};
  private static final int SENSORS = 100;
  private static final int WINDOW = 10;

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    int jobs = Integer.parseInt(arguments[3]);
    long apartMs = Math.round(1000 / Double.parseDouble(arguments[4]));
    for (int job = 0; job < jobs; job++) {
      StreamExecutionEnvironment flink =
          StreamExecutionEnvironment.createRemoteEnvironment("localhost", port, new Configuration(), arguments[1]);
      flink.setParallelism(1);
      flink.fromSequence(0, Long.MAX_VALUE).map(new Sense(job, apartMs))
          .flatMap(new Parse()).returns(new TypeHint<Tuple3<String, Double, Long>>() {})
          .filter(reading -> reading.f1 >= -30 && reading.f1 <= 100_000)
          .keyBy(reading -> reading.f0)
          .process(new Average()).returns(new TypeHint<Tuple3<String, Double, Long>>() {})
          .map(new Age(arguments[2] + "/" + job)).sinkTo(new DiscardingSink<>());
      flink.executeAsync("Small " + job);
    }
  }

  /** A message of a sensor as JSON, no earlier than it is due. */
  private static final class Sense extends RichMapFunction<Long, String> {
    private final int seed;
    private final long apartMs;
    private transient Random chance;
    private transient long dueMs;

    Sense(int seed, long apartMs) {
      this.seed = seed;
      this.apartMs = apartMs;
    }

    @Override
    public void open(OpenContext context) {
      chance = new Random(seed);
      dueMs = System.currentTimeMillis() + chance.nextInt((int) apartMs);
    }

    @Override
    public String map(Long number) throws InterruptedException {
      long now = System.currentTimeMillis();
      if (dueMs > now) Thread.sleep(dueMs - now);
      dueMs += apartMs;
      StringBuilder text = new StringBuilder("{\"bn\":\"sensor-").append(chance.nextInt(SENSORS));
      text.append("\",\"bt\":").append(System.currentTimeMillis()).append(",\"e\":[");
      for (int i = 0; i < OBSERVATIONS.length; i++) {
        if (i > 0) text.append(',');
        text.append("{\"n\":\"").append(OBSERVATIONS[i]).append("\",\"v\":").append(20 + 5 * chance.nextGaussian()).append('}');
      }
      return text.append("]}").toString();
    }
  }

  /** Key, value and birth of each observation. */
  private static final class Parse
      implements org.apache.flink.api.common.functions.FlatMapFunction<String, Tuple3<String, Double, Long>> {
    private static final ObjectMapper JSON = new ObjectMapper();

    @Override
    public void flatMap(String text, Collector<Tuple3<String, Double, Long>> out) throws IOException {
      JsonNode message = JSON.readTree(text);
      for (JsonNode reading : message.get("e")) {
        out.collect(Tuple3.of(
            message.get("bn").asText() + "/" + reading.get("n").asText(), reading.get("v").asDouble(),
            message.get("bt").asLong()));
      }
    }
  }

  /** The mean of each ten readings of a key, with the birth of the last one. */
  private static final class Average
      extends KeyedProcessFunction<String, Tuple3<String, Double, Long>, Tuple3<String, Double, Long>> {
    private transient ValueState<Tuple2<Integer, Double>> block;

    @Override
    public void open(OpenContext context) {
      block = getRuntimeContext().getState(
          new ValueStateDescriptor<>("block", TypeInformation.of(new TypeHint<Tuple2<Integer, Double>>() {})));
    }

    @Override
    public void processElement(
        Tuple3<String, Double, Long> reading, Context context, Collector<Tuple3<String, Double, Long>> out)
        throws IOException {
      Tuple2<Integer, Double> sum = block.value() == null ? Tuple2.of(0, 0.0) : block.value();
      sum = Tuple2.of(sum.f0 + 1, sum.f1 + reading.f1);
      if (sum.f0 == WINDOW) {
        out.collect(Tuple3.of(reading.f0, sum.f1 / WINDOW, reading.f2));
        sum = null;
      }
      block.update(sum);
    }
  }

  /** Notes the age of what comes out, in ms. */
  private static final class Age extends RichMapFunction<Tuple3<String, Double, Long>, Long> {
    private final String file;
    private transient BufferedWriter lines;

    Age(String file) {
      this.file = file;
    }

    @Override
    public void open(OpenContext context) throws IOException {
      lines = Files.newBufferedWriter(Path.of(file));
    }

    @Override
    public Long map(Tuple3<String, Double, Long> mean) throws IOException {
      long now = System.currentTimeMillis();
      lines.write(now + " " + (now - mean.f2) + "\n");
      lines.flush();
      return now;
    }
  }
}
