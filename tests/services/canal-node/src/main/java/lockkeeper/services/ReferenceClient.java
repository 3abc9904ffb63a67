package lockkeeper.services;

import com.alibaba.otter.canal.client.CanalConnector;
import com.alibaba.otter.canal.client.CanalConnectors;
import com.alibaba.otter.canal.protocol.CanalEntry;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.protocol.exception.CanalClientException;
import com.google.protobuf.InvalidProtocolBufferException;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Canal's own Java client, as its users run it: for tests in which clients of both kinds share a destination. With
 * cold standby by ZooKeeper, or straight to one server, as somebody who knows of no other clients. Says on standard
 * output what it does, a line each:
 * <pre>
 * role standby       before it may subscribe, and after an error
 * row ID             a row that was inserted into SCHEMA.orders; acknowledged once its batch is said
 * role active        it has subscribed
 * error TEXT
 * </pre>
 * Usage: ReferenceClient zookeeper=HOST:PORT|server=HOST:PORT DESTINATION USER PASSWORD_FILE SCHEMA
 * Ends when its input ends.
 */
public final class ReferenceClient {
    private final CanalConnector connector;
    private final String schema;

    private ReferenceClient(CanalConnector connector, String schema) {
        this.connector = connector;
        this.schema = schema;
    }

    private void follow() throws InterruptedException {
        while (true) {
            try {
                connector.connect();
                say("role standby");
                // blocks until it is this client's turn
                connector.subscribe(schema + "\\.orders");
                say("role active");
                consume();
            } catch (CanalClientException | InvalidProtocolBufferException lost) {
                say("error " + String.valueOf(lost.getMessage()).lines().findFirst().orElse(""));
                attemptToDisconnect();
                Thread.sleep(500);
            }
        }
    }

    private void consume() throws InvalidProtocolBufferException, InterruptedException {
        while (true) {
            Message message = connector.getWithoutAck(1000);
            if (message == null || message.getId() == -1) {
                Thread.sleep(5);
                continue;
            }
            for (CanalEntry.Entry entry : message.getEntries()) {
                sayRows(entry);
            }
            connector.ack(message.getId());
        }
    }

    private void sayRows(CanalEntry.Entry entry) throws InvalidProtocolBufferException {
        CanalEntry.Header header = entry.getHeader();
        boolean ours = header.getSchemaName().equals(schema) && header.getTableName().equals("orders");
        if (!ours || entry.getEntryType() != CanalEntry.EntryType.ROWDATA) {
            return;
        }
        CanalEntry.RowChange change = CanalEntry.RowChange.parseFrom(entry.getStoreValue());
        if (change.getEventType() != CanalEntry.EventType.INSERT) {
            return;
        }
        for (CanalEntry.RowData row : change.getRowDatasList()) {
            row.getAfterColumnsList().stream()
                .filter(column -> column.getName().equals("id"))
                .forEach(column -> say("row " + column.getValue()));
        }
    }

    private void attemptToDisconnect() {
        try {
            connector.disconnect();
        } catch (CanalClientException gone) {
            // it was not connected
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** The test that started this client may be killed: nobody else would end it then. */
    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) {
                // nothing is expected
            }
        } catch (IOException closed) {
            // as its end
        }
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] arguments) throws Exception {
        String password = Files.readString(Path.of(arguments[3])).lines().findFirst().orElse("");
        Thread watch = new Thread(ReferenceClient::endWithInput);
        watch.setDaemon(true);
        watch.start();
        CanalConnector connector = connector(arguments[0], arguments[1], arguments[2], password);
        new ReferenceClient(connector, arguments[4]).follow();
    }

    private static CanalConnector connector(String where, String destination, String user, String password) {
        String address = where.substring(where.indexOf('=') + 1);
        if (where.startsWith("zookeeper=")) {
            return CanalConnectors.newClusterConnector(address, destination, user, password);
        }
        int colon = address.lastIndexOf(':');
        int port = Integer.parseInt(address.substring(colon + 1));
        InetSocketAddress server = new InetSocketAddress(address.substring(0, colon), port);
        return CanalConnectors.newSingleConnector(server, destination, user, password);
    }
}
