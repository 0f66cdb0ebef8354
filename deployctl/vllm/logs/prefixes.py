"""What stands before a program's own words: collectors, processes, loggers. Regexes alone.

Every pattern is anchored where it is tried and every repetition is bounded, so that a line costs
its length. Sources: Docker's json-file and containerd's CRI format, systemd-journald's short forms,
`docker compose logs`, `kubectl logs --prefix`, Ray's and torchrun's process prefixes, c10/glog,
NCCL's src/debug.cc, Python's logging and loguru, uvicorn, vllm/logger.py from 0.5 to 0.33.
"""

from __future__ import annotations

import re

LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "NOTICE": "info",
    "WARN": "warning",
    "WARNING": "warning",
    "ERROR": "error",
    "CRITICAL": "fatal",
    "FATAL": "fatal",
}
"""Severities by the names that loggers use."""
LETTERS = {"I": "info", "W": "warning", "E": "error", "F": "fatal"}
"""Severities as glog and c10 abbreviate them."""

_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?"
_VLLM = (
    rf"{_LEVEL} (?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{{1,6}})? "
    r"(?:\[[^\]\s]{1,200}:\d{1,6}\]|[\w./-]{1,120}:\d{1,6}\])"
)
_PROCESS = (
    r"\((?P<process>[A-Za-z][\w:./<>-]{0,80}),?(?: \w{1,20}=[^\s,()]{1,80},?){1,6}\)"
    r"|\((?P<ray>raylet|autoscaler|gcs_server)[^()]{0,80}\)|\(pid=\d{1,10}(?:, ip=[^\s()]{1,60})?\)"
)
_RANK = r"\[(?P<rank>(?:rank|default|worker) ?\d{1,5})\](?::(?=\[)|: ?| )"

ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]{0,4}[0-~]"
    r"|\x9b[0-?]{0,32}[@-~]|\^\[\[[0-9;]{0,16}m|\[\d{1,3}(?:;\d{1,3}){0,5}m|\[m(?=\s|$)"
)
"""Colours and other escapes (ECMA-48), also where a copy has lost the escape character or shows it
as `^[`."""
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\ufeff]")
BORDERS = re.compile(r"\A[\u2502\u2503] ?|\s{0,400}[\u2502\u2503]\Z")
REPEATED = re.compile(r" \[repeated \d{1,9}x across cluster\].{0,200}\Z")

VLLM = re.compile(rf"{_VLLM} ?")
"""vLLM's logger, old form `ERROR date file:line]` and new form `ERROR date [file:line]`."""
GLUED = re.compile(rf"(?:(?:{_PROCESS}) ?){{0,4}}{_VLLM}")
"""A logger's header behind something that ended without a newline, or behind a prefix that is not
known."""
PROCESS = re.compile(rf"(?:{_PROCESS}) ?|{_RANK}")
PID = re.compile(r"\bpid=(\d{1,10})")
UVICORN = re.compile(rf"{_LEVEL}:(?: {{1,10}}|[\w.]{{1,80}}:)")
"""uvicorn (`ERROR:    text`) and Python's basicConfig (`ERROR:name:text`)."""
NCCL = re.compile(
    r"(?:\[[\d :.-]{8,40}\] )?(?:[\w.-]{1,100}:(?P<pid>\d{1,10}):\d{1,10} )?(?:\[\d{1,3}\] )?"
    r"(?:\d{1,12}(?:\.\d{1,9})? )?(?:[\w./-]{1,120}:\d{1,6} )?(?:\([\w:~]{1,80}\) )?"
    r"NCCL (?P<nccl>WARN|INFO|TRACE|CALL|ERROR) ?"
)
C10 = re.compile(
    r"\[(?P<letter>[IWEF])(?:\d{3,4} [\d:.]{8,18}(?: \d{1,12})?)? ?[\w./-]{1,120}:\d{1,6}\] ?"
    r"|(?P<glog>[IWEF])\d{4} [\d:.]{8,18} {1,4}\d{1,12} [\w./-]{1,160}:\d{1,6}\] ?"
)
PLAIN = re.compile(
    "|".join(
        (
            # Times: ISO (docker -t, CRI, CI services), syslog, the seconds of BuildKit.
            rf"\[?{_DATE}\]?(?: (?:stdout|stderr) [FP] | ?\| | - |: |\t| |\Z)",
            r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [\w.-]{1,100} "
            r"[\w.@/\\:-]{1,100}?(?:\[\d{1,10}\])?: ?",
            r"#\d{1,5} (?:\d{1,7}\.\d{1,3} )?|\d{1,6}\.\d{1,3} (?=[ A-Za-z(\[-])",
            # Programs that run others: compose, kubectl, systemd, grep, torchrun, mpirun.
            r"(?=[A-Za-z])[\w.-]{1,80} {0,20}\| (?! )",
            r"\[(?:pod/|resource\.)[^\]]{1,200}\] ",
            r"(?=[A-Za-z])[\w.-]{1,60}\[\d{1,10}\]: ?",
            r"(?=[\w./-]{1,200}\.(?:log|out|txt|err))[\w./-]{1,200}:(?:\d{1,9}:)?(?=\()",
            r"\[\d{1,6},\d{1,6}\]<std(?:err|out)>:? ?",
            r"##\[(?:error|warning|debug)\]|::(?:error|warning)[^:]{0,200}::",
            r"> (?=\S)",
        )
    )
)
"""Prefixes that say neither severity nor process."""
OUTER: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_LEVEL} {{0,8}}\| [^|]{{1,160}}? ?(?:\||- ) ?",
        rf"(?:- )?[\w.<>-]{{1,100}} - {_LEVEL} - (?:\[[^\]]{{0,120}}\] - )?",
        rf"\[{_LEVEL} {{0,5}}\] (?:[\w.-]{{1,80}} ){{0,3}}(?:- )?",
        rf"{_LEVEL}\s{{1,8}}[\w./<>-]{{1,120}}:\d{{1,6}} -- ",
        rf"[\w.]{{1,100}} \d{{1,10}} {_LEVEL}\s{{1,8}}",
        rf"{_LEVEL} \d{{1,10}} \[[\w./-]{{1,120}}:\d{{1,6}}\] ?",
        rf"{_LEVEL} (?=\d{{4}}-)",
    )
)
"""Loggers of programs around the server. Their severity is that of the collector's choice: a line
of a traceback may well be called INFO."""
AFTER_TIME = re.compile(rf"{_LEVEL}\s{{1,8}}(?=\S)")
SAYS_LEVEL = re.compile(r"TRACE|DEBUG|INFO|NOTICE|WARN|ERROR|CRITICAL|FATAL")
