"""The steps of a lease's move to another server, and how a test has the move wait at each of them.

A move gets to a step by events alone: bytes that a link holds back, lines of logs, and a worker that
is stopped. It then stays there until go_on() is called.
"""
import os
import signal

import harness

# In their order.
STEPS = ("ordered", "suspending", "dialled", "greeted", "half", "almost", "adopted", "committed",
         "taken", "told", "sent_on", "resumed")
MEANINGS = {
    "ordered": "the scheduler has placed the order, and the source does not know it",
    "suspending": "the source brings the session to rest",
    "dialled": "the session is at rest, and the target has not got a byte",
    "greeted": "the target has the ticket",
    "half": "the target has half of the bytes",
    "almost": "the target lacks the last bytes",
    "adopted": "the target has the session, and its request to commit is on the way",
    "committed": "the scheduler has committed, and the target does not know it",
    "taken": "the target knows, and the source does not",
    "told": "the source knows, and the client does not",
    "sent_on": "the client is on its way to the target",
    "resumed": "the client has its session again",
}
_GREETING = 4096
_REST = 8192


class HeldMove:
    """A move of the session on server `here` of a LinkedCase to server `there`. It has so many bytes of
    device memory, which are sent last."""

    def __init__(self, case, here, there, memory):
        self.case, self.here, self.there, self.memory = case, here, there, memory
        self.worker = None
        self.lease = case.lease_on(case.servers[here])
        self.source, self.target = case.servers[here], case.servers[there]

    def begin(self):
        status, output = self.case.operator("migrate", self.lease, "--to=" + self.there, "--nowait")
        self.case.assertEqual(status, 0, output + self.case.logs())

    def await_line(self, process, line):
        harness.wait_until(lambda: line in process.log(),
                           lambda: "a log has %r\n%s" % (line, self.case.logs()))

    def await_held(self, link, way, what):
        harness.wait_until(lambda: link.held(way), lambda: what + "\n" + self.case.logs())

    def to(self, step):
        """Begins the move. It is at the step when this returns."""
        getattr(self, "_to_" + step)()
        committed = "moved lease=" + self.lease in self.case.scheduler.log()
        self.case.assertEqual(committed, STEPS.index(step) >= STEPS.index("committed"), self.case.logs())

    def _to_ordered(self):
        self.case.wires[self.here].hold("back")
        self.begin()

    def _to_suspending(self):
        self.worker = harness.server_processes(self.source.pid, "warpline-worker")[0]
        os.kill(self.worker, signal.SIGSTOP)
        self.begin()
        self.await_line(self.source, "moves lease=" + self.lease)

    def _hold_after(self, size):
        link = self.case.links[self.there]
        link.hold_new("there", size)
        self.begin()
        self.await_held(link, "there", "the source has sent %d bytes" % size)

    def _to_dialled(self):
        self._hold_after(0)

    def _to_greeted(self):
        self._hold_after(_GREETING)

    def _to_half(self):
        self._hold_after(self.memory // 2)

    def _to_almost(self):
        self._hold_after(self.memory - _REST)

    def _to_adopted(self):
        self._to_almost()
        self.case.wires[self.there].hold("there")
        self.case.links[self.there].release("there")
        self.await_line(self.target, "from=moved")

    def _to_committed(self):
        self._to_almost()
        self.case.wires[self.there].hold_answer(b"CommitMove")
        self.case.links[self.there].release("there")
        self.await_line(self.case.scheduler, "moved lease=" + self.lease)

    def _to_taken(self):
        self._to_adopted()
        self.case.links[self.there].hold("back")
        self.case.wires[self.there].release("there")
        self.await_line(self.target, "took over lease=" + self.lease)

    def _to_told(self):
        self.case.links[self.here].hold_new("there")
        self.begin()
        self.await_line(self.source, "moved lease=" + self.lease)
        self.await_held(self.case.links[self.here], "there", "the client asks the source")

    def _to_sent_on(self):
        self._to_told()
        self.case.links[self.there].hold_new("there")
        self.case.links[self.here].release()
        self.await_held(self.case.links[self.there], "there", "the client asks the target")

    def _to_resumed(self):
        self.begin()
        self.case.await_open(self.target)

    def go_on(self):
        for link in (*self.case.links.values(), *self.case.wires.values()):
            link.release()
        if self.worker is not None:
            try:
                os.kill(self.worker, signal.SIGCONT)
            except ProcessLookupError:
                pass  # It has gone with its server.
