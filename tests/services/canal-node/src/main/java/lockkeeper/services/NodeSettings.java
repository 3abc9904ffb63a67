package lockkeeper.services;

import com.alibaba.otter.canal.instance.manager.model.CanalParameter;
import com.alibaba.otter.canal.meta.FileMixedMetaManager;
import com.alibaba.otter.canal.protocol.ClientIdentity;

import java.io.IOException;
import java.io.Reader;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** What node.properties says, as the server wants it. Every key is needed unless its method names a default. */
final class NodeSettings {
    private final Properties properties = new Properties();

    NodeSettings(Path file) throws IOException {
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
    }

    int port() {
        return Integer.parseInt(text("port"));
    }

    /** The address under which the node announces itself in ZooKeeper. */
    String address() {
        return "127.0.0.1:" + port();
    }

    List<String> destinations() {
        return List.of(text("destinations").split(","));
    }

    /** ZooKeeper's address, or empty for a node by itself. */
    String zookeeper() {
        return text("zookeeper", "");
    }

    String user() {
        return text("user");
    }

    String password() throws IOException {
        return firstLine(Path.of(text("passwordFile")));
    }

    /** Where the node writes its state for the script that waits for it. */
    Path stateFile() {
        return Path.of(text("stateFile"));
    }

    CanalParameter parameter(String destination) throws IOException {
        CanalParameter parameter = new CanalParameter();
        if (zookeeper().isEmpty()) {
            // positions survive a kill: written to dataDir each second
            parameter.setMetaMode(CanalParameter.MetaMode.LOCAL_FILE);
            parameter.setDataDir(dataDir());
        } else {
            // cursors in memory, copied to ZooKeeper each second, so that another node can take over
            parameter.setMetaMode(CanalParameter.MetaMode.MIXED);
            parameter.setZkClusters(new ArrayList<>(List.of(zookeeper())));
        }
        parameter.setIndexMode(CanalParameter.IndexMode.MEMORY_META_FAILBACK);
        parameter.setStorageMode(CanalParameter.StorageMode.MEMORY);
        parameter.setStorageBatchMode(CanalParameter.BatchMode.valueOf(text("batchMode", "MEMSIZE")));
        parameter.setMemoryStorageBufferSize(Integer.parseInt(text("bufferSize", "16384")));
        parameter.setMemoryStorageBufferMemUnit(1024);
        parameter.setMemoryStorageRawEntry(true);
        parameter.setDdlIsolation(false);
        parameter.setTransactionSize(1024);
        parameter.setSourcingType(CanalParameter.SourcingType.MYSQL);
        parameter.setHaMode(CanalParameter.HAMode.HEARTBEAT);
        parameter.setDbAddresses(new ArrayList<>(List.of(
            new InetSocketAddress("127.0.0.1", Integer.parseInt(text("mysqlPort"))))));
        parameter.setDbUsername(text("mysqlUser"));
        parameter.setDbPassword(firstLine(Path.of(text("mysqlPasswordFile"))));
        parameter.setDefaultDatabaseName("");
        // the database drops an older replica of the same id, so each destination of each node has its own
        parameter.setSlaveId(port() * 100L + destinations().indexOf(destination));
        parameter.setDetectingEnable(false);
        parameter.setDetectingSQL("select 1");
        parameter.setParallel(false);
        parameter.setGtidEnable(false);
        parameter.setTsdbEnable(false);
        return parameter;
    }

    /**
     * The filter that an instance starts with: what its subscriber asked for in the process before this one,
     * else the one set for the destination. The server itself asks for the old filter only after the parser
     * has been started; rows parsed in between would pass, or fail, the wrong one.
     */
    String filter(String destination) {
        String configured = text("filter." + destination, text("filter"));
        if (!zookeeper().isEmpty()) {
            return configured;
        }
        FileMixedMetaManager meta = new FileMixedMetaManager();
        meta.setDataDir(dataDir());
        meta.start();
        try {
            return meta.listAllSubscribeInfo(destination).stream()
                .filter(ClientIdentity::hasFilter)
                .map(ClientIdentity::getFilter)
                .findFirst()
                .orElse(configured);
        } finally {
            meta.stop();
        }
    }

    private String dataDir() {
        return text("dataDir");
    }

    private String text(String key, String otherwise) {
        String value = properties.getProperty(key, "").trim();
        return value.isEmpty() ? otherwise : value;
    }

    private String text(String key) {
        String value = text(key, "");
        if (value.isEmpty()) {
            throw new IllegalArgumentException("node.properties lacks " + key);
        }
        return value;
    }

    private static String firstLine(Path file) throws IOException {
        return Files.readString(file).lines().findFirst().orElse("");
    }
}
