"""A wire that delays and loses packets: wire.py DEVICE DELAY_MS JITTER_MS LOSS_PERCENT

Makes a tunnel device, hands every packet back to it a while later, and loses some. Says `ready` once the device
is there; ends when its standard input does."""
import fcntl, heapq, os, random, select, struct, sys, time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000

device, (delay, jitter, loss) = sys.argv[1], map(float, sys.argv[2:5])
tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
print("ready", flush=True)

chance = random.Random(1)
waiting, count = [], 0
while True:
    patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
    readable, _, _ = select.select([tunnel, sys.stdin], [], [], patience)
    if sys.stdin in readable and not os.read(sys.stdin.fileno(), 4096):
        break
    if tunnel in readable:
        packet = os.read(tunnel, 65536)
        if chance.random() * 100 >= loss:
            count += 1
            due = time.monotonic() + (delay + chance.random() * jitter) / 1000
            heapq.heappush(waiting, (due, count, packet))
    while waiting and waiting[0][0] <= time.monotonic():
        try:
            os.write(tunnel, heapq.heappop(waiting)[2])
        except OSError:
            pass  # the device is down or full: one more packet lost
