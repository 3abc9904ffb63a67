package lockkeeper.services;

import com.alibaba.otter.canal.common.zookeeper.ZkClientx;
import com.alibaba.otter.canal.common.zookeeper.ZookeeperPathUtils;
import org.I0Itec.zkclient.IZkStateListener;
import org.I0Itec.zkclient.exception.ZkNoNodeException;
import org.I0Itec.zkclient.exception.ZkNodeExistsException;
import org.apache.zookeeper.Watcher;

import java.util.List;

/** The node's entries under /otter/canal, from which cluster clients learn that it is there. */
final class ClusterNode {
    private final ZkClientx zookeeper;
    private final String address;
    private final List<String> destinations;

    ClusterNode(String servers, String address, List<String> destinations) {
        this.zookeeper = ZkClientx.getZkClient(servers);
        this.address = address;
        this.destinations = destinations;
    }

    ZkClientx client() {
        return zookeeper;
    }

    void join() {
        zookeeper.createPersistent(ZookeeperPathUtils.DESTINATION_ROOT_NODE, true);
        zookeeper.createPersistent(ZookeeperPathUtils.CANAL_CLUSTER_ROOT_NODE, true);
        zookeeper.subscribeStateChanges(new IZkStateListener() {
            @Override
            public void handleStateChanged(Watcher.Event.KeeperState state) {
                // the client reconnects by itself; only a new session loses the entries
            }

            @Override
            public void handleNewSession() {
                announceNode();
                destinations.forEach(ClusterNode.this::announce);
            }

            @Override
            public void handleSessionEstablishmentError(Throwable error) {
                error.printStackTrace();
            }
        });
        announceNode();
    }

    void announce(String destination) {
        create(ZookeeperPathUtils.getDestinationClusterNode(destination, address));
    }

    void withdraw(String destination) {
        zookeeper.delete(ZookeeperPathUtils.getDestinationClusterNode(destination, address));
    }

    void leave() {
        zookeeper.delete(ZookeeperPathUtils.getCanalClusterNode(address));
        ZkClientx.clearClients();
    }

    private void announceNode() {
        create(ZookeeperPathUtils.getCanalClusterNode(address));
    }

    private void create(String path) {
        try {
            zookeeper.createEphemeral(path);
        } catch (ZkNoNodeException parentIsMissing) {
            zookeeper.createPersistent(path.substring(0, path.lastIndexOf('/')), true);
            create(path);
        } catch (ZkNodeExistsException already) {
            // ours from before, or one that a killed process's session still holds
        }
    }
}
