"""Java, and the jars that tests and benchmarks fetch through Maven.

Jars are kept in the user's cache, outside the checkout, so that a fresh clone finds them. A folder is named after its pom and the
pom's hash, is filled under another name and then renamed: whoever sees it sees all of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

MAVEN_TIMEOUT_S = 540
# By its full name: a plugin that no pom declares is otherwise the one of Maven's own release, which may be too old for this goal.
UNPACK = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
CONNECTOR_POM = Path(__file__).parents[1] / "real_kafka" / "pom-spark-connector-4.2.0.xml"


class KafkaUnavailable(Exception):
    """Why there is no real Kafka here; the message is what a skipped test says."""


def java() -> Path:
    """Find the java command: JAVA_HOME first, then PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home) / "bin" / "java"
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailable("no Java: neither JAVA_HOME nor PATH leads to one")
    return Path(found)


def cache_dir() -> Path:
    """Return the folder that all clones of one user share."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "levada" / "jars"


def spark_connector() -> list[Path]:
    """Return the jars of Spark's own Kafka connector."""
    return sorted(jars(CONNECTOR_POM).glob("*.jar"))


def jars(pom: Path) -> Path:
    """Return a folder with everything a pom depends on, fetching it through Maven the first time."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"{pom.stem.removeprefix('pom-')}-{digest}"
    return filled(folder, lambda filling: _copy_jars(pom, filling))


def unpacked(group: str, name: str, version: str, classifier: str, kind: str) -> Path:
    """Return a folder with what an archive of Maven's repository holds, fetching it the first time."""
    what = f"{name}-{version}"

    def fill(filling: Path) -> None:
        _run_maven(what, UNPACK, f"-Dartifact={group}:{name}:{version}:{kind}:{classifier}", f"-DoutputDirectory={filling}")

    return filled(cache_dir() / what, fill)


def filled(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return the folder, calling `fill` with another one that becomes it if it is not there yet."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    filling = Path(tempfile.mkdtemp(prefix=".filling-", dir=folder.parent))
    try:
        fill(filling)
        _publish(filling, folder)
    finally:
        shutil.rmtree(filling, ignore_errors=True)
    return folder


def _publish(filling: Path, folder: Path) -> None:
    try:
        filling.rename(folder)
    except OSError:
        # Somebody else was faster; theirs is as good as ours.
        if not folder.is_dir():
            raise


def _copy_jars(pom: Path, output: Path) -> None:
    _run_maven(pom.name, "dependency:copy-dependencies", "-f", str(pom.resolve()), "-DincludeScope=runtime", f"-DoutputDirectory={output}")
    if not any(output.glob("*.jar")):
        raise KafkaUnavailable(f"Maven fetched nothing for {pom.name}")


def _run_maven(what: str, *arguments: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("no Maven: `mvn` is not on PATH")
    command = [maven, "-B", "-q", *arguments]
    try:
        # Without a project Maven leaves markers of what it unpacked where it stands.
        with tempfile.TemporaryDirectory() as elsewhere:
            run = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, stdin=subprocess.DEVNULL, cwd=elsewhere)
    except subprocess.TimeoutExpired:
        raise KafkaUnavailable(f"Maven did not fetch {what} within {MAVEN_TIMEOUT_S} s") from None
    if run.returncode != 0:
        raise KafkaUnavailable(f"Maven could not fetch {what}: {_first_error(run.stdout + run.stderr)}")


def _first_error(output: str) -> str:
    found = re.search(r"\[ERROR\] (.+)", output)
    return found.group(1)[:300] if found else output.strip()[:300] or "no message"
