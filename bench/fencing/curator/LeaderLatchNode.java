import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryOneTime;

/** One process that contends by Curator's latch: says `contends`, then `granted`, and leaves when its input ends. */
public class LeaderLatchNode {
    public static void main(String[] arguments) throws Exception {
        String server = arguments[0], path = arguments[1];
        int sessionMs = Integer.parseInt(arguments[2]);
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(server, sessionMs, sessionMs, new RetryOneTime(100));
        client.start();
        client.blockUntilConnected(60, TimeUnit.SECONDS);
        LeaderLatch latch = new LeaderLatch(client, path);
        latch.addListener(new LeaderLatchListener() {
            public void isLeader() { System.out.println("granted"); }
            public void notLeader() { System.out.println("revoked"); }
        });
        latch.start();
        System.out.println("contends");
        while (System.in.read() >= 0) { }
        latch.close();
        client.close();
    }
}
