import com.alibaba.otter.canal.client.CanalConnectors;
import com.alibaba.otter.canal.client.impl.SimpleCanalConnector;
import com.alibaba.otter.canal.protocol.CanalEntry;
import com.alibaba.otter.canal.protocol.Message;
import com.sun.management.OperatingSystemMXBean;

import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Drains a server with Canal's own client and says what it took, as src/client.rs does: Drain raw|typed HOST:PORT ENTRIES. */
public final class Drain {
    private record Order(long id, int quantity, String customer, BigDecimal amount, String placed) {
        long check() {
            return id ^ quantity ^ amount.scale() ^ (customer.length() + placed.length());
        }
    }

    public static void main(String[] arguments) throws Exception {
        boolean typed = arguments[0].equals("typed");
        String[] address = arguments[1].split(":");
        long wanted = Long.parseLong(arguments[2]);
        SimpleCanalConnector connector = (SimpleCanalConnector) CanalConnectors.newSingleConnector(
            new InetSocketAddress(address[0], Integer.parseInt(address[1])), "example", "", "");
        connector.setLazyParseEntry(!typed);
        connector.connect();
        connector.subscribe("");
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long wall = System.nanoTime();
        long entries = 0, rows = 0, check = 0;
        while (entries < wanted) {
            Message message = connector.getWithoutAck(5000);
            if (message.getId() == -1) {
                throw new IllegalStateException(entries + " of " + wanted + " entries came");
            }
            if (typed) {
                entries += message.getEntries().size();
                for (CanalEntry.Entry entry : message.getEntries()) {
                    if (entry.getEntryType() != CanalEntry.EntryType.ROWDATA) {
                        continue;
                    }
                    for (CanalEntry.RowData row : CanalEntry.RowChange.parseFrom(entry.getStoreValue()).getRowDatasList()) {
                        check ^= order(row.getAfterColumnsList()).check();
                        rows++;
                    }
                }
            } else {
                entries += message.getRawEntries().size();
            }
            connector.ack(message.getId());
        }
        double seconds = (system.getProcessCpuTime() - cpu) / 1e9;
        double elapsed = (System.nanoTime() - wall) / 1e9;
        String peak = Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(line -> line.startsWith("VmHWM:")).findFirst().orElse("VmHWM: 0 kB").replaceAll("[^0-9]", "");
        System.out.println("RESULT {\"cpu\":" + seconds + ",\"wall\":" + elapsed + ",\"entries\":" + entries + ",\"rows\":" + rows
            + ",\"rss_mb\":" + Long.parseLong(peak) / 1024.0 + "}");
        System.err.println("check " + check);
        System.exit(0);
    }

    /** Columns by name, as ours are. */
    private static Order order(List<CanalEntry.Column> columns) {
        long id = 0;
        int quantity = 0;
        String customer = null, placed = null;
        BigDecimal amount = null;
        for (CanalEntry.Column column : columns) {
            switch (column.getName()) {
                case "id" -> id = Long.parseUnsignedLong(column.getValue());
                case "quantity" -> quantity = Integer.parseInt(column.getValue());
                case "customer" -> customer = column.getValue();
                case "amount" -> amount = new BigDecimal(column.getValue());
                case "placed" -> placed = column.getValue();
                default -> { }
            }
        }
        return new Order(id, quantity, customer, amount, placed);
    }
}
