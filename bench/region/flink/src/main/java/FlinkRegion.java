import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Flink's MiniCluster on the work of the bench: numbers, a key for each, a count by key, a sink that keeps the last
 * count of each key. Heap state, checkpoints in a folder, parallelism 1.
 *
 * Arguments: TUPLES PERIOD_MS KEYS FAIL_AT FOLDER; a number at which the map throws once, or -1. Its last line is
 * {@code RESULT} and what the bench reads.
 */
public class FlinkRegion {
  private static final long FACTOR = 0x9E3779B97F4A7C15L;
  private static final AtomicLong SEEN = new AtomicLong();
  private static final AtomicBoolean FAILED = new AtomicBoolean();
  private static volatile long failedAt;
  private static volatile long firstAgain;
  private static AtomicLongArray last;

  static int key(long number, int keys) {
    return (int) Long.remainderUnsigned(number * FACTOR, keys);
  }

  record Keys(int keys, long failAt) implements MapFunction<Long, Tuple2<Integer, Long>> {
    @Override
    public Tuple2<Integer, Long> map(Long number) {
      if (number == failAt && FAILED.compareAndSet(false, true)) {
        failedAt = System.nanoTime();
        throw new IllegalStateException("as the bench wants it");
      }
      return Tuple2.of(key(number, keys), number);
    }
  }

  static class Count extends KeyedProcessFunction<Integer, Tuple2<Integer, Long>, Tuple2<Integer, Long>> {
    private transient ValueState<Long> counts;
    private transient boolean resumed;

    @Override
    public void open(OpenContext context) {
      counts = getRuntimeContext().getState(new ValueStateDescriptor<>("counts", Types.LONG));
      resumed = FAILED.get();
    }

    @Override
    public void processElement(Tuple2<Integer, Long> tuple, Context context, Collector<Tuple2<Integer, Long>> out)
        throws Exception {
      if (resumed) {
        resumed = false;
        firstAgain = System.nanoTime();
      }
      Long before = counts.value();
      long count = before == null ? 1 : before + 1;
      counts.update(count);
      out.collect(Tuple2.of(tuple.f0, count));
    }
  }

  static class LastCounts implements Sink<Tuple2<Integer, Long>> {
    @Override
    public SinkWriter<Tuple2<Integer, Long>> createWriter(WriterInitContext context) {
      return new SinkWriter<>() {
        @Override
        public void write(Tuple2<Integer, Long> tuple, Context context) {
          last.setPlain(tuple.f0, tuple.f1);
          SEEN.setPlain(SEEN.getPlain() + 1);
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
      };
    }
  }

  public static void main(String[] arguments) throws Exception {
    // A sequence has at least one number.
    long tuples = Math.max(1, Long.parseLong(arguments[0]));
    long period = Long.parseLong(arguments[1]);
    int keys = Integer.parseInt(arguments[2]);
    long failAt = Long.parseLong(arguments[3]);
    String folder = arguments[4];
    last = new AtomicLongArray(keys);

    Configuration settings = new Configuration();
    settings.setString("state.backend.type", "hashmap");
    settings.setString("pipeline.object-reuse", "true");
    settings.setString("restart-strategy.type", "fixed-delay");
    settings.setString("restart-strategy.fixed-delay.delay", "1 ms");
    settings.setString("execution.checkpointing.dir", "file://" + folder);
    settings.setString("execution.checkpointing.interval", period + " ms");
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    environment.setParallelism(1);
    var pairs = new TypeHint<Tuple2<Integer, Long>>() {};
    environment
        .fromSequence(0, tuples - 1)
        .map(new Keys(keys, failAt))
        .returns(pairs)
        .keyBy((KeySelector<Tuple2<Integer, Long>, Integer>) pair -> pair.f0)
        .process(new Count())
        .returns(pairs)
        .sinkTo(new LastCounts());
    JobGraph graph = environment.getStreamGraph().getJobGraph();
    var cluster = new MiniClusterConfiguration.Builder()
        .setNumTaskManagers(1)
        .setNumSlotsPerTaskManager(1)
        .setConfiguration(settings)
        .build();
    try (MiniCluster flink = new MiniCluster(cluster)) {
      flink.start();
      long began = System.nanoTime();
      flink.submitJob(graph).get();
      flink.requestJobResult(graph.getJobID()).get().toJobExecutionResult(FlinkRegion.class.getClassLoader());
      double seconds = (System.nanoTime() - began) / 1e9;
      CheckpointStatsSnapshot stats =
          flink.getExecutionGraph(graph.getJobID()).get().getCheckpointStatsSnapshot();
      tell(seconds, tuples, keys, stats);
    }
    System.exit(0);
  }

  private static void tell(double seconds, long tuples, int keys, CheckpointStatsSnapshot stats) {
    var system = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
    long rounds = stats == null ? 0 : stats.getCounts().getNumberOfCompletedCheckpoints();
    double p50 = rounds == 0 ? 0 : stats.getSummaryStats().getEndToEndDurationStats().getQuantile(.5);
    double failover = FAILED.get() ? (firstAgain - failedAt) / 1e6 : 0;
    boolean correct = correct(tuples, keys) && (FAILED.get() || SEEN.get() == tuples);
    System.out.printf(
        "RESULT {\"seconds\":%.4f,\"cpu\":%.4f,\"rounds\":%d,\"round_p50_ms\":%.1f,\"failover_ms\":%.1f,\"correct\":%b}%n",
        seconds, system.getProcessCpuTime() / 1e9, rounds, p50, failover, correct);
  }

  /** Whether every key has the count that so many numbers give it. */
  private static boolean correct(long tuples, int keys) {
    long[] truth = new long[keys];
    for (long number = 0; number < tuples; number++) truth[key(number, keys)]++;
    for (int at = 0; at < keys; at++) if (last.get(at) != truth[at]) return false;
    return true;
  }
}
