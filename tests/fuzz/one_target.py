"""Fuzzes one target with atheris until the time is over or something is found: what __main__ starts, once per target.

The generated decoders are instrumented as they are made, since no import ever sees them.
"""

from __future__ import annotations

import sys
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


def main(target: str, seconds: str, findings: str, *corpora: str) -> None:
    """Fuzz; libFuzzer ends the process, with a status other than 0 after a finding. It writes what is new to the first of the corpora."""
    instrument_generated_code()
    limits = [f"-max_total_time={seconds}", f"-timeout={HANG_S}", f"-rss_limit_mb={RSS_LIMIT_MB}", f"-max_len={LONGEST_INPUT}"]
    output = [f"-artifact_prefix={findings}/{target}-", "-print_final_stats=1", "-verbosity=0"]
    function = fuzz_targets.TARGETS[target]
    atheris.Setup([sys.argv[0], *limits, *output, *corpora], lambda data: fuzz_targets.run(function, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
