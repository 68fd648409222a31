"""A server of its own for a test: a process on a free port of 127.0.0.1 with a directory for its files."""

import shutil
import socket
import subprocess
import tempfile


class Server:
    """Started at once; whoever uses it waits until it answers."""

    def __init__(self, path):
        self.dir = tempfile.mkdtemp()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [path, "--port", str(self.port), "--save", "", "--dir", self.dir, "--enable-debug-command", "yes"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def stop(self):
        """Stops it and removes its directory."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
