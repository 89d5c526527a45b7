"""A TCP link between programs of a test, which holds bytes back and cuts connections when it is told to.

    link = HeldLink()                      the programs connect to link.endpoint
    link.target = "127.0.0.1:14000"
    link.hold_new("there", 4096)           of each new connection 4096 bytes go on to the target
    link.hold("back")                      of no connection anything comes back from now on
    wait_until(lambda: link.held("there"), "...")
    link.hold_answer(b"CommitMove")        nothing comes back to a request with these bytes
    link.release()                         everything goes on
    link.cut()                             all connections end with a reset, or else the next one

Thread-safe. `target` may change: new connections go there.
"""
import socket
import struct
import threading

DIRECTIONS = ("there", "back")
_PIECE = 1 << 16
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def _connect(endpoint):
    if endpoint.startswith("unix:"):
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(endpoint[len("unix:"):])
        return connected
    host, port = endpoint.rsplit(":", 1)
    connected = socket.create_connection((host, int(port)))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


class _Connection:
    """One connection. Its numbers are guarded by the link's condition."""

    def __init__(self, link, client):
        self.link = link
        self.client = client
        self.server = None
        self.passed = {way: 0 for way in DIRECTIONS}
        self.waiting = {way: 0 for way in DIRECTIONS}  # Bytes that are held.
        self.limits = dict(link.new_limits)
        self.seen = b""  # The last bytes that went to the target.
        self.over = False

    def allowed(self, way):
        """How many bytes may go on now; None for any number."""
        limit = self.limits[way]
        return None if limit is None else max(limit - self.passed[way], 0)

    def run(self):
        try:
            self.server = _connect(self.link.target)
        except OSError:
            return self.close()
        back = threading.Thread(target=self._pump, args=("back", self.server, self.client), daemon=True)
        back.start()
        self._pump("there", self.client, self.server)
        back.join()
        return self.close()

    def _pump(self, way, source, target):
        changed = self.link.changed
        try:
            while True:
                piece = source.recv(_PIECE)
                if not piece:
                    return target.shutdown(socket.SHUT_WR)
                if way == "there":
                    self._look_at(piece)
                while piece:
                    with changed:
                        self.waiting[way] = len(piece)
                        changed.notify_all()
                        while not self.over and self.allowed(way) == 0:
                            changed.wait()
                        if self.over:
                            return None
                        size = self.allowed(way)
                        size = len(piece) if size is None else min(size, len(piece))
                        self.passed[way] += size
                        self.waiting[way] = 0
                    target.sendall(piece[:size])
                    piece = piece[size:]
        except OSError:
            # The other direction ends, too, as it does where there is no link between.
            for one in (self.client, self.server):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            return None

    def _look_at(self, piece):
        words = self.link.words
        self.seen = (self.seen + piece)[-2 * _PIECE:] if words else b""
        if words and words in self.seen:
            with self.link.changed:
                self.limits["back"] = self.passed["back"]

    def reset(self):
        for one in (self.client, self.server):
            if one is None:
                continue
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        with self.link.changed:
            self.over = True
            self.link.connections.discard(self)
            self.link.changed.notify_all()
        for one in (self.client, self.server):
            if one is not None:
                one.close()


class HeldLink:
    def __init__(self, path=None):
        """At a unix socket, or else at a port of 127.0.0.1."""
        self.target = None
        self.words = None
        self.changed = threading.Condition()
        self.connections = set()
        self.new_limits = {way: None for way in DIRECTIONS}
        self.accepted = 0  # Connections so far.
        self._cuts_next = False
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
            self.endpoint = "127.0.0.1:%d" % self._listener.getsockname()[1]
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen(128)
            self.endpoint = "unix:%s" % path
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            if client.family == socket.AF_INET:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.changed:
                self.accepted += 1
                connection = _Connection(self, client)
                cuts, self._cuts_next = self._cuts_next, False
                if not cuts:
                    self.connections.add(connection)
            if cuts:
                connection.reset()
                connection.close()
            else:
                threading.Thread(target=connection.run, daemon=True).start()

    def hold(self, way):
        """Holds all connections from now on."""
        with self.changed:
            self.new_limits[way] = 0
            for connection in self.connections:
                connection.limits[way] = connection.passed[way]

    def hold_new(self, way, after=0):
        """Holds connections that are made from now on, once so many bytes have gone on."""
        with self.changed:
            self.new_limits[way] = after

    def hold_answer(self, words):
        """Holds what comes back in connections in which these bytes go to the target."""
        with self.changed:
            self.words = words

    def release(self, *ways):
        """Releases these directions, or both."""
        with self.changed:
            self.words = None
            for way in ways or DIRECTIONS:
                self.new_limits[way] = None
                for connection in self.connections:
                    connection.limits[way] = None
            self.changed.notify_all()

    def held(self, way):
        """Whether bytes wait because they are held."""
        with self.changed:
            return any(one.waiting[way] and one.allowed(way) == 0 for one in self.connections)

    def cut(self):
        with self.changed:
            connections = list(self.connections)
            self._cuts_next = not connections
        for connection in connections:
            connection.reset()
            connection.close()

    def close(self):
        self._listener.close()
        self.release()
        self.cut()
