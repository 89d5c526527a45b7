"""Manual pages made from what the programs' --help prints, so that they cannot go stale."""
import re
import subprocess

# Program -> section, and what --help does not say: (heading, text) in roff.
PAGES = {
    "warpline": (1, [
        ("ENVIRONMENT", """\
.TP
.B WARPLINE_ENDPOINT
host:port or unix:/path of the server or scheduler.
.TP
.BR WARPLINE_TLS_CA ", " WARPLINE_TLS_CERT ", " WARPLINE_TLS_KEY ", " WARPLINE_TLS_SERVER_NAME
PEM files, and the name in the server's certificate, for an encrypted connection.
.TP
.BR WARPLINE_CREDENTIAL_FILE ", " WARPLINE_CREDENTIAL
The tenant's credential for a scheduler.
.TP
.B WARPLINE_SLICE
The slice that a scheduler is to give.
.TP
.B WARPLINE_OPERATOR_CREDENTIAL_FILE
The credential of the scheduler's operator."""),
        ("FILES", """\
.TP
.I /var/lib/warpline\\-scheduler/operator.credential
The operator's credential of the service warpline\\-scheduler; root's to read."""),
    ]),
    "warpline-server": (8, [
        ("FILES", """\
.TP
.I /etc/default/warpline\\-server
Flags of the service warpline\\-server.
.TP
.I /var/lib/warpline/audit
The audit's record of the service; see
.BR warpline (1)."""),
    ]),
    "warpline-scheduler": (8, [
        ("FILES", """\
.TP
.I /etc/default/warpline\\-scheduler
Flags of the service warpline\\-scheduler.
.TP
.I /var/lib/warpline\\-scheduler
Its state, and operator.credential."""),
    ]),
}


def escaped(text):
    text = text.replace("\\", "\\\\").replace("-", "\\-")
    # A dot or an apostrophe starts a request.
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def paragraphs(text):
    """Indented blocks as they stand, others as running text."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if not block.strip():
            continue
        if block.startswith("  "):
            out.append(".PP\n.nf\n%s\n.fi" % escaped(block))
        else:
            out.append(".PP\n" + escaped(block))
    return "\n".join(out)


def flags_of(text):
    """The flags in a list of Abseil's, `--name (what it does); default: value;`, wrapped. Returns
    (name, meaning, default) of each, by name."""
    found = re.findall(r"^    --(\w+) \((.*?)\);\s+default: (.*?);$", text,
                       re.MULTILINE | re.DOTALL)
    return sorted(tuple(" ".join(part.split()) for part in flag) for flag in found)


def help_of(name, program):
    """What the executable `program`, which calls itself `name`, prints for --help."""
    # Abseil's --help exits with 1.
    done = subprocess.run([str(program), "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if not done.stdout.startswith(name + ": "):
        raise RuntimeError("%s --help printed: %s" % (program, done.stdout + done.stderr))
    return done.stdout


def options(text):
    out = []
    for name, meaning, default in flags_of(text):
        out.append(".TP\n.B \\-\\-%s\n%s" % (
            escaped(name), escaped("%s Default: %s." % (meaning, default))))
    return "\n".join(out)


def page(name, help_text):
    """The page of program `name`, from the text of its --help."""
    section, more = PAGES[name]
    head, _, body = help_text.partition("\n")
    purpose = head.partition(": ")[2].rstrip(".")
    text, _, flags = body.partition("\n  Flags from ")
    parts = [".TH %s %d \"\" \"Warpline\"" % (escaped(name.upper()), section),
             ".SH NAME\n%s \\- %s" % (escaped(name), escaped(purpose)),
             ".SH DESCRIPTION\n" + paragraphs(text)]
    if flags:
        parts.append(".SH OPTIONS\n" + options("\n  Flags from " + flags))
    parts += [".SH %s\n%s" % part for part in more]
    others = [".BR %s (%d)" % (escaped(other), PAGES[other][0]) for other in PAGES if other != name]
    parts.append(".SH SEE ALSO\n%s,\n/usr/share/doc/warpline/README.txt" % ",\n".join(others))
    return "\n".join(parts) + "\n"


def file_name(name):
    return "man%d/%s.%d.gz" % (PAGES[name][0], name, PAGES[name][0])


def make(name, program):
    """The page of the executable `program`."""
    return page(name, help_of(name, program))
