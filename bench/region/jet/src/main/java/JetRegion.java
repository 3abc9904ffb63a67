import java.io.Serializable;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Pattern;

import com.hazelcast.config.Config;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.jet.Job;
import com.hazelcast.jet.RestartableException;
import com.hazelcast.jet.aggregate.AggregateOperations;
import com.hazelcast.jet.config.JobConfig;
import com.hazelcast.jet.config.ProcessingGuarantee;
import com.hazelcast.jet.core.AbstractProcessor;
import com.hazelcast.jet.core.DAG;
import com.hazelcast.jet.core.Edge;
import com.hazelcast.jet.core.JobStatus;
import com.hazelcast.jet.core.Vertex;
import com.hazelcast.jet.core.processor.Processors;
import com.hazelcast.jet.pipeline.Pipeline;
import com.hazelcast.jet.pipeline.Sink;
import com.hazelcast.jet.pipeline.SinkBuilder;
import com.hazelcast.jet.pipeline.SourceBuilder;
import com.hazelcast.jet.pipeline.StreamSource;

/**
 * Hazelcast Jet on the work of the bench: numbers, a key for each, a count by key, a sink that keeps the last count of
 * each key. One member, parallelism 1, exactly once, snapshots in its memory.
 *
 * Arguments: {@code pipeline TUPLES PERIOD_MS KEYS FAIL_AT}, with a number at which the map throws once, or -1; or
 * {@code many PROCESSORS PERIOD_MS SECONDS}: processors without state, in ten columns, that have next to nothing to do.
 * Its last line is {@code RESULT} and what the bench reads.
 */
public class JetRegion {
  private static final long FACTOR = 0x9E3779B97F4A7C15L;
  private static final AtomicLong SEEN = new AtomicLong();
  private static final AtomicBoolean FAILED = new AtomicBoolean();
  /** Held: a logger that nobody holds forgets its handlers. */
  private static final Logger SNAPSHOTS = Logger.getLogger("com.hazelcast.jet.impl.MasterSnapshotContext");
  private static final List<Long> ROUNDS = Collections.synchronizedList(new ArrayList<>());
  private static volatile long failedAt;
  private static volatile long firstAgain;
  private static AtomicLongArray last;

  static int key(long number, int keys) {
    return (int) Long.remainderUnsigned(number * FACTOR, keys);
  }

  static class Numbers implements Serializable {
    private final long tuples;
    private long next;

    Numbers(long tuples) {
      this.tuples = tuples;
    }

    void fill(SourceBuilder.SourceBuffer<Long> buffer) {
      for (int i = 0; i < 1024 && next < tuples; i++) buffer.add(next++);
    }
  }

  static Map.Entry<Integer, Long> keyed(long number, int keys, long failAt) {
    if (FAILED.get() && firstAgain == 0) firstAgain = System.nanoTime();
    if (number == failAt && FAILED.compareAndSet(false, true)) {
      failedAt = System.nanoTime();
      throw new RestartableException("as the bench wants it");
    }
    return new SimpleImmutableEntry<>(key(number, keys), number);
  }

  static {
    System.setProperty("hazelcast.logging.type", "jdk");
  }

  public static void main(String[] arguments) throws Exception {
    listen();
    HazelcastInstance member = Hazelcast.newHazelcastInstance(onLoopback());
    long period = Long.parseLong(arguments[2]);
    var exactlyOnce = new JobConfig()
        .setProcessingGuarantee(ProcessingGuarantee.EXACTLY_ONCE)
        .setSnapshotIntervalMillis(period);
    if (arguments[0].equals("many")) {
      many(member, exactlyOnce, Integer.parseInt(arguments[1]), Integer.parseInt(arguments[3]));
    } else {
      pipeline(member, exactlyOnce, Long.parseLong(arguments[1]), Integer.parseInt(arguments[3]),
          Long.parseLong(arguments[4]));
    }
    System.out.flush();
    // A member that ends in peace has much to say.
    Runtime.getRuntime().halt(0);
  }

