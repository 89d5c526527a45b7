#!/usr/bin/python3
"""A stand-in for nvidia-cuda-mps-control, for tests.

As the original does, it is the daemon with -f, and otherwise its client, which sends each line of its
input as a command and prints the answers. The daemon listens at CUDA_MPS_PIPE_DIRECTORY/control, writes its
process id beside it, and has server processes: one for each `start_server`, which end with `quit` and not with
the daemon. What follows the last "-" of the program's own name is how it fails:

  dies    it ends at once with some words
  silent  it never listens
  deaf    it listens, answers, and does not quit
"""
import os
import signal
import socket
import sys
import time

PIPES = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
CONTROL = os.path.join(PIPES, "control")
HOW = os.path.basename(sys.argv[0]).rsplit("-", 1)[-1]


class Daemon:
    def __init__(self):
        self._servers = []

    def start_server(self):
        server = os.fork()
        while server == 0:
            signal.pause()
        self._servers.append(server)

    def answer(self, command):
        name = command.split(" ")[0]
        if name == "get_server_list":
            return "".join("%d\n" % server for server in self._servers)
        if name == "start_server":
            self.start_server()
            return ""
        if name == "quit" and HOW != "deaf":
            for server in self._servers:
                os.kill(server, signal.SIGKILL)
                os.waitpid(server, 0)
            return None
        return "" if name == "quit" else "Unrecognized command\n"

    def run(self):
        with open(os.path.join(PIPES, "nvidia-cuda-mps-control.pid"), "w", encoding="ascii") as pid:
            pid.write("%d" % os.getpid())
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(CONTROL)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw", encoding="ascii") as client:
                for line in client:
                    said = self.answer(line.strip())
                    client.write((said or "") + ".\n")
                    client.flush()
                    if said is None:
                        return


def ask():
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(CONTROL)
        except OSError:
            print("Cannot find MPS control daemon process")
            return 1
        with connection.makefile("rw", encoding="ascii") as daemon:
            for command in sys.stdin:
                daemon.write(command.strip() + "\n")
                daemon.flush()
                for line in daemon:
                    if line == ".\n":
                        break
                    print(line, end="")
    return 0


def main():
    if "-f" not in sys.argv[1:]:
        return ask()
    if HOW == "dies":
        print("An instance of this daemon is already running", flush=True)
        return 1
    if HOW == "silent":
        time.sleep(1000)
    Daemon().run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
