"""HTTP/2 by hand: calls from an address of one's choice, and floods of frames (RFC 9113)."""
import contextlib
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS = 0, 1, 2, 3, 4
PING, WINDOW_UPDATE, CONTINUATION = 6, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4
# The window of a connection that wants to be sent as much as there is.
WIDE_WINDOW = (1 << 30).to_bytes(4, "big")
REPORT = "/warpline_internal.Scheduler/Report"
SESSION = "/warpline_internal.Gpu/Session"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
# A peer other than those who are served meanwhile, since peers have turns and room of their own.
STRANGER = ("127.0.0.66", 0)


def frame(kind, flags, stream, payload=b""):
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") +
            payload)


def call_headers(path):
    """The headers of a call, with HPACK's static table (RFC 7541, appendix A)."""
    def text(value):
        return bytes([len(value)]) + value
    return (b"\x83\x86\x04" + text(path.encode()) + b"\x01" + text(b"host") + b"\x0f\x10" +
            text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers"))


class Caller:
    """A connection for one call after another, from the address `source`. OSError when it is cut."""

    def __init__(self, port, source="127.0.0.1", timeout_s=None):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s, (source, 0))
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0) +
                             frame(WINDOW_UPDATE, 0, 0, WIDE_WINDOW))
        self._stream = -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def _receive(self, count):
        received = b""
        while len(received) < count:
            more = self._socket.recv(count - len(received))
            if not more:
                raise ConnectionResetError("the connection was closed")
            received += more
        return received

    def call(self, path, request=b""):
        """Returns what answers the call, or None when it is refused."""
        self._stream += 2
        self._socket.sendall(
            frame(HEADERS, END_HEADERS, self._stream, call_headers(path)) +
            frame(DATA, END_STREAM, self._stream,
                  b"\0" + len(request).to_bytes(4, "big") + request))
        answer = b""
        while True:
            head = self._receive(9)
            payload = self._receive(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
            if kind in (SETTINGS, PING) and not flags & ACK:
                self._socket.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            elif stream != self._stream:
                continue
            elif kind == DATA:
                answer += payload
            if kind == RESET or (kind in (HEADERS, DATA) and flags & END_STREAM):
                return answer[5:] if answer else None


class Flood:
    """Sends what `piece(stream)` makes for one stream after another, from a thread of its own until
    it is left, or `enough()` says that it has got through. Makes a new connection when one is cut.
    With `first`, each connection begins with that. Answers are read where `reads`."""

    AT_ONCE = 100

    def __init__(self, port, piece, first=b"", reads=True, enough=lambda: False):
        self._port, self._piece, self._first, self._reads = port, piece, first, reads
        self._enough, self._stop = enough, threading.Event()
        self.pieces = self.ended = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        self._thread.join()

    @property
    def running(self):
        return self._thread.is_alive()

    def _run(self):
        while not self._stop.is_set():
            with contextlib.suppress(ConnectionRefusedError):
                with socket.create_connection(("127.0.0.1", self._port)) as peer:
                    try:
                        self._send(peer)
                    except BlockingIOError:
                        pass  # It takes nothing more for now.
                    except OSError:
                        self.ended += 1

    def _send(self, peer):
        # Python would wait for as long as a timeout of its own before it reads.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
        peer.sendall(PREFACE + frame(SETTINGS, 0, 0) + self._first)
        stream = 1
        while not self._stop.is_set():
            peer.sendall(b"".join(self._piece(stream + 2 * i) for i in range(self.AT_ONCE)))
            stream += 2 * self.AT_ONCE
            self.pieces += self.AT_ONCE
            if self._reads:
                self._read(peer)
            if self._enough():
                self._stop.set()

    @staticmethod
    def _read(peer):
        with contextlib.suppress(BlockingIOError):
            while True:
                if not peer.recv(1 << 16, socket.MSG_DONTWAIT):
                    raise ConnectionResetError("the connection was closed")


class ShortConnections:
    """Makes connections one after another, in each of `THREADS` threads, which send `first` and are
    closed when something was answered, until it is left, or `enough()` says that it has got through."""

    THREADS = 4

    def __init__(self, port, first, enough=lambda: False):
        self._port, self._first, self._enough = port, first, enough
        self._stop, self._lock = threading.Event(), threading.Lock()
        self.count = 0
        self._threads = [threading.Thread(target=self._run) for _ in range(self.THREADS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self):
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self._port), 1, STRANGER) as peer:
                    peer.sendall(PREFACE + frame(SETTINGS, 0, 0) + self._first)
                    peer.recv(1 << 16)
            with self._lock:
                self.count += 1
            if self._enough():
                self._stop.set()


