"""A client written from docs/wire.md alone: client.py HOST PORT ENDPOINT GATEWAY VERSION.

Connects, asks Add(5) twice and Echo of 3 bytes, tells Add(2), provokes two refusals, answers
pings, says goodbye. Prints one line a step; any surprise is an exception.
"""
import os
import socket
import struct
import sys

CONNECT, CONNECTED, REFUSED = 0x01, 0x02, 0x03
CALL, TELL, REPLY, FAILURE = 0x10, 0x11, 0x12, 0x13
PING, PONG, GOODBYE = 0x20, 0x21, 0x22
FOREVER = 0xFFFFFFFF


def text(value):
    data = value.encode()
    return struct.pack(">H", len(data)) + data


class Client:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=20)
        body = struct.pack(">HH", 1, 1) + os.urandom(16) + struct.pack(">I", 1 << 20)
        body += text("client.py") + text("")
        self.socket.sendall(b"LOCKKEEP" + struct.pack(">H", len(body)) + body)
        assert self.read(8) == b"LOCKKEEP", "not a Lockkeeper port"
        (length,) = struct.unpack(">H", self.read(2))
        preface = self.read(length)
        low, high = struct.unpack(">HH", preface[:4])
        assert low <= 1 <= high, f"peer speaks {low}..={high}"
        self.calls = 0

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def send(self, kind, body):
        self.socket.sendall(struct.pack(">IB", 1 + len(body), kind) + body)

    def receive(self):
        while True:
            (length,) = struct.unpack(">I", self.read(4))
            frame = self.read(length)
            kind, body = frame[0], frame[1:]
            if kind != PING:
                return kind, body
            self.send(PONG, body)

    @staticmethod
    def fault(body):
        code, outcome, length = struct.unpack(">HBH", body[:5])
        return code, outcome, body[5:5 + length].decode()

    def connect(self, request, endpoint, gateway, version, methods):
        body = struct.pack(">I", request) + text(endpoint) + text(gateway)
        body += struct.pack(">IBH", version, 0, len(methods)) + b"".join(map(text, methods))
        self.send(CONNECT, body)
        kind, body = self.receive()
        (answered,) = struct.unpack(">I", body[:4])
        assert answered == request
        if kind == REFUSED:
            return None, self.fault(body[4:])
        assert kind == CONNECTED
        # Credit for one-way messages: more than this client sends.
        session, messages, _ = struct.unpack(">III", body[4:])
        assert messages > 1
        return session, None

    def ask(self, session, method, payload):
        self.calls += 1
        self.send(CALL, struct.pack(">IIHI", self.calls, session, method, FOREVER) + payload)
        kind, body = self.receive()
        (answered,) = struct.unpack(">I", body[:4])
        assert answered == self.calls
        if kind == FAILURE:
            return None, self.fault(body[4:])
        assert kind == REPLY
        return body[4:], None


def main():
    host, port, endpoint, gateway, version = sys.argv[1:]
    client = Client(host, int(port))
    _, fault = client.connect(1, "nobody", gateway, int(version), [])
    print("refused", fault[0], fault[1])
    session, fault = client.connect(2, endpoint, gateway, int(version), ["Add", "Echo"])
    assert fault is None, fault
    for _ in range(2):
        # Add is a newtype: the number itself.
        value, fault = client.ask(session, 0, b"\x05")
        print("total", value[0])
    client.send(TELL, struct.pack(">IH", session, 0) + b"\x02")
    value, fault = client.ask(session, 0, b"\x00")
    print("total", value[0])
    value, fault = client.ask(session, 1, b"\x93\x01\x02\x03")
    print("echo", value.hex())
    value, fault = client.ask(session, 0, b"\xc1")
    print("failure", fault[0], fault[1])
    client.send(GOODBYE, b"\x00" + text("done"))
    kind, _ = client.receive()
    print("goodbye", kind == GOODBYE)


main()