  private static void pipeline(HazelcastInstance member, JobConfig settings, long tuples, int keys, long failAt)
      throws Exception {
    last = new AtomicLongArray(keys);
    StreamSource<Long> numbers = SourceBuilder.stream("numbers", context -> new Numbers(tuples))
        .<Long>fillBufferFn(Numbers::fill)
        .createSnapshotFn(source -> source.next)
        .restoreSnapshotFn((source, saved) -> source.next = saved.get(0))
        .build();
    Sink<Map.Entry<Integer, Long>> sink = SinkBuilder.sinkBuilder("last", context -> last)
        .<Map.Entry<Integer, Long>>receiveFn((counts, pair) -> {
          counts.setPlain(pair.getKey(), pair.getValue());
          SEEN.lazySet(SEEN.getPlain() + 1);
        })
        .preferredLocalParallelism(1)
        .build();
    Pipeline pipeline = Pipeline.create();
    pipeline.readFrom(numbers)
        .withoutTimestamps()
        .map(number -> keyed(number, keys, failAt)).setLocalParallelism(1)
        .groupingKey(Map.Entry::getKey)
        .rollingAggregate(AggregateOperations.counting()).setLocalParallelism(1)
        .writeTo(sink);
    long began = System.nanoTime();
    Job job = member.getJet().newJob(pipeline, settings);
    while (job.getStatus() != JobStatus.RUNNING) Thread.sleep(5);
    // After a failure the sink sees some tuples twice: what counts is the end.
    long[] truth = truth(tuples, keys);
    while (SEEN.get() < tuples || !correct(truth)) Thread.sleep(5);
    double seconds = (System.nanoTime() - began) / 1e9;
    boolean correct = FAILED.get() || SEEN.get() == tuples;
    tell(seconds, FAILED.get() ? (firstAgain - failedAt) / 1e6 : 0, correct);
  }

  /** Emits a number each 100 ms. */
  static class Slow extends AbstractProcessor {
    private long emitted;

    @Override
    public boolean complete() {
      long now = System.nanoTime();
      if (now - emitted > 100_000_000L && tryEmit(now)) emitted = now;
      return false;
    }

    @Override
    public boolean saveToSnapshot() {
      return true;
    }
  }

  private static void many(HazelcastInstance member, JobConfig settings, int processors, int seconds)
      throws Exception {
    int width = processors / 10;
    DAG graph = new DAG();
    Vertex before = graph.newVertex("numbers", () -> new Slow()).localParallelism(width);
    for (int depth = 1; depth < 10; depth++) {
      var inner = depth == 9 ? Processors.noopP() : Processors.mapP((Long number) -> number + 1);
      Vertex next = graph.newVertex("inner-" + depth, inner).localParallelism(width);
      graph.edge(Edge.between(before, next).isolated());
      before = next;
    }
    Job job = member.getJet().newJob(graph, settings);
    Thread.sleep(seconds * 1000L);
    tell(seconds, 0, job.getStatus() == JobStatus.RUNNING);
  }

  private static Config onLoopback() {
    Config config = new Config();
    config.getJetConfig().setEnabled(true).setCooperativeThreadCount(2);
    config.getNetworkConfig().setPublicAddress("127.0.0.1");
    config.getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
    config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(false);
    config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(false);
    config.setProperty("hazelcast.phone.home.enabled", "false");
    config.setProperty("hazelcast.socket.bind.any", "false");
    return config;
  }

  /** The times of the rounds are found in the log alone. */
  private static void listen() {
    Logger.getLogger("").setLevel(Level.SEVERE);
    SNAPSHOTS.setLevel(Level.FINE);
    SNAPSHOTS.setUseParentHandlers(false);
    Pattern completed = Pattern.compile("completed in ([0-9,]+)ms, status=success");
    SNAPSHOTS.addHandler(new Handler() {
      @Override
      public void publish(LogRecord record) {
        var found = completed.matcher(String.valueOf(record.getMessage()));
        if (found.find()) ROUNDS.add(Long.parseLong(found.group(1).replace(",", "")));
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    });
  }

  private static void tell(double seconds, double failover, boolean correct) {
    var system = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
    long[] rounds = ROUNDS.stream().mapToLong(took -> took).sorted().toArray();
    System.out.printf(
        "RESULT {\"seconds\":%.4f,\"cpu\":%.4f,\"rounds\":%d,\"round_p50_ms\":%d,\"failover_ms\":%.1f,\"correct\":%b}%n",
        seconds, system.getProcessCpuTime() / 1e9, rounds.length, rounds.length == 0 ? 0 : rounds[rounds.length / 2],
        failover, correct);
  }

  private static long[] truth(long tuples, int keys) {
    long[] truth = new long[keys];
    for (long number = 0; number < tuples; number++) truth[key(number, keys)]++;
    return truth;
  }

  /** Whether every key has the count that it should. */
  private static boolean correct(long[] truth) {
    for (int at = 0; at < truth.length; at++) if (last.get(at) != truth[at]) return false;
    return true;
  }
}
