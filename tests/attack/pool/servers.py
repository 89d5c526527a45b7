"""Rows: servers that are not what they should be, and what one peer may have of a server."""
import json

from pool.http2 import REPORT, Caller
from pool.messages import field
from pool.pool import SERVER_NAME, GotThrough

ACQUIRE = "/warpline_internal.Leases/Acquire"
# The leases that a server keeps (LeaseBookOptions::max_local).
LEASES = 1024
EVIL = "evil"
# Terminals obey these: a title, a colour, an emptied screen, and a change of direction.
TEXT = "\x1b]0;T\x07\x1b[31mR\x1b[2J\u009b31m\u202er\r\nline"
OBEYED = ("\x1b", "\x07", "\u009b", "\u202e", "\r")
LISTS = (["stat"], ["stat", "--json"], ["ps"], ["ps", "--json"])


def another_server_of_the_same_name(pool):
    """As a copy of a virtual machine is, with the credential of the first one."""
    other = pool.serve(*pool.join())
    try:
        pool.wait_until(lambda: "no answer from scheduler" in other.log() or
                        "changed server=" in pool.new_log(), "the other one reports")
        if "changed server=" in pool.new_log():
            raise GotThrough("leases go to whichever reported last")
        times = pool.check()
        servers = json.loads(pool.operate("servers", "--json"))["servers"]
        if [s["endpoint"] for s in servers] != [pool.server.endpoint]:
            raise GotThrough("the scheduler lists %s" % servers)
    finally:
        pool.end_server(other)
    pool.check()
    return "it is refused; an honest program took %.1f times as long" % times


def leases_of_one_peer(pool):
    """At a server without a scheduler, which gives out leases itself."""
    lone = pool.serve()
    try:
        port, granted = pool.port_of(lone), 0
        with Caller(port, "127.0.0.11", pool.give_up_s) as caller:
            for _ in range(LEASES):
                granted += caller.call(ACQUIRE, field(2, 1 << 20)) is not None
        with Caller(port, "127.0.0.12", pool.give_up_s) as caller:
            if caller.call(ACQUIRE, field(2, 1 << 20)) is None:
                raise GotThrough("another client gets no lease beside %d" % granted)
        pool.run_honest(lone.endpoint)
        times = pool.check()
    finally:
        pool.end_server(lone)
    return "%d of %d granted; an honest program took %.1f times as long" % (granted, LEASES, times)


def report_of(credential, endpoint=b"127.0.0.1:1", version=b"1", uuid=b"GPU-evil", name=b"GPU", backend=b"cpu",
              of_session=b"text"):
    """The report of a server that takes no leases."""
    device = field(1, uuid) + field(2, name) + field(3, backend) + field(4, 1 << 30)
    session = field(1, 1) + b"".join(field(number, of_session) for number in (2, 3, 5, 17, 18, 19, 20))
    return b"".join([field(1, credential.encode()), field(2, EVIL.encode()), field(3, endpoint),
                     field(4, version), field(5, 1), field(6, device), field(9, session)])


def texts_of_a_servers_own(pool):
    """A server that was taken over reports texts of its own that are not for terminals."""
    credential = pool.operate("servers", "add", EVIL).strip()
    text = TEXT.encode()
    try:
        with Caller(pool.ports["scheduler"], timeout_s=pool.give_up_s) as caller:
            for one in ("endpoint", "version", "name", "backend"):
                if caller.call(REPORT, report_of(credential, **{one: text})) is not None:
                    raise GotThrough("the scheduler takes such a text as %s" % one)
            if caller.call(REPORT, report_of(credential, uuid=b"GPU-" + text)) is not None:
                raise GotThrough("the scheduler takes such a text as a device's UUID")
            if caller.call(REPORT, report_of(credential)) is None:
                raise GotThrough("not prepared: a report without such texts is refused, too")
            times = pool.check()
    finally:
        pool.operate("servers", "remove", EVIL)
    return "5 of 5 reports refused; an honest program took %.1f times as long" % times


def texts_of_sessions(pool):
    """A tenant, or a server that was taken over, writes to the operator by the texts of a session."""
    credential = pool.operate("servers", "add", EVIL).strip()
    try:
        with Caller(pool.ports["scheduler"], timeout_s=pool.give_up_s) as caller:
            if caller.call(REPORT, report_of(credential, of_session=TEXT.encode())) is None:
                raise GotThrough("not prepared: the report is refused")
            for words in LISTS:
                said = pool.operate(*words)
                if "]0;T" not in said:
                    raise GotThrough("not prepared: `warpline %s` does not show it" % words[0])
                obeyed = [character for character in OBEYED if character in said]
                if obeyed:
                    raise GotThrough("`warpline %s` prints %r" % (" ".join(words), obeyed))
            times = pool.check()
    finally:
        pool.operate("servers", "remove", EVIL)
    return "escaped in %d lists; an honest program took %.1f times as long" % (len(LISTS), times)


ROWS = {row.__name__: row for row in (
    another_server_of_the_same_name, leases_of_one_peer, texts_of_a_servers_own, texts_of_sessions)}
