"""Relays between two ends on this host that can be cut: what stands between a scheduler and etcd
where a test takes the network away. A cut relay keeps its connections open and passes nothing on, as
a network does that drops packets."""
import selectors
import socket
import threading

CHUNK = 65536


class Relay:
    """All relays of one scheduler, on one thread."""

    def __init__(self, targets):
        self._selector = selectors.DefaultSelector()
        self._other = {}
        self._connected = threading.Event()
        self._connected.set()
        self._wake, wake = socket.socketpair()
        self._selector.register(wake, selectors.EVENT_READ, None)
        self.ports = []
        for target in targets:
            listener = socket.create_server(("127.0.0.1", 0))
            self.ports.append(listener.getsockname()[1])
            self._selector.register(listener, selectors.EVENT_READ, target)
        threading.Thread(target=self._run, daemon=True, name="relay").start()

    def cut(self):
        self._connected.clear()
        self._wake.send(b"x")

    def mend(self):
        self._connected.set()

    def _run(self):
        while True:
            for key, _ in self._selector.select():
                self._connected.wait()
                if key.data is None:
                    key.fileobj.recv(64)
                elif key.data == "pass":
                    self._pass(key.fileobj)
                else:
                    self._accept(key.fileobj, key.data)

    def _accept(self, listener, target):
        near, _ = listener.accept()
        try:
            far = socket.create_connection(target, timeout=1)
            far.settimeout(5)
        except OSError:
            near.close()
            return
        near.settimeout(5)
        self._other[near], self._other[far] = far, near
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(end, selectors.EVENT_READ, "pass")

    def _pass(self, end):
        other = self._other.get(end)
        if other is None:
            return
        try:
            data = end.recv(CHUNK)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for one in (end, other):
            self._other.pop(one, None)
            self._selector.unregister(one)
            one.close()
