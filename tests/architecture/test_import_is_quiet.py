"""Importing levada touches neither the network nor other programs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

def refuse(event, arguments):
    if event.split(".")[0] in ("socket", "subprocess", "urllib", "ftplib", "http") and event not in ("socket.gethostname",):
        raise SystemExit(f"{event} {arguments}")
    if event == "os.system":
        raise SystemExit(event)

sys.addaudithook(refuse)
import levada
for name in levada.__all__:
    getattr(levada, name)
print("quiet")
"""


def test_M_D17_nothing_is_downloaded_or_started_at_import() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "quiet", done.stdout + done.stderr
