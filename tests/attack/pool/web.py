"""Rows: the ports that speak HTTP/1, which are those for metrics and that of the page."""
import contextlib
import selectors
import socket
import threading

from pool.pool import GotThrough

# So many silent connections take several turns of the threads that serve (serving.cc:
# kMetricsThreads; PageServer::kThreads).
SILENT = {"scheduler_metrics": 48, "server_metrics": 48, "page": 200}
GUESSES = 500
GUESSERS = 4
TENANTS = 3


class Silence:
    """Keeps `count` connections open that have sent half a request. One that is closed is followed by
    another one."""

    def __init__(self, port, count):
        self._port, self._selector = port, selectors.DefaultSelector()
        self._stop = threading.Event()
        self.closed = 0
        for _ in range(count):
            self._connect()
        self._thread = threading.Thread(target=self._run)

    def _connect(self):
        peer = socket.create_connection(("127.0.0.1", self._port))
        peer.sendall(b"GET / HTTP/1.1\r\nX: ")
        self._selector.register(peer, selectors.EVENT_READ)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _run(self):
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.05):
                with contextlib.suppress(OSError):
                    if key.fileobj.recv(4096):
                        continue
                self._selector.unregister(key.fileobj)
                key.fileobj.close()
                self.closed += 1
                with contextlib.suppress(OSError):
                    self._connect()


def silence(port):
    def attack(pool):
        with Silence(pool.ports[port], SILENT[port]) as silent:
            times = pool.check()
        return "%d connections, %d of them closed meanwhile; an honest program took %.1f times as " \
               "long" % (SILENT[port], silent.closed, times)
    return attack


class Guesses:
    """Shows the page wrong credentials from several threads until it is left. `statuses` are how they
    were answered."""

    def __init__(self, pool):
        self._pool, self._stop, self.statuses = pool, threading.Event(), []
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(GUESSERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        while not self._stop.is_set():
            with contextlib.suppress(GotThrough):
                self.statuses.append(
                    self._pool.see_pool("guess-%d-%d" % (number, len(self.statuses)))[0])

    def await_some(self):
        self._pool.wait_until(lambda: len(self.statuses) >= GUESSES, "guesses are answered")


def guesses_at_the_page(pool):
    with Guesses(pool) as guesses:
        times = pool.check()
        guesses.await_some()
    counts = {status: guesses.statuses.count(status) for status in sorted(set(guesses.statuses))}
    if 200 in counts or 429 not in counts:
        raise GotThrough("answers %s" % counts)
    return "answers %s; an honest program took %.1f times as long" % (counts, times)


def right_credentials_beside_guesses(pool):
    """The page has not seen them before."""
    with Guesses(pool) as guesses:
        guesses.await_some()
        answers = []
        for number in range(TENANTS):
            credential = pool.operate("tenant", "add", "viewer-%d" % number).strip()
            answers.append(pool.see_pool(credential)[0])
            pool.operate("tenant", "remove", "viewer-%d" % number)
        if answers != [200] * TENANTS:
            raise GotThrough("those that were right were answered with %s" % answers)
        times = pool.check()
    return "%d of %d let in; an honest program took %.1f times as long" % (TENANTS, TENANTS, times)


def refused(status, **headers):
    """The page is asked as a browser would do that another site has led there."""
    def attack(pool):
        for path in ("/", "/pool.json"):
            got = pool.get("page", path, Authorization="Bearer " + pool.credential, **headers)[0]
            if got != status:
                raise GotThrough("%s is answered with %d" % (path, got))
        pool.check()
        return "refused with %d" % status
    return attack


ROWS = {"silent_connections_at_the_%s" % port: silence(port) for port in SILENT}
ROWS.update({row.__name__: row for row in (guesses_at_the_page, right_credentials_beside_guesses)})
ROWS["page_by_the_name_of_another_host"] = refused(421, Host="attacker.example")
ROWS["page_for_another_site"] = refused(403, Origin="http://attacker.example")
