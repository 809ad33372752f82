import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * Submits the job of {@code core_second.py} to a Flink cluster as SQL, and waits for its end: JSON lines, a range, the
 * average of each sensor in windows of event time, dropped.
 *
 * <p>Arguments: port of the REST API, jar of this class, folder of the lines, lowest, highest, seconds of a window.
 */
public final class CoreSecond {
  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment flink = StreamExecutionEnvironment.createRemoteEnvironment(
        "localhost", Integer.parseInt(arguments[0]), new Configuration(), arguments[1]);
    flink.setParallelism(1);
    StreamTableEnvironment tables = StreamTableEnvironment.create(flink);
    tables.executeSql(
        "CREATE TABLE readings (sensor STRING, `value` DOUBLE, `at` BIGINT, `time` AS TO_TIMESTAMP_LTZ(`at`, 3), "
            + "WATERMARK FOR `time` AS `time`) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = 'file://"
            + arguments[2] + "')");
    tables.executeSql(
        "CREATE TABLE means (sensor STRING, window_start TIMESTAMP(3), mean DOUBLE) WITH ('connector' = 'blackhole')");
    tables.executeSql(
        "INSERT INTO means SELECT sensor, window_start, AVG(`value`) FROM TABLE(TUMBLE("
            + "TABLE readings, DESCRIPTOR(`time`), INTERVAL '" + arguments[5] + "' SECOND)) WHERE `value` BETWEEN "
            + arguments[3] + " AND " + arguments[4] + " GROUP BY sensor, window_start, window_end").await();
  }
}
