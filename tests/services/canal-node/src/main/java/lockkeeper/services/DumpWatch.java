package lockkeeper.services;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import com.alibaba.otter.canal.parse.inbound.mysql.MysqlConnection;
import org.slf4j.LoggerFactory;

import java.util.Collection;
import java.util.HashSet;
import java.util.Set;

/**
 * Notices when an instance has asked the database for its binlog. From then on its position is fixed and no
 * later row is missed; an open port says nothing of the kind. The server tells it in its log only.
 */
final class DumpWatch {
    private final Set<String> dumping = new HashSet<>();

    DumpWatch() {
        Logger logger = (Logger) LoggerFactory.getLogger(MysqlConnection.class);
        AppenderBase<ILoggingEvent> appender = new AppenderBase<>() {
            @Override
            protected void append(ILoggingEvent event) {
                String destination = event.getMDCPropertyMap().get("destination");
                if (destination != null && event.getFormattedMessage().startsWith("COM_BINLOG_DUMP")) {
                    saw(destination);
                }
            }
        };
        appender.setContext(logger.getLoggerContext());
        appender.start();
        logger.addAppender(appender);
        logger.setLevel(Level.INFO);
    }

    /** Blocks until each of the destinations has asked; the caller's limit is the script's. */
    synchronized void await(Collection<String> destinations) throws InterruptedException {
        while (!dumping.containsAll(destinations)) {
            wait();
        }
    }

    private synchronized void saw(String destination) {
        dumping.add(destination);
        notifyAll();
    }
}
