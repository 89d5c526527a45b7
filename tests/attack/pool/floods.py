"""Rows: floods of HTTP/2 frames at each port that speaks it, and connections that say nothing.

A connection that floods has to be cut (transport/grpc/meter/http2_meter.h says what a flood is), which
the process counts, and everybody else is served meanwhile.
"""
import contextlib
import socket

from pool import http2
from pool.http2 import Flood, ShortConnections, frame
from pool.pool import GotThrough

PORTS = ("scheduler", "scheduler_health", "server", "server_health")
# The frames that carry nothing, in one piece.
FRAMES = 100
# The calls that a connection may have under way (GrpcServerOptions::max_streams_per_connection), and so
# many connections that the calls are some hundred megabytes before they are taken.
CALLS_OF_CONNECTION = 16
SHORT_CONNECTIONS = 3000
# More than a listener keeps of a peer that has shown nothing; and as many as it keeps
# (GrpcServerOptions::max_strange_connections_of_peer, HealthListener's kMaxConnectionsOfPeer).
SILENT = 700
MOST_SILENT = {"scheduler": 256, "scheduler_health": 16, "server": 256, "server_health": 16}


def opened(stream):
    """The headers of a call whose request does not come."""
    return frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers(http2.REPORT))


def reset(stream):
    return opened(stream) + frame(http2.RESET, 0, stream, b"\0\0\0\x08")


def reset_session(stream):
    return frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers(http2.SESSION)) + frame(
        http2.RESET, 0, stream, b"\0\0\0\x08")


def broken(stream):
    """A window that overflows makes the server reset the stream, whose call it keeps."""
    return (frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers(http2.SESSION)) +
            frame(http2.WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff"))


def idle(kind, payload=b"", stream=0):
    frames = frame(kind, 0, stream, payload) * FRAMES
    return lambda _: frames


# A flood: the pieces that it sends, the least number of them, and what else it does. A connection may
# send less than that: 100 streams that are abandoned, 2,000 frames that carry nothing, 20,000
# window updates (Http2Meter).
FLOODS = {
    "streams_that_are_reset": (reset, 20_000, {}),
    "sessions_that_are_reset": (reset_session, 20_000, {}),
    "streams_that_the_server_resets": (broken, 20_000, {}),
    "streams_that_stay_open": (opened, 20_000, {}),
    "settings_whose_answers_nobody_reads": (idle(http2.SETTINGS), 10_000, {"reads": False}),
    "pings_whose_answers_nobody_reads": (idle(http2.PING, b"12345678"), 10_000, {"reads": False}),
    "window_updates": (idle(http2.WINDOW_UPDATE, b"\0\0\0\x01"), 10_000, {}),
    "priorities": (idle(http2.PRIORITY, b"\0\0\0\0\x10", stream=1), 10_000, {}),
    "headers_without_end": (
        idle(http2.CONTINUATION, stream=1), 10_000,
        {"first": frame(http2.HEADERS, 0, 1, http2.call_headers(http2.SESSION))}),
}


def judge_cut(pool, port, ended, sent):
    """gRPC itself ends connections with too many pings, maybe before the meter does."""
    cut = pool.cut(port.removesuffix("_health"))
    if cut == 0 and not ended:
        raise GotThrough("none of its connections was cut; " + sent)
    return "%s, %d connections cut" % (sent, max(cut, ended))


def flood(port, name, piece, least, options):
    def attack(pool):
        # One that has got through need not go on.
        with Flood(pool.ports[port], piece, enough=pool.has_grown, **options) as sender:
            first = pool.check()
            pool.wait_until(lambda: sender.pieces >= least or not sender.running, "the flood comes")
            second = pool.check()
        said = judge_cut(pool, port, sender.ended if name.startswith("pings") else 0,
                         "%d pieces" % sender.pieces)
        return "%s; an honest program took %.1f and %.1f times as long" % (said, first, second)
    return attack


def leave(port, path):
    """Calls that end with their connections, before anybody has taken them."""
    calls = b"".join(
        frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, http2.call_headers(path))
        for i in range(CALLS_OF_CONNECTION))

    def attack(pool):
        with ShortConnections(pool.ports[port], calls, pool.has_grown) as connections:
            first = pool.check()
            pool.wait_until(lambda: connections.count >= SHORT_CONNECTIONS or pool.has_grown(),
                            "connections come")
            second = pool.check()
        said = judge_cut(pool, port, 0, "%d connections" % connections.count)
        # The calls that are left are taken up one after another.
        pool.check()
        return "%s; an honest program took %.1f and %.1f times as long" % (said, first, second)
    return attack


def is_open(connection):
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def silence(port):
    def attack(pool):
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(
                ("127.0.0.1", pool.ports[port]), pool.give_up_s, http2.STRANGER))
                for _ in range(SILENT)]
            times = pool.check()
            # Peers have turns at being taken, so that some of these may still wait for that.
            pool.wait_until(lambda: sum(map(is_open, silent)) <= MOST_SILENT[port],
                            lambda: "%d of %d connections are left" % (sum(map(is_open, silent)), SILENT))
            left = sum(map(is_open, silent))
        return "%d of %d connections are left; an honest program took %.1f times as long" % (
            left, SILENT, times)
    return attack


ROWS = {"%s_at_the_%s" % (name, port): flood(port, name, *what)
        for port in PORTS for name, what in FLOODS.items()}
ROWS.update({"calls_that_are_left_at_the_%s" % port: leave(port, http2.REPORT) for port in PORTS})
ROWS.update({"sessions_that_are_left_at_the_%s" % port: leave(port, http2.SESSION)
             for port in ("scheduler", "server")})
ROWS.update({"connections_without_a_word_at_the_%s" % port: silence(port) for port in PORTS})
