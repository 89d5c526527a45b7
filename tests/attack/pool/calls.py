"""Rows: requests at the scheduler's port that nobody with a credential sends."""
import re
import subprocess
import threading

from pool.http2 import HEALTH_CHECK, REPORT, Caller, ManyCalls
from pool.messages import field
from pool.pool import GotThrough, environment

STAT = "/warpline_internal.Admin/Stat"
PUT_TENANT = "/warpline_internal.Scheduler/PutTenant"
# Just below what gRPC takes of a request.
MEGABYTE = 1_100_000
# Parts of two bytes each, which would become a hundred in memory: of a ServerReport, by field.
EMPTY_PARTS = {"devices": field(6, b""), "sessions": field(9, b""), "leases": field(8, b"")}
# A device with a name, nine bytes: as many parts as a message may have.
SMALL_DEVICE = field(6, field(1, b"aaaaa"))
# The addresses of peers. The last one is the operator's, too.
PEERS = ("127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.1")
# More than a peer's budget of refused calls in the audit (audit_log.cc: kEach).
REFUSED_OF_PEER = 600
OPERATOR_TENANTS = 30
# The calls that come at once on the connections that one peer may have.
CONNECTIONS, CALLS_OF_CONNECTION = 200, 16
SMALL_CONNECTIONS = 24
UNFINISHED = 2 * CONNECTIONS * CALLS_OF_CONNECTION


class Calls:
    """Calls a method of the scheduler's again and again, many at once, from another process, until
    it is left. Without `endpoint` it comes through the unix socket, where it is another peer than all
    others."""

    def __init__(self, pool, method, part, calls, endpoint=None):
        self._command = [
            str(pool.installation.root / "bin/unary_flood"),
            "--endpoint=" + (endpoint or "unix:%s" % pool.scheduler_socket), "--method=" + method,
            "--part=" + part.hex(), "--bytes=%d" % MEGABYTE, "--at_once=%d" % CONNECTIONS,
            "--calls=%d" % calls]
        self._give_up_s = pool.give_up_s

    def __enter__(self):
        self._process = subprocess.Popen(self._command, env=environment(), text=True,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def answers(self):
        """How many of the calls were answered with each status, once all are."""
        try:
            text = self._process.communicate(timeout=self._give_up_s)[0]
        except subprocess.TimeoutExpired as error:
            raise GotThrough("calls are not answered") from error
        answers = {status: int(count) for status, count in re.findall(r"(\w+)=(\d+)", text)}
        if not answers:
            raise GotThrough("not prepared: no calls were made: exit status %d" % self._process.returncode)
        return answers


def reports_of(part):
    def attack(pool):
        with Calls(pool, REPORT, part, calls=2000) as calls:
            times = pool.check()
            answers = calls.answers()
        pool.check()
        return "%s; an honest program took %.1f times as long" % (answers, times)
    return attack


def requests_beyond_their_size(pool):
    """Whoever is told that the credential is wrong has had a megabyte parsed."""
    name = field(2, b"a")
    with Calls(pool, PUT_TENANT, name, calls=1000) as calls:
        times = pool.check()
        answers = calls.answers()
    if {"PERMISSION_DENIED", "UNAUTHENTICATED"} & answers.keys():
        raise GotThrough("%s" % answers)
    return "%s; an honest program took %.1f times as long" % (answers, times)


def reports_that_fill_the_queue(pool):
    """Large ones, which are slow to read and within all bounds, and behind them more small ones than a
    caller may have wait. They come from the address of the server, of whose reports one may be refused
    before its credential is read. The next ones are taken, so that the server is not lost."""
    with Calls(pool, REPORT, SMALL_DEVICE, 2000, pool.scheduler.endpoint) as large, \
            ManyCalls(pool.ports["scheduler"], REPORT, SMALL_DEVICE, SMALL_CONNECTIONS,
                      CALLS_OF_CONNECTION, source=("127.0.0.1", 0)) as small:
        answers = large.answers()
    if "UNAVAILABLE" not in answers:
        raise GotThrough("not prepared: the queue was never full: %s" % answers)
    times = pool.check()
    return "%s and %d small ones; an honest program took %.1f times as long afterwards" % (
        answers, small.begun, times)


def requests_that_never_end(port, path):
    """Of each request all but the last byte comes."""
    def attack(pool):
        with ManyCalls(pool.ports[port], path, bytes(MEGABYTE), CONNECTIONS, CALLS_OF_CONNECTION,
                       ends=False, enough=pool.has_grown) as calls:
            first = pool.check()
            pool.wait_until(lambda: calls.begun >= UNFINISHED or pool.has_grown(),
                            lambda: "%d calls are begun" % calls.begun)
            second = pool.check()
        return "%d calls, %d MiB sent; an honest program took %.1f and %.1f times as long" % (
            calls.begun, calls.sent_bytes >> 20, first, second)
    return attack


def refused_calls_of_operators(pool):
    """They are recorded, too, and must leave room for those that are not refused."""
    request = field(1, b"x") + field(2, b'evil\n\x1b[31m"},{"seq":1') + field(7, 1)

    def flood(peer):
        with Caller(pool.ports["scheduler"], peer, pool.give_up_s) as caller:
            for _ in range(REFUSED_OF_PEER):
                if caller.call(PUT_TENANT, request) is not None:
                    taken.append(peer)

    taken = []
    threads = [threading.Thread(target=flood, args=(peer,)) for peer in PEERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if taken:
        raise GotThrough("a tenant was made")
    pool.act(OPERATOR_TENANTS)
    times = pool.check()
    return "%d calls refused; an honest program took %.1f times as long" % (
        len(PEERS) * REFUSED_OF_PEER, times)


ROWS = {"reports_of_empty_%s" % name: reports_of(part) for name, part in EMPTY_PARTS.items()}
ROWS.update({row.__name__: row for row in (
    requests_beyond_their_size, reports_that_fill_the_queue, refused_calls_of_operators)})
ROWS.update({
    "requests_that_never_end_at_the_" + port: requests_that_never_end(port, path)
    for port, path in (("scheduler", REPORT), ("server", STAT), ("scheduler_health", HEALTH_CHECK),
                       ("server_health", HEALTH_CHECK))})
