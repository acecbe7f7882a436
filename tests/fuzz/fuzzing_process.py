"""Fuzzes targets with atheris, each until its time is over or something is found: what __main__ starts, once per way to run levada.

Instrumenting the modules takes much longer than a short run, so that it happens once, and a child is forked for each target. The generated
decoders are instrumented as they are made, since no import ever sees them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import atheris

# What one input may take besides what the process takes anyhow, about 150 MB with Arrow and the corpus.
RSS_LIMIT_MB = 256 + 150
# Seconds without an answer; how much of the processor an input may take is in fuzz_targets.
HANG_S = 20
LONGEST_INPUT = 1 << 14

with atheris.instrument_imports(include=["levada"]):
    import fuzz_targets
    from levada.protocol import codegen
    from levada.protocol.source import Source


def instrument_generated_code() -> None:
    """Have every generated decoder instrumented."""
    compile_source = codegen._compile

    def compile_instrumented(source: Source, filename: str) -> dict[str, Any]:
        scope = compile_source(source, filename)
        if "decode" in scope:
            scope["decode"] = atheris.instrument_func(scope["decode"])
        return scope

    codegen._compile = compile_instrumented


def fuzz(target: str, seconds: str, kept: Path, seeds: Path) -> None:
    """Fuzz; libFuzzer ends the process, with a status other than 0 after a finding. It writes what is new to the first of the corpora."""
    limits = [f"-max_total_time={seconds}", f"-timeout={HANG_S}", f"-rss_limit_mb={RSS_LIMIT_MB}", f"-max_len={LONGEST_INPUT}"]
    output = [f"-artifact_prefix={kept / 'findings'}/{target}-", "-print_final_stats=1", "-verbosity=0"]
    corpora = [str(kept / "corpus" / target), str(seeds / target)]
    function = fuzz_targets.TARGETS[target]
    atheris.Setup([sys.argv[0], *limits, *output, *corpora], lambda data: fuzz_targets.run(function, data))
    atheris.Fuzz()


def start(target: str, seconds: str, kept: Path, seeds: Path, output: Path) -> int:
    """Fork a child that fuzzes the target and writes what it prints to a file of its name; return its process id."""
    child = os.fork()
    if child:
        return child
    try:
        file = os.open(output / target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        fuzz(target, seconds, kept, seeds)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)  # libFuzzer did not end the process: it did not fuzz


def main(seconds: str, jobs: str, kept: str, seeds: str, output: str, *targets: str) -> None:
    """Fuzz so many targets at once; print each one's name and its child's exit status as it ends."""
    instrument_generated_code()
    waiting, running = list(targets), dict[int, str]()
    while waiting or running:
        while waiting and len(running) < int(jobs):
            target = waiting.pop(0)
            running[start(target, seconds, Path(kept), Path(seeds), Path(output))] = target
        child, status = os.wait()
        print(running.pop(child), os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
