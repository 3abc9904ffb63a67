package lockkeeper.services;

import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningData;
import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningListener;
import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningMonitor;
import com.alibaba.otter.canal.common.zookeeper.running.ServerRunningMonitors;
import com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager;
import com.alibaba.otter.canal.instance.manager.model.Canal;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import com.alibaba.otter.canal.server.netty.CanalServerWithNetty;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A real Canal server in one process, put together from the published jars: Canal's embedded server, its
 * network front, one instance a destination, and its running monitor, which with ZooKeeper decides which node
 * of a cluster serves a destination.
 * Usage: CanalNode node.properties
 */
public final class CanalNode {
    private enum Role { ACTIVE, STANDBY }

    private final NodeSettings settings;
    private final List<String> destinations;
    /** Null for a node by itself. */
    private final ClusterNode cluster;
    private final DumpWatch dumps = new DumpWatch();
    private final CanalServerWithEmbedded embedded = CanalServerWithEmbedded.instance();
    private final CanalServerWithNetty front = CanalServerWithNetty.instance();
    private final Map<String, ServerRunningMonitor> monitors = new ConcurrentHashMap<>();
    private final Map<String, Role> roles = new ConcurrentHashMap<>();
    private volatile boolean ready;

    private CanalNode(NodeSettings settings) {
        this.settings = settings;
        this.destinations = settings.destinations();
        String zookeeper = settings.zookeeper();
        this.cluster = zookeeper.isEmpty() ? null : new ClusterNode(zookeeper, settings.address(), destinations);
    }

    private void run() throws Exception {
        embedded.setUser(settings.user());
        embedded.setPasswd(doubleSha1(settings.password()));
        embedded.setMetricsPort(-1);
        embedded.setCanalInstanceGenerator(this::instance);
        front.setIp("127.0.0.1");
        front.setPort(settings.port());
        ServerRunningMonitors.setServerData(new ServerRunningData(settings.address()));
        ServerRunningMonitors.setRunningMonitors(new ConcurrentHashMap<>() {
            @Override
            public ServerRunningMonitor get(Object destination) {
                return monitors.computeIfAbsent((String) destination, CanalNode.this::monitor);
            }
        });
        if (cluster != null) {
            cluster.join();
        }
        Runtime.getRuntime().addShutdownHook(new Thread(this::halt));
        embedded.start();
        for (String destination : destinations) {
            roles.putIfAbsent(destination, Role.STANDBY);
            ServerRunningMonitors.getRunningMonitor(destination).start();
        }
        front.start();
        dumps.await(destinations.stream().filter(name -> roles.get(name) == Role.ACTIVE).toList());
        ready = true;
        report();
        Thread.currentThread().join();
    }

    private CanalInstanceWithManager instance(String destination) {
        if (!destinations.contains(destination)) {
            throw new IllegalArgumentException("no such destination here: " + destination);
        }
        try {
            Canal canal = new Canal();
            canal.setId((long) destinations.indexOf(destination) + 1);
            canal.setName(destination);
            canal.setCanalParameter(settings.parameter(destination));
            return new CanalInstanceWithManager(canal, settings.filter(destination));
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }

    private ServerRunningMonitor monitor(String destination) {
        ServerRunningMonitor monitor = new ServerRunningMonitor(new ServerRunningData(settings.address()));
        monitor.setDestination(destination);
        monitor.setListener(new ServerRunningListener() {
            @Override
            public void processStart() {
                if (cluster != null) {
                    cluster.announce(destination);
                }
            }

            @Override
            public void processStop() {
                if (cluster != null) {
                    cluster.withdraw(destination);
                }
            }

            @Override
            public void processActiveEnter() {
                embedded.start(destination);
                roles.put(destination, Role.ACTIVE);
                report();
            }

            @Override
            public void processActiveExit() {
                roles.put(destination, Role.STANDBY);
                embedded.stop(destination);
                report();
            }
        });
        if (cluster != null) {
            monitor.setZkClient(cluster.client());
        }
        monitor.init();
        return monitor;
    }

    /** Publishes the roles, and READY once it is true, by rename: a reader never sees half a file. */
    private synchronized void report() {
        StringBuilder state = new StringBuilder(ready ? "READY\n" : "");
        roles.forEach((destination, role) -> state.append(destination).append('=').append(role).append('\n'));
        Path target = settings.stateFile();
        try {
            Path draft = Path.of(target + ".tmp");
            Files.writeString(draft, state);
            Files.move(draft, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException unwritable) {
            unwritable.printStackTrace();
        }
    }

    /** Stops in the order front, instances, cluster; one that fails must not keep the next from its turn. */
    private void halt() {
        // With an idle server in its hand: it would stop the instances one by one, each waiting for its parser's
        // thread. The connections keep theirs.
        front.setEmbeddedServer(new CanalServerWithEmbedded());
        attempt(front::stop);
        List<Thread> stops = monitors.values().stream()
            .filter(ServerRunningMonitor::isStart)
            .map(monitor -> new Thread(() -> attempt(monitor::stop)))
            .toList();
        stops.forEach(Thread::start);
        stops.forEach(CanalNode::join);
        attempt(embedded::stop);
        if (cluster != null) {
            attempt(cluster::leave);
        }
    }

    private static void attempt(Runnable step) {
        try {
            step.run();
        } catch (RuntimeException | Error failed) {
            failed.printStackTrace();
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The form in which a Canal server is told its password: hex(sha1(sha1(plain))). */
    private static String doubleSha1(String plain) throws Exception {
        MessageDigest sha1 = MessageDigest.getInstance("SHA-1");
        byte[] once = sha1.digest(plain.getBytes(StandardCharsets.UTF_8));
        return HexFormat.of().formatHex(sha1.digest(once));
    }

    public static void main(String[] arguments) {
        try {
            new CanalNode(new NodeSettings(Path.of(arguments[0]))).run();
        } catch (Throwable failed) {
            failed.printStackTrace();
            // not exit: a hook that hangs would keep a node alive that is no use
            Runtime.getRuntime().halt(1);
        }
    }
}
