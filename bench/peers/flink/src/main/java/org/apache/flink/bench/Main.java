// Flink's RPC system has a class loader of its own that sees only classes of org.apache.flink packages.
package org.apache.flink.bench;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.rpc.RpcEndpoint;
import org.apache.flink.runtime.rpc.RpcGateway;
import org.apache.flink.runtime.rpc.RpcService;
import org.apache.flink.runtime.rpc.RpcSystem;
import org.apache.flink.runtime.rpc.RpcTimeout;

/** Flink's RPC on Pekko in the roles of a peer: server, and client ADDRESS SERVER_PID MODE BYTES IN_FLIGHT SECONDS. */
public final class Main {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    /** Its compiler needs this long before its figures stand still. */
    private static final double WARM_SECONDS = 12;

    public interface EchoGateway extends RpcGateway {
        CompletableFuture<byte[]> echo(byte[] payload, @RpcTimeout Duration limit);

        void note(byte[] payload);

        CompletableFuture<Long> count(@RpcTimeout Duration limit);
    }

    public static final class Echo extends RpcEndpoint implements EchoGateway {
        private long notes;

        Echo(RpcService service) {
            super(service, "echo");
        }

        @Override
        public CompletableFuture<byte[]> echo(byte[] payload, Duration limit) {
            return CompletableFuture.completedFuture(payload);
        }

        @Override
        public void note(byte[] payload) {
            notes++;
        }

        @Override
        public CompletableFuture<Long> count(Duration limit) {
            return CompletableFuture.completedFuture(notes);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        RpcSystem system = RpcSystem.load(configuration);
        String port = "0";
        if (arguments[0].equals("server")) {
            try (var free = new java.net.ServerSocket(0)) {
                port = String.valueOf(free.getLocalPort());
            }
        }
        RpcService service = system.remoteServiceBuilder(configuration, "127.0.0.1", port)
                .withBindAddress("127.0.0.1")
                .createAndStart();
        if (arguments[0].equals("server")) {
            Echo echo = new Echo(service);
            echo.start();
            System.out.println("READY " + echo.getAddress());
            System.out.flush();
            while (System.in.read() >= 0) {}
            System.exit(0);
        }
        EchoGateway echo = service.connect(arguments[1], EchoGateway.class).get();
        long server = Long.parseLong(arguments[2]);
        byte[] payload = new byte[Integer.parseInt(arguments[4])];
        int inFlight = Integer.parseInt(arguments[5]);
        double seconds = Double.parseDouble(arguments[6]);
        if (arguments[3].equals("tell")) {
            tells(echo, payload, server, WARM_SECONDS);
            result(tells(echo, payload, server, seconds));
        } else {
            asks(echo, payload, inFlight, server, WARM_SECONDS);
            result(asks(echo, payload, inFlight, server, seconds));
        }
        System.exit(0);
    }

    private record Outcome(double callsPerSecond, double p50, double p99, double cpu) {}

    private static void result(Outcome outcome) {
        System.out.printf(
                Locale.ROOT,
                "RESULT {\"calls_per_second\":%.3f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"cpu_us\":%.3f}%n",
                outcome.callsPerSecond, outcome.p50, outcome.p99, outcome.cpu);
        System.out.flush();
    }

    /** So many calls are outstanding; each one's end starts the next. */
    private static Outcome asks(EchoGateway echo, byte[] payload, int inFlight, long server, double seconds)
            throws Exception {
        double cpu = cpuSeconds(server);
        long begun = System.nanoTime();
        long end = begun + (long) (seconds * 1e9);
        CountDownLatch ended = new CountDownLatch(inFlight);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Lane[] lanes = new Lane[inFlight];
        for (int i = 0; i < inFlight; i++) {
            lanes[i] = new Lane(echo, payload, end, ended, failed);
        }
        for (Lane lane : lanes) {
            lane.next();
        }
        ended.await();
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
        double took = (System.nanoTime() - begun) / 1e9;
        long[] nanoseconds = Arrays.stream(lanes)
                .flatMapToLong(lane -> Arrays.stream(lane.nanoseconds, 0, lane.calls))
                .sorted()
                .toArray();
        int calls = nanoseconds.length;
        return new Outcome(
                calls / took,
                nanoseconds[(int) ((calls - 1) * 0.5)] / 1e3,
                nanoseconds[(int) ((calls - 1) * 0.99)] / 1e3,
                (cpuSeconds(server) - cpu) / calls * 1e6);
    }

    /** One call after the other. */
    private static final class Lane {
        private final EchoGateway echo;
        private final byte[] payload;
        private final long end;
        private final CountDownLatch ended;
        private final AtomicReference<Throwable> failed;
        private long[] nanoseconds = new long[1024];
        private int calls;

        Lane(EchoGateway echo, byte[] payload, long end, CountDownLatch ended, AtomicReference<Throwable> failed) {
            this.echo = echo;
            this.payload = payload;
            this.end = end;
            this.ended = ended;
            this.failed = failed;
        }

        void next() {
            long sent = System.nanoTime();
            if (sent >= end) {
                ended.countDown();
                return;
            }
            echo.echo(payload, LIMIT).whenComplete((answer, error) -> {
                if (error != null || answer.length != payload.length) {
                    failed.compareAndSet(null, error != null ? error : new IllegalStateException("another size"));
                    ended.countDown();
                    return;
                }
                if (calls == nanoseconds.length) {
                    nanoseconds = Arrays.copyOf(nanoseconds, calls * 2);
                }
                nanoseconds[calls++] = System.nanoTime() - sent;
                next();
            });
        }
    }

    private static Outcome tells(EchoGateway echo, byte[] payload, long server, double seconds) throws Exception {
        long before = echo.count(LIMIT).get();
        double cpu = cpuSeconds(server);
        long begun = System.nanoTime();
        long taken = 0;
        while (System.nanoTime() - begun < seconds * 1e9) {
            for (int i = 0; i < 64; i++) {
                echo.note(payload);
                taken++;
            }
        }
        while (echo.count(LIMIT).get() - before < taken) {
            Thread.sleep(1);
        }
        double took = (System.nanoTime() - begun) / 1e9;
        return new Outcome(taken / took, 0, 0, (cpuSeconds(server) - cpu) / taken * 1e6);
    }

    private static double cpuSeconds(long server) throws Exception {
        return ticks("self") + ticks(String.valueOf(server));
    }

    /** Linux counts in hundredths of a second. */
    private static double ticks(String process) throws Exception {
        String stat = Files.readString(Path.of("/proc", process, "stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
    }
}
