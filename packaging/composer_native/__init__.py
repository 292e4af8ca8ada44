"""The program composer in a wheel: bin/, lib/ and include/ in this folder are an installation of it."""

import importlib.util
import os
import signal
import sys


def main():
    """Becomes the program that this was called as, with LIBTORCH the installed torch unless it is set."""
    if not os.environ.get("LIBTORCH"):
        torch = importlib.util.find_spec("torch")
        if torch is None or not torch.origin:
            print("composer: Python finds no torch, which the wheel needs: pip install torch==2.11.0", file=sys.stderr)
            sys.exit(2)
        os.environ["LIBTORCH"] = os.path.dirname(torch.origin)
    for name in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and then by what it becomes
        signal.signal(name, signal.SIG_DFL)
    programs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    program = os.path.join(programs, os.path.basename(sys.argv[0]))
    if not os.path.exists(program):  # a link of another name
        program = os.path.join(programs, "composer")
    os.execv(program, [program, *sys.argv[1:]])