class ManyCalls:
    """Keeps `calls` calls under way on each of `connections` connections from the address `source`,
    with one request for all, which comes as fast as the server takes it; where not `ends`, without
    its last byte. Calls and connections that are ended are followed by others, until it is left, or
    `enough()` says that it has got through."""

    def __init__(self, port, path, request, connections, calls, source=STRANGER, ends=True,
                 enough=lambda: False):
        self.headers, self.calls, self.ends, self.enough = call_headers(path), calls, ends, enough
        # How long the message is comes before it.
        message = b"\0" + len(request).to_bytes(4, "big") + request
        self.message = message if ends else message[:-1]
        self._port, self._source, self._lock = port, source, threading.Lock()
        self.stop = threading.Event()
        self.begun = self.sent_bytes = 0
        self._threads = [threading.Thread(target=self._run) for _ in range(connections)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def note(self, begun=0, sent_bytes=0):
        with self._lock:
            self.begun += begun
            self.sent_bytes += sent_bytes

    def _run(self):
        while not self.stop.is_set():
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self._port), 1, self._source) as peer:
                    _ConnectionOfMany(peer, self).run()


class _ConnectionOfMany:
    """One connection of ManyCalls, which keeps to the windows that the server gives it (RFC 9113,
    section 5.2)."""

    WINDOW, MOST_DATA, WINDOW_SETTING = 65535, 16384, 4

    def __init__(self, peer, owner):
        self._peer, self._owner, self._received = peer, owner, b""
        self._window = self._initial = self.WINDOW
        self._windows, self._left, self._stream = {}, {}, -1
        peer.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self._take(self._peer.recv(1 << 16))  # The server's SETTINGS.

    def run(self):
        while not self._owner.stop.is_set():
            while len(self._left) < self._owner.calls:
                self._begin()
            for stream in list(self._left):
                while self._left[stream] > 0 and min(self._window, self._windows[stream]) > 0:
                    self._send(stream)
            with contextlib.suppress(TimeoutError):
                received = self._peer.recv(1 << 16)
                if not received:
                    return
                self._take(received)

    def _begin(self):
        self._stream += 2
        self._left[self._stream] = len(self._owner.message)
        self._windows[self._stream] = self._initial
        self._peer.sendall(frame(HEADERS, END_HEADERS, self._stream, self._owner.headers))
        self._owner.note(begun=1)
        if self._owner.enough():
            self._owner.stop.set()

    def _send(self, stream):
        size = min(self._left[stream], self._window, self._windows[stream], self.MOST_DATA)
        begin = len(self._owner.message) - self._left[stream]
        self._left[stream] -= size
        last = self._owner.ends and self._left[stream] == 0
        self._peer.sendall(frame(DATA, END_STREAM if last else 0, stream,
                                 self._owner.message[begin:begin + size]))
        self._windows[stream] -= size
        self._window -= size
        self._owner.note(sent_bytes=size)

    def _take(self, received):
        self._received += received
        while len(self._received) >= 9:
            size = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + size:
                return
            kind, flags = self._received[3], self._received[4]
            stream = int.from_bytes(self._received[5:9], "big")
            payload, self._received = self._received[9:9 + size], self._received[9 + size:]
            self._take_frame(kind, flags, stream, payload)

    def _take_frame(self, kind, flags, stream, payload):
        if kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == WINDOW_UPDATE and stream in self._windows:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind == RESET or (kind == HEADERS and flags & END_STREAM):
            self._left.pop(stream, None)
            self._windows.pop(stream, None)
        elif kind == PING and not flags & ACK:
            self._peer.sendall(frame(PING, ACK, 0, payload))
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                if int.from_bytes(payload[at:at + 2], "big") == self.WINDOW_SETTING:
                    self._set_initial(int.from_bytes(payload[at + 2:at + 6], "big"))
            self._peer.sendall(frame(SETTINGS, ACK, 0))

    def _set_initial(self, window):
        for stream in self._windows:
            self._windows[stream] += window - self._initial
        self._initial = window
